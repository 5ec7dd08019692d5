//! Spring Cloud's service instances: `spring.cloud.discovery` and `spring.cloud.loadbalancer`.

mod instances;
mod no_effect;

pub(crate) use self::no_effect::no_effect;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::de::canonical;
use crate::de::nodes::Nodes;
use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::Time;
use crate::diagnostics::Diagnostics;
use crate::sections::upstreams::balance::Balance;
use crate::sections::upstreams::ejection;
use crate::sections::upstreams::spring::instances::Lists;
use crate::sections::upstreams::spring::instances::{health_check, instance, report_unused_checks};
use crate::sections::upstreams::{EndpointSource, Named, Upstream};
use crate::yaml::NodeKind;

/// Requests without a healthy endpoint.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawLoadBalancer {
    /// Answers them with 404 instead of 503. Default false.
    pub(crate) use404: Option<bool>,
    /// Spring Cloud LoadBalancer's selection of instances.
    #[cfg_attr(test, schemars(skip))]
    configurations: Option<Spanned<String>>,
    /// Spring Cloud LoadBalancer's health checks.
    #[cfg_attr(test, schemars(skip))]
    health_check: Option<Spanned<RawSpringHealth>>,
    /// Spring Cloud LoadBalancer's settings for single services.
    #[cfg_attr(test, schemars(skip))]
    clients: BTreeMap<String, RawSpringClient>,
}

/// `spring.cloud.loadbalancer.clients.NAME`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawSpringClient {
    configurations: Option<Spanned<String>>,
    health_check: Option<Spanned<RawSpringHealth>>,
}

/// `spring.cloud.loadbalancer.health-check`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawSpringHealth {
    path: BTreeMap<String, Spanned<String>>,
    interval: Option<Spanned<Time>>,
    port: Option<Spanned<u16>>,
}

/// Spring's service discovery.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawDiscovery {
    /// Routes from a registry: not supported.
    #[cfg_attr(test, schemars(skip))]
    locator: Option<NodeRef>,
    /// Spring Cloud Commons' switch.
    #[cfg_attr(test, schemars(skip))]
    enabled: Option<Spanned<bool>>,
    /// Spring Cloud Commons' clients of registries.
    #[cfg_attr(test, schemars(skip))]
    client: RawDiscoveryClient,
}

/// `spring.cloud.discovery.client`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawDiscoveryClient {
    simple: RawSimpleDiscovery,
}

/// `spring.cloud.discovery.client.simple`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawSimpleDiscovery {
    instances: BTreeMap<String, Spanned<Vec<Spanned<RawInstance>>>>,
}

/// One of `spring.cloud.discovery.client.simple.instances.NAME`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawInstance {
    uri: Option<Spanned<String>>,
    host: Option<Spanned<String>>,
    port: Option<Spanned<u16>>,
    secure: Option<bool>,
    metadata: BTreeMap<String, Spanned<String>>,
    instance_id: Option<NodeRef>,
    service_id: Option<NodeRef>,
}

/// Reports `discovery.locator` unless it is disabled.
pub(crate) fn locator(discovery: &RawDiscovery, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) {
    let Some(node) = discovery.locator.and_then(|node| nodes.get(node)) else { return };
    let NodeKind::Map(entries) = &node.kind else { return };
    let enabled = entries.iter().find(|(key, _)| canonical(key) == "enabled").map(|(_, value)| value);
    match enabled.filter(|value| value.scalar().is_some_and(|text| text.eq_ignore_ascii_case("true"))) {
        Some(enabled) => diagnostics
            .error(enabled.span, "`discovery.locator` needs a registry, which the gateway does not use")
            .help("write the routes: `{id: orders, uri: lb://orders, predicates: [Path=/orders/**], filters: [StripPrefix=1]}`, and their endpoints under `upstreams`"),
        None => diagnostics.note(node.span.key(), "`discovery.locator` is disabled and has no effect").ineffective().help("remove it"),
    }
}

/// Adds an upstream for each service of `spring.cloud.discovery.client.simple.instances`.
pub(super) fn add(
    named: &mut Named,
    discovery: &RawDiscovery,
    loadbalancer: &RawLoadBalancer,
    diagnostics: &mut Diagnostics,
) {
    let instances = &discovery.client.simple.instances;
    if let Some(Spanned { value: false, span }) = discovery.enabled {
        if !instances.is_empty() {
            diagnostics
                .warn(span, "`spring.cloud.discovery.enabled: false` leaves `lb://` without the instances listed here")
                .help("remove it");
        }
        return;
    }
    let general = Lists::read(loadbalancer.configurations.as_ref(), diagnostics);
    let of_client = |name: &str| loadbalancer.clients.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    report_unused_checks(loadbalancer.health_check.as_ref(), general.checked, diagnostics);
    for (name, list) in instances {
        if named.contains_key(name) {
            diagnostics
                .warn(list.span.key(), format!("`{name}` is defined under `upstreams`, too, which wins"))
                .help("keep one of them");
            continue;
        }
        let client = of_client(name).map(|(_, client)| client);
        let lists = match client.and_then(|client| client.configurations.as_ref()) {
            Some(own) => Lists::read(Some(own), diagnostics),
            None => general,
        };
        let checks = client.and_then(|client| client.health_check.as_ref()).or(loadbalancer.health_check.as_ref());
        let endpoints: Option<Vec<_>> =
            list.value.iter().map(|one| instance(one, lists.weighted, diagnostics)).collect();
        let upstream = endpoints.filter(|endpoints| {
            if endpoints.is_empty() {
                diagnostics.error(list.span, format!("`{name}` has no instances"));
            }
            !endpoints.is_empty()
        });
        let upstream = upstream.map(|endpoints| Upstream {
            name: name.as_str().into(),
            endpoints: EndpointSource::Listed(endpoints),
            // Default of Spring.
            balance: Balance::RoundRobin,
            health: if lists.checked { health_check(name, checks, diagnostics) } else { None },
            ejection: ejection::by_default(),
        });
        named.insert(name.clone(), upstream.map(Arc::new));
    }
}
