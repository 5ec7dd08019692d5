//! Names of the rate limit headers, and the families to send.

use http::HeaderName;

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

impl Default for Families {
    fn default() -> Self {
        Self { spring: true, draft: false, legacy: false }
    }
}
