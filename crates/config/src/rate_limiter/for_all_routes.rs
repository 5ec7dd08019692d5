//! Keys of limiters on all routes.

use crate::de::{Flag, Spanned, Word};
use crate::rate_limiter::value_enums::{ErrorBodyWord, OnStoreFailureWord};
use crate::spec::Status;

/// Settings of limiters on all routes.
#[section]
pub(crate) struct RawLimiterSettings {
    /// Refuses requests without a key.
    pub(crate) deny_empty_key: Flag<true>,
    /// Status of requests without a key, a number or a name; also `empty-key-status`. Default 403.
    #[serde(alias = "empty-key-status")]
    pub(crate) empty_key_status_code: Option<Spanned<Status>>,
    /// Enables Spring's exception for denials, which results in 500. Default false.
    pub(crate) throw_on_limit: Option<Spanned<bool>>,
    /// Body of refusals of `RequestRateLimiter`: `problem` (text, or RFC 9457 for JSON) or `empty`. Default {}; in an application.yml `empty`.
    pub(crate) error_body: Word<ErrorBodyWord>,
    /// Decision of `RequestRateLimiter` while Redis is unreachable: `local`, `allow` or `deny`. Default `local`, with a `quota` `deny`; in an application.yml `allow`.
    pub(crate) on_store_failure: Option<OnStoreFailureWord>,
}

/// Response headers of `RequestRateLimiter` on all routes.
#[section]
pub(crate) struct RawLimiterHeaders {
    /// Enables the headers of limiters.
    pub(crate) include_headers: Flag<true>,
    /// Name of the header with the remaining tokens. Default `X-RateLimit-Remaining`.
    pub(crate) remaining_header: Option<Spanned<String>>,
    /// Name of the header with the rate. Default `X-RateLimit-Replenish-Rate`.
    pub(crate) replenish_rate_header: Option<Spanned<String>>,
    /// Name of the header with the capacity. Default `X-RateLimit-Burst-Capacity`.
    pub(crate) burst_capacity_header: Option<Spanned<String>>,
    /// Name of the header with the tokens per request. Default `X-RateLimit-Requested-Tokens`.
    pub(crate) requested_tokens_header: Option<Spanned<String>>,
    /// Families of header fields: `spring`, `remaining` (of `spring`, that field alone), `draft` (`RateLimit`) and `legacy` (`X-RateLimit-Limit`). Default `spring`.
    pub(crate) headers: Option<Vec<Spanned<String>>>,
}
