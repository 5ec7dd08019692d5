//! Settings of filters outside of routes, as typed.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::spanned::Spanned;
use crate::de::units::{Size, Time};
use crate::rate_limiter::raw::RawEmptyKey;

/// What `SecureHeaders` adds.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawSecureHeaders {
    /// Value of `X-Xss-Protection`. Default `1 ; mode=block`.
    pub(crate) xss_protection_header: Option<Spanned<String>>,
    /// Value of `Strict-Transport-Security`. Default `max-age=631138519`.
    pub(crate) strict_transport_security: Option<Spanned<String>>,
    /// Value of `X-Frame-Options`. Default `DENY`.
    pub(crate) frame_options: Option<Spanned<String>>,
    /// Value of `X-Content-Type-Options`. Default `nosniff`.
    pub(crate) content_type_options: Option<Spanned<String>>,
    /// Value of `Referrer-Policy`. Default `no-referrer`.
    pub(crate) referrer_policy: Option<Spanned<String>>,
    /// Value of `Content-Security-Policy`. Default: Spring's, which lets scripts come over https alone.
    pub(crate) content_security_policy: Option<Spanned<String>>,
    /// Value of `X-Download-Options`. Default `noopen`.
    pub(crate) download_options: Option<Spanned<String>>,
    /// Value of `X-Permitted-Cross-Domain-Policies`. Default `none`.
    pub(crate) permitted_cross_domain_policies: Option<Spanned<String>>,
    /// Value of `Permissions-Policy`, which is added where it is enabled. Default: Spring's, which forbids everything.
    pub(crate) permissions_policy: Option<Spanned<String>>,
    /// Headers to add besides the usual ones, by their names: `permissions-policy`. Default: none.
    pub(crate) enable: Option<Vec<Spanned<String>>>,
    /// Headers not to add, by their names. Default: none.
    pub(crate) disable: Option<Vec<Spanned<String>>>,
}

/// How `LocalResponseCache` keeps answers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawLocalResponseCache {
    /// Whether routes without a `LocalResponseCache` of their own share one. Default false.
    pub(crate) enabled: Option<bool>,
    /// How long an answer is fresh, unless its upstream says that it is for less. Default 5m.
    pub(crate) time_to_live: Option<Spanned<Time>>,
    /// Bytes that a cache keeps, headers included. Default 64MB; Spring's has no bound.
    pub(crate) size: Option<Spanned<Size>>,
    /// What a client may ask of the cache.
    pub(crate) request: RawCacheRequest,
}

/// What a client may ask of the cache.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawCacheRequest {
    /// What `Cache-Control: no-cache` does besides asking the upstream: `skip-update-cache-entry` or `update-cache-entry`. Default `skip-update-cache-entry`.
    pub(crate) no_cache_strategy: Option<RawNoCacheStrategy>,
}

/// What a client's `no-cache` does to what is kept.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawNoCacheStrategy {
    /// Nothing.
    SkipUpdateCacheEntry,
    /// The new answer replaces it, for all.
    UpdateCacheEntry,
}

/// What `RemoveJsonAttributesResponseBody` looks into.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawRemoveJsonAttributes {
    /// Bytes that a JSON body may have; a larger one is answered 500, for it cannot be looked into. Default 1MB.
    pub(crate) max_size: Option<Spanned<Size>>,
}

/// Settings of filters wherever they stand.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawFilterSettings {
    /// Headers that concern one connection only.
    pub(crate) remove_hop_by_hop: RawRemoveHopByHop,
    /// Requests without a key.
    pub(crate) request_rate_limiter: RawEmptyKey,
    /// What `SecureHeaders` adds, wherever it stands.
    pub(crate) secure_headers: Option<Spanned<RawSecureHeaders>>,
    /// How `LocalResponseCache` keeps answers, wherever it stands.
    pub(crate) local_response_cache: RawLocalResponseCache,
    /// What `RemoveJsonAttributesResponseBody` looks into, wherever it stands.
    pub(crate) remove_json_attributes_response_body: RawRemoveJsonAttributes,
}

/// Headers that concern one connection only.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawRemoveHopByHop {
    /// Replaces the list of headers that are removed both ways. Default: those of RFC 9110 §7.6.1, and Spring's.
    #[schemars(example = &["connection", "keep-alive", "x-application-context"])]
    pub(crate) headers: Option<Vec<Spanned<String>>>,
}
