//! Service registries: sources of the endpoints of `lb://NAME`.

pub(crate) mod consul;
pub(crate) mod eureka;
pub(crate) mod kubernetes;
pub(crate) mod nacos;
pub(crate) mod registration;
pub(crate) mod server;

use crate::de::Spanned;
use crate::diagnostics::Diagnostics;
use crate::sections::registries::consul::Consul;
use crate::sections::registries::eureka::Eureka;
use crate::sections::registries::kubernetes::Kubernetes;
use crate::sections::registries::nacos::Nacos;
use crate::sections::registries::registration::{CheckedRegistry, RegisteredInstance};

/// Registry with its settings.
#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    /// The registry.
    pub registry: Registry,
    /// The gateway as an instance.
    pub instance: RegisteredInstance,
}

/// Sections of registries, of which a file may have several.
pub(crate) struct RegistrySections {
    pub(crate) consul: Option<Spanned<Consul>>,
    pub(crate) eureka: Option<Spanned<Eureka>>,
    pub(crate) nacos: Option<Spanned<Nacos>>,
    pub(crate) kubernetes: Option<Spanned<Kubernetes>>,
}

/// Checks the registries of a file. Returns those in which services are looked up, in this order, and the registrations of the
/// gateway. `management_port` is the port of the admin listener, if it is set.
pub(crate) fn check(
    sections: RegistrySections,
    management_port: Option<u16>,
    env: &dyn Fn(&str) -> Option<String>,
    diagnostics: &mut Diagnostics,
) -> (Vec<Registry>, Vec<Registration>) {
    let consul = sections.consul.and_then(|section| consul::check(section, diagnostics));
    let eureka = sections.eureka.and_then(|section| eureka::check(section, diagnostics));
    let nacos = sections.nacos.and_then(|section| nacos::check(section, diagnostics));
    let kubernetes = sections.kubernetes.and_then(|section| kubernetes::check(section, env, diagnostics));
    let checked = [
        consul.map(|checked| checked.of(Registry::Consul)),
        eureka.map(|checked| checked.of(Registry::Eureka)),
        nacos.map(|checked| checked.of(Registry::Nacos)),
        kubernetes.map(|checked| checked.of(Registry::Kubernetes)),
    ];
    let mut checked: Vec<_> = checked.into_iter().flatten().collect();
    let registration = |checked: &mut CheckedRegistry<Registry>| {
        let instance = RegisteredInstance { management_port, ..checked.instance.take()? };
        Some(Registration { registry: checked.registry.clone(), instance })
    };
    let registrations = checked.iter_mut().filter_map(registration).collect();
    checked.sort_by_key(|checked| checked.rank);
    let looked_up = checked.into_iter().filter(|checked| checked.is_looked_up);
    (looked_up.map(|checked| checked.registry).collect(), registrations)
}
