//! Spring's settings that configure Java components.

use crate::de::canonical;

/// Settings of `spring.cloud.loadbalancer` and `spring.cloud.discovery` that configure Java components, with alternatives.
/// A path includes everything below it.
const NO_EFFECT: [(&str, &str); 21] = [
    ("loadbalancer.cache", "the gateway caches endpoints itself; `dns.refresh` sets the interval of DNS lookups"),
    ("loadbalancer.retry", "what is safe to repeat goes to another endpoint by itself; the filter `Retry` does more"),
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
    ("loadbalancer.nacos", "weights and zones of Nacos count without it"),
    ("loadbalancer.ribbon", "the gateway balances by itself, without Ribbon"),
    ("loadbalancer.clients", "write the service's own section below `upstreams`"),
    ("discovery.client", "define endpoints under `discovery.client.simple.instances` or `upstreams`"),
];

/// Returns the alternative to Spring's setting at `path`, if the setting has no effect.
pub(crate) fn no_effect(path: &[String]) -> Option<&'static str> {
    let begins = |known: &str| {
        let steps: Vec<&str> = known.split('.').collect();
        path.len() >= steps.len() && steps.iter().zip(path).all(|(step, key)| canonical(step) == canonical(key))
    };
    NO_EFFECT.iter().find(|(known, _)| begins(known)).map(|(_, instead)| *instead)
}
