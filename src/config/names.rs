//! Names of Spring Cloud Gateway that Tollgate does not take, and why.

use super::de::canonical;

/// Predicates that can be used.
pub(crate) const PREDICATES: [&str; 11] = [
    "Path",
    "Method",
    "Host",
    "Header",
    "Query",
    "Cookie",
    "After",
    "Before",
    "Between",
    "RemoteAddr",
    "CloudFoundryRouteService",
];

/// Predicates of Spring's that will come.
const LATER_PREDICATES: [&str; 3] = ["XForwardedRemoteAddr", "Weight", "Version"];

/// Filters of Spring's that will come.
const LATER_FILTERS: [&str; 7] = [
    "CircuitBreaker",
    "Cors",
    "FallbackHeaders",
    "RemoveJsonAttributesResponseBody",
    "RequestHeaderSize",
    "Retry",
    "SecureHeaders",
];

/// What Spring does with a Java class or another system, and what to do instead.
const REFUSED: [(&str, &str, &str); 8] = [
    ("ReadBody", "it needs a Java predicate", "match on a header, the query or the path instead"),
    ("CacheRequestBody", "it keeps the body for Java filters", "remove it: bodies stream here"),
    ("ModifyRequestBody", "it needs a Java function", "change the body in the upstream"),
    ("ModifyResponseBody", "it needs a Java function", "change the body in the upstream"),
    ("JsonToGrpc", "it needs a protobuf descriptor and a transcoder", "let the upstream speak JSON"),
    ("LocalResponseCache", "it needs a response cache", "put a caching proxy before or behind the gateway"),
    ("SaveSession", "it needs Spring's web session", "remove it: the gateway keeps no sessions"),
    ("TokenRelay", "it needs an OAuth2 login", "let an authenticating proxy in front set the Authorization header"),
];

/// Where a name stands that is neither a predicate nor a filter we can use.
pub(crate) enum Known {
    /// Spring has it, we will.
    Later,
    /// Spring has it, we won't: why, and what to use instead.
    Refused(&'static str, &'static str),
    /// Nobody has it.
    No,
}

/// Looks up a predicate's or a filter's name that cannot be used.
pub(crate) fn look_up(name: &str) -> Known {
    if let Some((_, why, instead)) = REFUSED.iter().find(|(refused, ..)| *refused == name) {
        return Known::Refused(why, instead);
    }
    if LATER_PREDICATES.contains(&name) || LATER_FILTERS.contains(&name) { Known::Later } else { Known::No }
}

/// Every filter that Spring or we have.
pub(crate) fn filters() -> impl Iterator<Item = &'static str> {
    super::filters::names().into_iter().chain(LATER_FILTERS).chain(REFUSED.map(|(name, ..)| name))
}

/// Every predicate that Spring or we have.
pub(crate) fn predicates() -> impl Iterator<Item = &'static str> {
    PREDICATES.into_iter().chain(LATER_PREDICATES).chain(["ReadBody"])
}

/// Settings of Spring Cloud Gateway that are not read yet; a path stands for everything below it.
pub(crate) const LATER_SETTINGS: [&str; 15] = [
    "globalcors",
    "x-forwarded",
    "forwarded",
    "metrics",
    "streaming-media-types",
    "route-filter-cache-enabled",
    "handler-mapping",
    "httpserver",
    "predicate",
    "actuator",
    "restrictive-property-accessor",
    "redis-route-definition-repository",
    "observability",
    "filter.secure-headers",
    "filter.local-response-cache",
];

/// Settings of Spring Data Redis that say how Java's clients work, and what stands for them here; a path stands for
/// everything below it.
const NO_EFFECT: [(&str, &str); 7] = [
    ("redis.lettuce", "a worker shares few connections and pipelines over them: `connections` says how many"),
    ("redis.jedis", "a worker shares few connections and pipelines over them: `connections` says how many"),
    ("redis.client-type", "the gateway has a client of its own"),
    ("redis.client-name", "`CLIENT LIST` shows its connections as `lib-name=tollgate`"),
    ("redis.connect-timeout", "connections are made in the background: no request waits for one"),
    ("redis.repositories", "the gateway keeps counters, no entities"),
    ("redis.cluster.max-redirects", "redirects are followed while `timeout` lasts"),
];

/// What stands here for the setting of Spring's at `path`, when it means nothing itself.
pub(crate) fn no_effect(path: &[String]) -> Option<&'static str> {
    let begins = |known: &str| {
        let steps: Vec<&str> = known.split('.').collect();
        path.len() >= steps.len() && steps.iter().zip(path).all(|(step, key)| canonical(step) == canonical(key))
    };
    NO_EFFECT.iter().find(|(known, _)| begins(known)).map(|(_, instead)| *instead)
}
