//! Names of predicates and filters: those that exist here, and those of Spring Cloud Gateway that are refused.

/// Names that are refused because they need Java or another system: the name, the reason and the replacement.
const REFUSED: [(&str, &str, &str); 11] = [
    ("ReadBody", "it needs a Java predicate", "match on a header, the query or the path instead"),
    ("CacheRequestBody", "it keeps the body for Java filters", "remove it: bodies stream here"),
    ("ModifyRequestBody", "it needs a Java function", "change the body in the upstream"),
    ("ModifyResponseBody", "it needs a Java function", "change the body in the upstream"),
    (
        "JsonToGrpc",
        "it needs a protobuf descriptor and a transcoder",
        "let the upstream speak JSON, or put a transcoder such as Envoy's between; then `filter-beans: {JsonToGrpc: skip}` leaves it out",
    ),
    ("Cors", "CORS is no filter", "write `metadata.cors` or `cors` for the route, or `globalcors` for all"),
    ("SaveSession", "it needs Spring's web session", "remove it: the gateway keeps no sessions"),
    (
        "RateLimit",
        "its limit is set in Java",
        "write `{name: RequestRateLimiter, args: {replenish-rate: 10, key-resolver: ip}}`",
    ),
    ("Uri", "it is the target of a route of the servlet gateway", "write `uri` beside `filters`"),
    ("Lb", "it is the target of a route of the servlet gateway", "write `uri: lb://NAME` beside `filters`"),
    ("TokenRelay", "it needs an OAuth2 login", "let an authenticating proxy in front set the Authorization header"),
];

/// Item of a list of filters in place of a filter that is left out, so that the filters after it keep their positions.
pub const SKIP: &str = "skip";

/// Name of `CircuitBreaker` in Spring Cloud Gateway 2.
pub const HYSTRIX: &str = "Hystrix";

/// The refused name that is a predicate; all others are filters.
const REFUSED_PREDICATE: &str = "ReadBody";

/// Reason for refusing a name that Spring Cloud Gateway has.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// Why it is refused.
    pub reason: &'static str,
    /// Replacement.
    pub instead: &'static str,
}

/// Returns the reason for refusing `name`; `None` for names that Spring does not have or that exist here.
pub fn refusal(name: &str) -> Option<Refusal> {
    let (_, reason, instead) = REFUSED.iter().find(|(refused, ..)| *refused == name)?;
    Some(Refusal { reason, instead })
}

/// Names of the predicates and filters that exist here.
#[derive(Clone, Debug)]
pub struct KnownNames {
    predicates: Vec<&'static str>,
    filters: Vec<&'static str>,
}

impl KnownNames {
    /// Returns the names that exist here.
    pub fn new(predicates: Vec<&'static str>, filters: Vec<&'static str>) -> Self {
        Self { predicates, filters }
    }

    /// Returns the names of all predicates, here or in Spring.
    pub fn all_predicates(&self) -> impl Iterator<Item = &'static str> {
        self.predicates.iter().copied().chain([REFUSED_PREDICATE])
    }

    /// Returns the names of all filters, here or in Spring.
    pub fn all_filters(&self) -> impl Iterator<Item = &'static str> {
        self.filters.iter().copied().chain(REFUSED.map(|(name, ..)| name)).chain([HYSTRIX])
    }
}
