//! Service registries: sources of the endpoints of `lb://NAME`.

pub(crate) mod consul;
pub(crate) mod eureka;
pub(crate) mod kubernetes;
pub(crate) mod nacos;
pub(crate) mod registration;
pub(crate) mod server;
pub(crate) mod tls;

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
    let mut found: Vec<(i32, u32, Registry)> = Vec::new();
    if let Some(raw) = sections.consul
        && let Some((order, consul)) = consul::check(raw, nodes, diagnostics)
    {
        found.push((order, raw.span.place, Registry::Consul(consul)));
    }
    if let Some(raw) = sections.eureka
        && let Some((order, eureka)) = eureka::check(raw, nodes, diagnostics)
    {
        found.push((order, raw.span.place, Registry::Eureka(eureka)));
    }
    if let Some(raw) = sections.nacos
        && let Some((order, nacos)) = nacos::check(raw, nodes, diagnostics)
    {
        found.push((order, raw.span.place, Registry::Nacos(nacos)));
    }
    if let Some(raw) = sections.kubernetes
        && let Some((order, kubernetes)) = kubernetes::check(raw, nodes, env, diagnostics)
    {
        found.push((order, raw.span.place, Registry::Kubernetes(kubernetes)));
    }
    found.sort_by_key(|(order, place, _)| (*order, *place));
    found.into_iter().map(|(.., registry)| registry).collect()
}

/// Checks the registrations that a file switches on.
pub(crate) fn registrations(
    sections: RegistrySections<'_>,
    nodes: &Nodes<'_>,
    diagnostics: &mut Diagnostics,
) -> Vec<Registration> {
    let consul = sections.consul.and_then(|raw| consul::registration(raw, nodes, diagnostics));
    let eureka = sections.eureka.and_then(|raw| eureka::registration(raw, nodes, diagnostics));
    let nacos = sections.nacos.and_then(|raw| nacos::registration(raw, nodes, diagnostics));
    let consul = consul.map(|(consul, instance)| Registration { registry: Registry::Consul(consul), instance });
    let eureka = eureka.map(|(eureka, instance)| Registration { registry: Registry::Eureka(eureka), instance });
    let nacos = nacos.map(|(nacos, instance)| Registration { registry: Registry::Nacos(nacos), instance });
    [consul, eureka, nacos].into_iter().flatten().collect()
}
