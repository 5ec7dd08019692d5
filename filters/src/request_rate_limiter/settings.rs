//! Settings of a limiter.

use http::StatusCode;

use super::access::AccessList;
use super::cost::Cost;
use super::enforcement::Enforcement;
use crate::headers::HeaderNames;
use crate::key_resolver::KeyResolver;
use crate::reply::ErrorBody;

/// Settings of a limiter. `Default` is Spring's, with a problem body.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The key resolver of rules without one of their own.
    pub key_resolver: KeyResolver,
    /// The status of denials (`status-code`).
    pub status: StatusCode,
    /// Refuses requests without a key id (`deny-empty-key`). Otherwise rules without a key id for a request are skipped.
    pub deny_empty_key: bool,
    /// The status of that refusal (`empty-key-status`).
    pub empty_key_status: StatusCode,
    /// The cost of a request for a limiter of [one rule](super::RequestRateLimiterLayer::new).
    pub cost: Cost,
    /// The rate limit headers.
    pub headers: HeaderNames,
    /// The body of refusals.
    pub error_body: ErrorBody,
    /// Upper bound of the enforcement of every rule.
    pub enforcement: Enforcement,
    /// Sends `X-RateLimit-Would-Deny` for requests that an observed rule would have denied.
    pub would_deny_header: bool,
    /// Clients that are neither counted nor limited.
    pub exempt: AccessList,
    /// Clients that are refused without being counted, even if they are exempt.
    pub block: AccessList,
    /// The status of that refusal.
    pub block_status: StatusCode,
    /// Handling of denied requests.
    pub on_limit: OnLimit,
}

/// Handling of denied requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OnLimit {
    /// Refuses the request.
    #[default]
    Refuse,
    /// Reroutes the request to this path, through the overflow service. A request that was rerouted already is refused.
    Forward(Box<str>),
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            key_resolver: KeyResolver::default(),
            status: StatusCode::TOO_MANY_REQUESTS,
            deny_empty_key: true,
            empty_key_status: StatusCode::FORBIDDEN,
            cost: Cost::default(),
            headers: HeaderNames::default(),
            error_body: ErrorBody::default(),
            enforcement: Enforcement::FULL,
            would_deny_header: false,
            exempt: AccessList::default(),
            block: AccessList::default(),
            block_status: StatusCode::FORBIDDEN,
            on_limit: OnLimit::default(),
        }
    }
}
