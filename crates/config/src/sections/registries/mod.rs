//! Service registries: sources of the endpoints of `lb://NAME`.

pub(crate) mod consul;
pub(crate) mod eureka;
pub(crate) mod kubernetes;
pub(crate) mod nacos;
pub(crate) mod registration;
pub(crate) mod server;

use crate::de::nodes::Nodes;
use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;
use crate::sections::registries::consul::{Consul, RawConsul};
use crate::sections::registries::eureka::{Eureka, RawEureka};
use crate::sections::registries::kubernetes::{Kubernetes, RawKubernetes};
use crate::sections::registries::nacos::{Nacos, RawNacos};
use crate::sections::registries::registration::RegisteredInstance;

/// Registry with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registry {
    /// Consul.
    Consul(Consul),
    /// Eureka.
    Eureka(Eureka),
    /// Nacos.
    Nacos(Nacos),
    /// The API server of a Kubernetes cluster.
    Kubernetes(Kubernetes),
}

/// Registration of the gateway in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The registry.
    pub registry: Registry,
    /// The gateway as an instance.
    pub instance: RegisteredInstance,
}

/// Sections of registries.
#[derive(Clone, Copy)]
pub(crate) struct RegistrySections<'r> {
    pub(crate) consul: Option<&'r Spanned<RawConsul>>,
    pub(crate) eureka: Option<&'r Spanned<RawEureka>>,
    pub(crate) nacos: Option<&'r Spanned<RawNacos>>,
    pub(crate) kubernetes: Option<&'r Spanned<RawKubernetes>>,
}

/// Checks the registries of a file. Returns those in use, in the order in which a name is looked up: by Spring's `order`,
/// then by their place in the file.
pub(crate) fn check(
    sections: RegistrySections<'_>,
    nodes: &Nodes<'_>,
    env: &dyn Fn(&str) -> Option<String>,
    diagnostics: &mut Diagnostics,
) -> Vec<Registry> {
    let consul = sections.consul.and_then(|raw| ranked(raw, consul::check(raw, nodes, diagnostics), Registry::Consul));
    let eureka = sections.eureka.and_then(|raw| ranked(raw, eureka::check(raw, nodes, diagnostics), Registry::Eureka));
    let nacos = sections.nacos.and_then(|raw| ranked(raw, nacos::check(raw, nodes, diagnostics), Registry::Nacos));
    let kubernetes = sections
        .kubernetes
        .and_then(|raw| ranked(raw, kubernetes::check(raw, nodes, env, diagnostics), Registry::Kubernetes));
    let mut ranked_registries: Vec<_> = [consul, eureka, nacos, kubernetes].into_iter().flatten().collect();
    ranked_registries.sort_by_key(|(rank, _)| *rank);
    ranked_registries.into_iter().map(|(_, registry)| registry).collect()
}

/// Adds the place of its section to the order of a registry.
fn ranked<R, C>(
    section: &Spanned<R>,
    checked: Option<(i32, C)>,
    registry: fn(C) -> Registry,
) -> Option<((i32, u32), Registry)> {
    let (order, settings) = checked?;
    Some(((order, section.span.node), registry(settings)))
}

/// Checks the registrations that a file switches on. `management_port` is the port of the admin listener, if it is set.
pub(crate) fn registrations(
    sections: RegistrySections<'_>,
    management_port: Option<u16>,
    nodes: &Nodes<'_>,
    diagnostics: &mut Diagnostics,
) -> Vec<Registration> {
    let consul = sections.consul.and_then(|raw| consul::registration(raw, nodes, diagnostics));
    let eureka = sections.eureka.and_then(|raw| eureka::registration(raw, nodes, diagnostics));
    let nacos = sections.nacos.and_then(|raw| nacos::registration(raw, nodes, diagnostics));
    let consul = consul.map(|(settings, instance)| (Registry::Consul(settings), instance));
    let eureka = eureka.map(|(settings, instance)| (Registry::Eureka(settings), instance));
    let nacos = nacos.map(|(settings, instance)| (Registry::Nacos(settings), instance));
    let registrations = [consul, eureka, nacos].into_iter().flatten();
    registrations
        .map(|(registry, instance)| Registration {
            registry,
            instance: RegisteredInstance { management_port, ..instance },
        })
        .collect()
}
