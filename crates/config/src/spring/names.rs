//! Names of Spring Cloud Gateway that Tollgate does not take, and why.

/// Filters of Spring's that will come.
const LATER_FILTERS: &[&str] = &[];

/// What Spring does with a Java class or another system, and what to do instead.
const REFUSED: [(&str, &str, &str); 9] = [
    ("ReadBody", "it needs a Java predicate", "match on a header, the query or the path instead"),
    ("CacheRequestBody", "it keeps the body for Java filters", "remove it: bodies stream here"),
    ("ModifyRequestBody", "it needs a Java function", "change the body in the upstream"),
    ("ModifyResponseBody", "it needs a Java function", "change the body in the upstream"),
    ("Hystrix", "Spring Cloud Gateway 3 has removed it", "write `CircuitBreaker`, with the same arguments"),
    ("JsonToGrpc", "it needs a protobuf descriptor and a transcoder", "let the upstream speak JSON"),
    ("Cors", "CORS is no filter", "write `metadata.cors` or `cors` for the route, or `globalcors` for all"),
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
    if LATER_FILTERS.contains(&name) { Known::Later } else { Known::No }
}

/// Every filter that Spring or we have.
pub(crate) fn filters() -> impl Iterator<Item = &'static str> {
    crate::filters::names().into_iter().chain(LATER_FILTERS.iter().copied()).chain(REFUSED.map(|(name, ..)| name))
}

/// Every predicate that Spring or we have.
pub(crate) fn predicates() -> impl Iterator<Item = &'static str> {
    crate::predicates::names().chain(["ReadBody"])
}

/// Settings of Spring Cloud Gateway that are not read yet; a path stands for everything below it.
pub(crate) const LATER_SETTINGS: &[&str] = &[];
