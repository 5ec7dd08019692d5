//! Rate limit headers of a verdict: families of header fields, and `Retry-After`.
//!
//! | Family | Fields |
//! |---|---|
//! | `spring` | `X-RateLimit-Remaining`, `-Replenish-Rate`, `-Burst-Capacity`, `-Requested-Tokens`, each renamable |
//! | `remaining` | the first of them alone |
//! | `draft` | `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-11), an item for each rule |
//! | `legacy` | `X-RateLimit-Limit`, `-Remaining`, `-Reset` (seconds until the full limit is available again) |
//!
//! If there are several rules, `spring` and `legacy` report the rule that is nearest to denying. A rule that is no
//! bucket reports its limit as rate and burst. Values that depend only on the rules are prepared at load. A response
//! only formats its remaining tokens, without an allocation up to 999.

use http::HeaderName;

#[cfg(feature = "request-rate-limiter")]
pub(crate) use self::rate_limit::CheckedRules;
#[cfg(feature = "concurrency-limiter")]
pub(crate) use self::rate_limit::DEGRADED;
pub use self::rate_limit::{NamedRule, RateLimitHeaders};
#[cfg(feature = "concurrency-limiter")]
pub(crate) use self::value::prepend;
pub use self::value::{number_value, retry_after_secs};

/// Names of the rate limit headers, and the families to send (Spring's `redis-rate-limiter.include-headers`,
/// `.remaining-header` and so on).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderNames {
    /// Enables these headers. `Retry-After` is always sent.
    pub include: bool,
    /// Whole tokens left, `-1` if no store counted the request.
    pub remaining: HeaderName,
    /// Tokens added per second.
    pub replenish_rate: HeaderName,
    /// Capacity of the bucket in tokens.
    pub burst_capacity: HeaderName,
    /// Tokens that a request takes.
    pub requested_tokens: HeaderName,
    /// Families to send.
    pub families: Families,
}

/// Families of header fields to send. The default is Spring's only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Families {
    /// The four fields of Spring Cloud Gateway.
    pub spring: bool,
    /// The first of them: the remaining tokens.
    pub remaining: bool,
    /// `RateLimit-Policy` and `RateLimit`.
    pub draft: bool,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`.
    pub legacy: bool,
}

impl Default for HeaderNames {
    /// Returns Spring's names, enabled.
    fn default() -> Self {
        Self {
            include: true,
            remaining: HeaderName::from_static("x-ratelimit-remaining"),
            replenish_rate: HeaderName::from_static("x-ratelimit-replenish-rate"),
            burst_capacity: HeaderName::from_static("x-ratelimit-burst-capacity"),
            requested_tokens: HeaderName::from_static("x-ratelimit-requested-tokens"),
            families: Families::default(),
        }
    }
}

impl HeaderNames {
    /// Returns true for a rate limit header: one of these names, or `RateLimit*`, `X-RateLimit-*` and `X-Rate-Limit-*`.
    #[must_use]
    pub fn contains(&self, name: &HeaderName) -> bool {
        let configured = [&self.remaining, &self.replenish_rate, &self.burst_capacity, &self.requested_tokens];
        let is_usual = |start: &&str| name.as_str().starts_with(start);
        configured.contains(&name) || ["ratelimit", "x-ratelimit-", "x-rate-limit-"].iter().any(is_usual)
    }
}

impl Default for Families {
    fn default() -> Self {
        Self { spring: true, remaining: false, draft: false, legacy: false }
    }
}

mod draft;
mod rate_limit;
mod value;
