//! Settings of filters that stand outside of routes, and CORS, as typed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::{Seconds, Size, Time};

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

/// Who may ask from other origins, by path.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawGlobalCors {
    /// By path pattern: `"[/api/**]"`. The first that matches holds.
    #[schemars(with = "BTreeMap<String, RawCors>")]
    pub(crate) cors_configurations: Option<NodeRef>,
    /// Whether preflights that no route takes are answered. Default false.
    pub(crate) add_to_simple_url_handler_mapping: Option<bool>,
    /// Whether `metadata.cors` of routes counts, as in Spring; what stands here does either way. Default true.
    pub(crate) enabled: Option<Spanned<bool>>,
}

/// Who may ask from other origins.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawCors {
    /// Origins such as `https://example.com`, or `*`. Default: none.
    pub(crate) allowed_origins: Option<Vec<Spanned<String>>>,
    /// Origins with `*` in them and lists of ports: `https://*.example.com:[443,8443]`. Default: none.
    pub(crate) allowed_origin_patterns: Option<Vec<Spanned<String>>>,
    /// Methods, or `*`. Default GET and HEAD.
    pub(crate) allowed_methods: Option<Vec<Spanned<String>>>,
    /// Headers that requests may have, or `*`. Default: none but those that need no leave.
    pub(crate) allowed_headers: Option<Vec<Spanned<String>>>,
    /// Headers of answers that scripts may read. Default: none but those that need no leave.
    pub(crate) exposed_headers: Option<Vec<Spanned<String>>>,
    /// Whether cookies and `Authorization` may go along. Default false.
    pub(crate) allow_credentials: Option<bool>,
    /// Whether public sites may ask those of a private network. Default false.
    pub(crate) allow_private_network: Option<bool>,
    /// How long browsers may remember the answer to a preflight: seconds, or a time such as `30m`. Default: as long as they do by themselves, 5 seconds for the most part.
    pub(crate) max_age: Option<Seconds>,
}
