//! Results of dry runs.

use std::collections::BTreeMap;

use tollgate_limiter::rule::Rule;

use tollgate_config::StoreKind;
use tollgate_proxy::upstream::balance::ReportedState;

/// Result of a dry run.
#[reply(Clone, Debug, Default, PartialEq, Eq, ::serde::Deserialize)]
pub struct Explanation {
    /// Reason if the request is refused before routing. The other fields are empty then.
    pub refused: Option<String>,
    /// True if an endpoint of the gateway itself serves the request, before all routes. The other fields are empty then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_endpoint: bool,
    /// Routes that were tried before and do not match.
    pub passed_over: Vec<SkippedRoute>,
    /// Route that matches; without one the response is 404.
    pub route: Option<MatchedRoute>,
    /// True if no route of the file matches, and `discovery.locator` adds routes that only a running gateway knows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lacks_locator_routes: bool,
    /// Judgement of a request with an `Origin` field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cors: Option<CorsJudgement>,
}

/// Route that does not match.
#[reply(Clone, Debug, PartialEq, Eq, ::serde::Deserialize)]
pub struct SkippedRoute {
    /// Id of the route.
    pub route: String,
    /// First predicate that does not match, as in the file.
    pub predicate: String,
    /// Value that the predicate examined.
    pub seen: String,
}

/// Judgement of the CORS policy on a request with an `Origin` field.
#[reply(Clone, Debug, PartialEq, Eq, ::serde::Deserialize)]
pub struct CorsJudgement {
    /// Path pattern of the policy; null if the path has none, so that browsers deny scripts of other origins.
    pub policy: Option<String>,
    /// Verdict.
    pub verdict: CorsVerdict,
    /// Header fields that the response gets, `Vary` excluded.
    pub headers: BTreeMap<String, Vec<String>>,
}

/// Verdict of a CORS policy.
#[reply(Clone, Copy, Debug, PartialEq, Eq, ::serde::Deserialize)]
pub enum CorsVerdict {
    /// The path has no policy: the request passes, and its response has no CORS fields.
    NoPolicy,
    /// The request passes.
    Allowed,
    /// The request is a preflight: 200 before the filters.
    Preflight,
    /// The origin is refused: 403 before the filters.
    RefusedOrigin,
    /// The method is refused: 403 before the filters.
    RefusedMethod,
    /// The header fields that a preflight names are refused: 403 before the filters.
    RefusedHeaders,
}

/// Route that matches, and the effect of its filters.
#[reply(Clone, Debug, PartialEq, Eq, ::serde::Deserialize)]
pub struct MatchedRoute {
    /// Id of the route.
    pub id: String,
    /// `uri`, as in the file.
    pub uri: String,
    /// Predicates, as in the file.
    pub predicates: Vec<String>,
    /// URI template variables of `Path` and `Host` patterns.
    pub variables: BTreeMap<String, String>,
    /// Filters in the order of execution, default filters included.
    pub filters: Vec<FilterTrace>,
    /// Request to the upstream; null if the gateway responds.
    pub forwarded: Option<ForwardedRequest>,
    /// Response of a filter or of the CORS policy.
    pub answered: Option<LocalResponse>,
    /// State of the upstream and of circuit breakers in a running gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveRoute>,
}

/// Filter, and the keys that it counts.
#[reply(Clone, Debug, PartialEq, Eq, ::serde::Deserialize)]
pub struct FilterTrace {
    /// Filter, as in the file.
    pub filter: String,
    /// Named arguments with their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<[String; 2]>")]
    pub arguments: Vec<(String, String)>,
    /// Keys under which a limiter or counter counts the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<CountedKey>,
    /// Rules of a limiter that do not apply to the request, because of their `when`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped_rules: Vec<SkippedRule>,
}

/// Rule whose `when` does not match.
#[reply(Clone, Debug, PartialEq, Eq, ::serde::Deserialize)]
pub struct SkippedRule {
    /// Name of the rule, as in metrics.
    pub rule: String,
    /// Plan of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// First predicate of its `when` that does not match, as in the file.
    pub predicate: String,
    /// Value that the predicate examined.
    pub seen: String,
}

/// [`CountedKey::rule`] of a `RequestCounter`.
pub(super) const REQUEST_COUNTER: &str = "request counter";

