//! Spring Cloud's service instances: `spring.cloud.discovery` and `spring.cloud.loadbalancer`.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::de::canonical;
use crate::de::nodes::Nodes;
use crate::de::spanned::Spanned;
use crate::de::units::positive;
use crate::diagnostics::{Diagnostics, suggest};
use crate::sections::upstreams::liveness::default_ejection;
use crate::sections::upstreams::model::{
    Balance, EndpointSource, HealthCheck, ListedEndpoint, Named, Statuses, Upstream,
};
use crate::sections::upstreams::raw::{RawDiscovery, RawInstance, RawLoadBalancer, RawSpringHealth};
use crate::sections::upstreams::target::endpoint;
use crate::yaml::{Kind, Span};

/// Moves `spring.cloud.discovery` and `spring.cloud.loadbalancer` to the gateway's sections of those names. Reports
/// Reports `discovery.locator` unless it is disabled.
pub(crate) fn locator(discovery: &RawDiscovery, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) {
    let Some(node) = discovery.locator.and_then(|node| nodes.get(node)) else { return };
    let Kind::Map(entries) = &node.kind else { return };
    let enabled = entries.iter().find(|(key, _)| canonical(key) == "enabled").map(|(_, value)| value);
    match enabled.filter(|value| value.scalar().is_some_and(|text| text.eq_ignore_ascii_case("true"))) {
        Some(enabled) => diagnostics
            .error(enabled.span, "`discovery.locator` needs a registry, which the gateway does not use")
            .help("write the routes: `{id: orders, uri: lb://orders, predicates: [Path=/orders/**], filters: [StripPrefix=1]}`, and their endpoints under `upstreams`"),
        None => diagnostics.info(node.span.key(), "`discovery.locator` is disabled and has no effect").ineffective().help("remove it"),
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
    unused_checks(loadbalancer.health_check.as_ref(), general.checked, diagnostics);
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
            ejection: default_ejection(),
        });
        named.insert(name.clone(), upstream.map(Arc::new));
    }
}

/// Features of Spring's instance lists that `configurations` selects.
#[derive(Clone, Copy, Default)]
struct Lists {
    weighted: bool,
    checked: bool,
}

/// Lists that are not supported, with alternatives.
const OTHER_LISTS: [(&str, &str); 5] = [
    (
        "zone-preference",
        "`priority: 1` on endpoints of other zones keeps requests in this one while it has healthy endpoints",
    ),
    ("same-instance-preference", "`balance: consistent-hash` with `hash-by: ip` keeps a client on one endpoint"),
    (
        "request-based-sticky-session",
        "`balance: consistent-hash` with `hash-by: \"cookie:NAME\"` keeps a session on one endpoint",
    ),
    ("subset", "all endpoints are used: connections are made as they are needed"),
    ("api-version", "give each version a route and an upstream of its own"),
];

impl Lists {
    fn read(raw: Option<&Spanned<String>>, diagnostics: &mut Diagnostics) -> Self {
        let Some(Spanned { value, span }) = raw else { return Self::default() };
        let name = value.trim();
        match name {
            "default" => Self::default(),
            "weighted" => Self { weighted: true, checked: false },
            "health-check" => Self { weighted: false, checked: true },
            _ => {
                match OTHER_LISTS.iter().find(|(known, _)| *known == name) {
                    Some((_, instead)) => diagnostics
                        .mistake(*span, format!("`configurations: {name}` has no effect here: all instances are equal"))
                        .ineffective()
                        .help(*instead),
                    None => diagnostics
                        .mistake(*span, format!("unknown list of instances `{name}`"))
                        .help(suggest(name, &["default", "weighted", "health-check"])),
                }
                Self::default()
            }
        }
    }
}

/// Reports health checks that are not selected, which have no effect in Spring either.
fn unused_checks(checks: Option<&Spanned<RawSpringHealth>>, checked: bool, diagnostics: &mut Diagnostics) {
    if let Some(checks) = checks.filter(|_| !checked) {
        diagnostics
            .warn(
                checks.span.key(),
                "`health-check` has no effect without `configurations: health-check`, as in Spring",
            )
            .ineffective()
            .help("add `spring.cloud.loadbalancer.configurations: health-check`");
    }
}

