//! Settings of a limiter.

use http::{HeaderName, StatusCode};

use crate::key_resolver::KeyResolver;
use crate::reply::ErrorBody;

/// Settings of a limiter. The defaults are those of the rate limiter.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The key resolver.
    pub key_resolver: KeyResolver,
    /// The status of a denial (`status-code`).
    pub status: StatusCode,
    /// Refuses requests without a key id (`deny-empty-key`). Otherwise they pass without a limit.
    pub deny_empty_key: bool,
    /// The status of that refusal (`empty-key-status`).
    pub empty_key_status: StatusCode,
    /// The headers.
    pub headers: HeaderNames,
    /// The body of refusals.
    pub error_body: ErrorBody,
}

/// Names of the headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderNames {
    /// Enables these headers. `Retry-After` is always sent.
    pub include: bool,
    /// Slots per key.
    pub limit: HeaderName,
    /// Free slots after the decision, `-1` if no store counted the request.
    pub remaining: HeaderName,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            key_resolver: KeyResolver::default(),
            status: StatusCode::TOO_MANY_REQUESTS,
            deny_empty_key: true,
            empty_key_status: StatusCode::FORBIDDEN,
            headers: HeaderNames::default(),
            error_body: ErrorBody::default(),
        }
    }
}

// === impl HeaderNames ===

impl Default for HeaderNames {
    fn default() -> Self {
        Self {
            include: true,
            limit: HeaderName::from_static("x-concurrency-limit"),
            remaining: HeaderName::from_static("x-concurrency-remaining"),
        }
    }
}
