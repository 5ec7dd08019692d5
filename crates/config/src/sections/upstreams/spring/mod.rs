//! Spring Cloud's service instances: `spring.cloud.discovery` and `spring.cloud.loadbalancer`.

pub(super) mod instances;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::de::{Flag, Metadata, NodeRef, OptionalText, Or, PositiveTime, Spanned, Subtree, Word, canonical, secs};
use crate::diagnostics::{Diagnostics, Missing, Section};
use crate::sections::upstreams::balance::Balance;
use crate::sections::upstreams::discovered::Discovered;
use crate::sections::upstreams::health::Ejection;
use crate::sections::upstreams::spring::instances::instance;
use crate::sections::upstreams::{EndpointSource, Upstream};
use crate::spring::service_discovery;
use crate::yaml::{Node, NodeKind};

/// Requests without a healthy endpoint.
#[section]
pub(crate) struct RawLoadBalancer {
    /// Answers them with 404 instead of 503.
    pub(crate) use404: Flag<false>,
    /// Zone whose endpoints are preferred: others get requests only if none of it is healthy. Registries report the zone of an endpoint in its metadata. Default: none.
    pub(crate) zone: OptionalText,
    /// Services that prefer `zone`: `all`, or `configured`, those whose `configurations` are `zone-preference`. Default {}; `configured` in a Spring file, as in Spring.
    pub(super) zone_scope: Word<ZoneScope>,
    // Spring Cloud LoadBalancer's selection of instances.
    pub(super) configurations: Option<Spanned<String>>,
    /// Spring Cloud LoadBalancer's health checks.
    #[cfg_attr(test, schemars(skip))]
    pub(super) health_check: Option<Spanned<RawSpringHealth>>,
    /// Spring Cloud LoadBalancer's settings for single services.
    #[cfg_attr(test, schemars(skip))]
    pub(super) clients: BTreeMap<String, RawSpringClient>,
}

/// Services that prefer a zone.
#[word(Default)]
pub(super) enum ZoneScope {
    /// All.
    #[default]
    All,
    /// Those with Spring's `configurations: zone-preference`.
    Configured,
}

/// `spring.cloud.loadbalancer.clients.NAME`.
#[section]
pub(crate) struct RawSpringClient {
    pub(super) configurations: Option<Spanned<String>>,
    pub(super) health_check: Option<Spanned<RawSpringHealth>>,
}

/// `spring.cloud.loadbalancer.health-check`.
#[section]
pub(crate) struct RawSpringHealth {
    pub(super) path: BTreeMap<String, Spanned<String>>,
    interval: Or<PositiveTime, { secs(25) }>,
    port: Option<Spanned<u16>>,
}

/// Spring's service discovery.
#[section]
pub(crate) struct RawDiscovery {
    // Routes from a registry, read by [`crate::locator`].
    pub(super) locator: Option<Subtree>,
    // Spring Cloud Commons' switch.
    pub(crate) enabled: Option<Spanned<bool>>,
    /// Spring Cloud Commons' clients of registries.
    #[cfg_attr(test, schemars(skip))]
    client: RawDiscoveryClient,
}

/// `spring.cloud.discovery.client`.
#[section]
pub(crate) struct RawDiscoveryClient {
    simple: RawSimpleDiscovery,
}

/// `spring.cloud.discovery.client.simple`.
#[section]
pub(crate) struct RawSimpleDiscovery {
    instances: BTreeMap<String, Spanned<Vec<Spanned<RawInstance>>>>,
}

/// One of `spring.cloud.discovery.client.simple.instances.NAME`.
#[section]
pub(crate) struct RawInstance {
    uri: Option<Spanned<String>>,
    host: Option<Spanned<String>>,
    port: Option<Spanned<u16>>,
    secure: Flag<false>,
    metadata: Metadata,
    instance_id: Option<NodeRef>,
    service_id: Option<NodeRef>,
}

impl RawDiscovery {
    /// Returns true if registries add routes.
    pub(crate) fn has_locator(&self) -> bool {
        let enabled = self.locator.as_ref().and_then(|locator| locator.step("enabled"));
        enabled.and_then(Node::scalar).is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }
}

/// Adds an upstream for each service of `spring.cloud.discovery.client.simple.instances`.
pub(super) fn add(
    named: &mut BTreeMap<String, Option<Arc<Upstream>>>,
    discovery: &RawDiscovery,
    services: &Discovered,
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
    for (name, list) in instances {
        if named.contains_key(name) {
            diagnostics
                .warn(list.span.key(), format!("`{name}` is defined under `upstreams`, too, which wins"))
                .help("keep one of them");
            continue;
        }
        let settings = services.settings(name);
        let endpoints: Option<Vec<_>> =
            list.value.iter().map(|one| instance(one, settings, services.zone(settings), diagnostics)).collect();
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
            health: settings.health.clone(),
            slow_start: None,
            ejection: Some(Ejection::default()),
        });
        named.insert(name.clone(), upstream.map(Arc::new));
    }
}

/// Reports `discovery.locator` without a registry, or if it is disabled. Returns true if a registry is missing. `properties` are
/// all of the file.
pub(crate) fn check_locator(
    discovery: &RawDiscovery,
    has_registry: bool,
    properties: &Node,
    diagnostics: &mut Diagnostics,
) -> bool {
    let Some(node) = &discovery.locator else { return false };
    let NodeKind::Map(entries) = &node.kind else { return false };
    let enabled = entries.iter().find(|(key, _)| canonical(key) == "enabled").map(|(_, value)| value);
    let is_on = |value: &&Node| value.scalar().is_some_and(|text| text.trim().eq_ignore_ascii_case("true"));
    let is_off = discovery.enabled.as_ref().is_some_and(|enabled| !enabled.value);
    match enabled.filter(is_on) {
        None if enabled.is_some() && has_registry => false,
        None => {
            diagnostics
                .note(node.span.key(), "`discovery.locator` is disabled and has no effect")
                .ineffective()
                .help("remove it");
            false
        }
        Some(enabled) if is_off || !has_registry && service_discovery::is_switched_off(properties) => {
            diagnostics
                .warn(enabled.span, "`discovery.locator` makes no routes: the registries of the file are switched off")
                .help("switch one of them on, or set `enabled: false` here");
            false
        }
        Some(_) if has_registry || !discovery.client.simple.instances.is_empty() => false,
        Some(enabled) => {
            let value = service_discovery::proposal(properties);
            let missing =
                Missing { section: Section::Registry, name: "registry".to_owned(), value, comment: String::new() };
            diagnostics
                .mistake(enabled.span, "`discovery.locator` needs a registry, which the file does not name: it makes no routes")
                .missing(missing)
                .help(
                    "the application gets it from elsewhere: `bootstrap.yml`, a config server, the environment or Java; add its \
                     address, such as `eureka.client.service-url.defaultZone`, `spring.cloud.nacos.discovery.server-addr` or \
                     `spring.cloud.consul.host`",
                );
            true
        }
    }
}