/// Key under which one rule or counter counts the request.
#[reply(Clone, Debug, PartialEq, Eq, ::serde::Deserialize)]
pub struct CountedKey {
    /// Rule in a few words.
    pub rule: String,
    /// Scope, which separates the buckets of different rules.
    pub scope: String,
    /// Key id of the request.
    pub key_id: String,
    /// Tokens that the request costs.
    pub cost: u64,
    /// True if the rule is only observed for this key: it denies nothing.
    pub observed: bool,
    /// Keys in Redis; empty if counts are kept in memory.
    pub redis_keys: Vec<String>,
    /// State of the key in a running gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveLimit>,
    /// Bucket of a rate limiter, to read its state.
    #[serde(skip)]
    pub bucket: Option<Bucket>,
}

/// Bucket of a key under a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Key id.
    pub key_id: Box<[u8]>,
    /// The rule.
    pub rule: Rule,
    /// `store` of the limiter.
    pub store: Option<StoreKind>,
    /// True with `atomicity: lock`.
    pub is_locked: bool,
}

/// State of a key under a rule in a running gateway.
#[reply(Clone, Debug, Default, PartialEq, Eq, ::serde::Deserialize)]
pub struct LiveLimit {
    /// Remaining tokens; null if they cannot be read.
    pub remaining: Option<u64>,
    /// Largest number of tokens.
    pub capacity: u64,
    /// True if the rule would not admit the request now.
    pub is_exceeded: bool,
    /// Time until it would, in milliseconds, rounded up; null if it would now or never does. In Redis, an upper bound
    /// under rules with sliding windows or turns.
    pub retry_after_ms: Option<u64>,
    /// Time until all tokens are back, in milliseconds.
    pub reset_after_ms: Option<u64>,
    /// Temporary override of the rule: `numbers`, `unlimited` or `block`.
    #[serde(default, rename = "override", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["numbers", "unlimited", "block"]))]
    pub overridden: Option<String>,
    /// Rule with the numbers of the override, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Reason if the state cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// State of a route's upstream and circuit breakers in a running gateway.
#[reply(Clone, Debug, Default, PartialEq, Eq, ::serde::Deserialize)]
pub struct LiveRoute {
    /// Endpoints of an `lb://` target; empty for others.
    pub endpoints: Vec<LiveEndpoint>,
    /// Circuit breakers of the route's filters that were used.
    pub breakers: Vec<LiveBreaker>,
}

/// Endpoint of an upstream.
#[reply(Clone, Debug, PartialEq, Eq, ::serde::Deserialize)]
pub struct LiveEndpoint {
    /// Address.
    pub endpoint: String,
    /// State.
    #[schemars(extend("enum" = ReportedState::ALL.map(ReportedState::as_str)))]
    pub state: String,
    /// Requests in flight; absent for the `uri` of a route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u64>,
    /// Failed attempts since the latest response.
    #[serde(default)]
    pub consecutive_failures: u32,
    /// Latest failed attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LiveFailure>,
    /// Reason of the latest health check, while it is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_error: Option<String>,
}

/// Failed attempt at an endpoint.
#[reply(Clone, Debug, PartialEq, Eq, ::serde::Deserialize)]
pub struct LiveFailure {
    /// Time, RFC 3339 in UTC.
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
    /// Description.
    pub error: String,
}

/// Circuit breaker.
#[reply(Clone, Debug, PartialEq, Eq, ::serde::Deserialize)]
pub struct LiveBreaker {
    /// Name.
    pub name: String,
    /// State, as in metrics.
    pub state: String,
}

/// Request to an upstream.
#[reply(Clone, Debug, PartialEq, Eq, ::serde::Deserialize)]
pub struct ForwardedRequest {
    /// Method.
    pub method: String,
    /// URL.
    pub url: String,
    /// Header fields by name, each with its values in order.
    pub headers: BTreeMap<String, Vec<String>>,
}

/// Response of the gateway itself.
#[reply(Clone, Debug, PartialEq, Eq, ::serde::Deserialize)]
pub struct LocalResponse {
    /// Status code.
    pub status: u16,
    /// Reason code, as in the access log.
    pub reason: String,
}