fn instance(raw: &Spanned<RawInstance>, weighted: bool, diagnostics: &mut Diagnostics) -> Option<ListedEndpoint> {
    let (at, raw) = (raw.span, &raw.value);
    let uri = match (&raw.uri, &raw.host) {
        (Some(uri), _) => uri.clone(),
        (None, Some(host)) => {
            let secure = raw.secure.unwrap_or(false);
            let scheme = if secure { "https" } else { "http" };
            let port = raw.port.map_or(if secure { 443 } else { 80 }, |port| port.value);
            Spanned { value: format!("{scheme}://{}:{port}", host.value), span: host.span }
        }
        (None, None) => {
            diagnostics.error(at, "instance without `uri`").help("add `uri: http://host:port`");
            return None;
        }
    };
    // Spring reads invalid weights as 1.
    let weight = raw.metadata.get("weight").filter(|_| weighted).and_then(|weight| weight.value.trim().parse().ok());
    let weight = weight.filter(|weight| (1..=65_535).contains(weight)).unwrap_or(1);
    Some(ListedEndpoint { address: endpoint(&uri, diagnostics)?, weight, priority: 0 })
}

/// Spring's checks of the service `name`: only 200 is a success, and each result counts at once.
fn health_check(
    name: &str,
    raw: Option<&Spanned<RawSpringHealth>>,
    diagnostics: &mut Diagnostics,
) -> Option<HealthCheck> {
    let paths = raw.map(|raw| &raw.value.path);
    let path = paths.and_then(|paths| paths.get(name).or_else(|| paths.get("default")));
    let text = path.map_or("/actuator/health", |path| path.value.trim());
    let Some(path) = text.parse().ok().filter(|_| text.starts_with('/')) else {
        let at = path.map_or(Span::ROOT, |path| path.span);
        diagnostics.error(at, format!("a health check's path must begin with `/`, found `{text}`"));
        return None;
    };
    let raw = raw.map(|raw| &raw.value);
    let interval = raw.and_then(|raw| raw.interval);
    Some(HealthCheck {
        path,
        interval: positive(interval, 25, diagnostics),
        timeout: Duration::from_secs(1),
        healthy: NonZeroU32::MIN,
        unhealthy: NonZeroU32::MIN,
        statuses: Statuses(vec![200..=200]),
        port: raw.and_then(|raw| raw.port).map(|port| port.value).filter(|port| *port > 0),
        host: None,
    })
}

/// Settings of `spring.cloud.loadbalancer` and `spring.cloud.discovery` that configure Java components, with alternatives.
/// A path includes everything below it.
const NO_EFFECT: [(&str, &str); 20] = [
    ("loadbalancer.cache", "the gateway caches endpoints itself; `dns.refresh` sets the interval of DNS lookups"),
    ("loadbalancer.retry", "what is safe to repeat goes to another endpoint by itself; the filter `Retry` does more"),
    (
        "loadbalancer.zone",
        "`priority: 1` on endpoints of other zones keeps requests in this one while it has healthy endpoints",
    ),
    ("loadbalancer.hint", "give each hint a route with a `Header` predicate and an upstream of its own"),
    ("loadbalancer.hint-header-name", "give each hint a route with a `Header` predicate and an upstream of its own"),
    (
        "loadbalancer.sticky-session",
        "`balance: consistent-hash` with `hash-by: \"cookie:NAME\"` keeps a session on one endpoint",
    ),
    ("loadbalancer.subset", "all endpoints are used: connections are made as they are needed"),
    ("loadbalancer.api-version", "give each version a route and an upstream of its own"),
    ("loadbalancer.x-forwarded", "use `trusted-proxies` and `x-forwarded`"),
    ("loadbalancer.eager-load", "upstreams are known from the start"),
    ("loadbalancer.stats", "`tollgate_upstream_…` on `/metrics` describes endpoints"),
    ("loadbalancer.enabled", "`lb://` works wherever `upstreams` are listed"),
    ("loadbalancer.call-get-with-request-on-delegates", "endpoints are chosen with the request at hand"),
    ("loadbalancer.health-check.initial-delay", "endpoints are checked from the start"),
    ("loadbalancer.health-check.repeat-health-check", "checks are repeated as long as the gateway runs"),
    ("loadbalancer.health-check.refetch-instances", "`dns.refresh` sets the interval of DNS lookups"),
    ("loadbalancer.health-check.refetch-instances-interval", "`dns.refresh` sets the interval of DNS lookups"),
    ("loadbalancer.health-check.update-results-list", "an endpoint that fails its checks gets no request"),
    ("loadbalancer.clients", "write the service's own section below `upstreams`"),
    ("discovery.client", "define endpoints under `discovery.client.simple.instances` or `upstreams`"),
];

/// Alternative to Spring's setting at `path`, if the setting has no effect.
pub(crate) fn no_effect(path: &[String]) -> Option<&'static str> {
    let begins = |known: &str| {
        let steps: Vec<&str> = known.split('.').collect();
        path.len() >= steps.len() && steps.iter().zip(path).all(|(step, key)| canonical(step) == canonical(key))
    };
    NO_EFFECT.iter().find(|(known, _)| begins(known)).map(|(_, instead)| *instead)
}
