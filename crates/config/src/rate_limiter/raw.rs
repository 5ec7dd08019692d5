//! Settings of limiters outside of routes, as typed.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::shapes::Scalar;
use crate::de::spanned::Spanned;

/// Requests without a key, and what a denial is.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawEmptyKey {
    /// Whether a request without a key is refused. Default true.
    pub(crate) deny_empty_key: Option<bool>,
    /// The status it is refused with, a number or a name; also `empty-key-status`. Default 403.
    #[serde(alias = "empty-key-status")]
    #[schemars(with = "Option<Scalar>")]
    pub(crate) empty_key_status_code: Option<Spanned<String>>,
    /// Whether a denial is an exception, which is answered 500. Default false.
    pub(crate) throw_on_limit: Option<Spanned<bool>>,
}

/// What `RequestRateLimiter` tells the client.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawLimiterHeaders {
    /// Whether limiters add headers. Default true.
    pub(crate) include_headers: Option<bool>,
    /// Tokens that are left. Default `X-RateLimit-Remaining`.
    pub(crate) remaining_header: Option<Spanned<String>>,
    /// Tokens that flow in each period. Default `X-RateLimit-Replenish-Rate`.
    pub(crate) replenish_rate_header: Option<Spanned<String>>,
    /// Tokens that the bucket holds. Default `X-RateLimit-Burst-Capacity`.
    pub(crate) burst_capacity_header: Option<Spanned<String>>,
    /// Tokens that a request takes. Default `X-RateLimit-Requested-Tokens`.
    pub(crate) requested_tokens_header: Option<Spanned<String>>,
    /// Families of fields: `spring`, `draft` (`RateLimit`) and `legacy` (`X-RateLimit-Limit`). Default `spring`.
    pub(crate) headers: Option<Vec<Spanned<String>>>,
}
