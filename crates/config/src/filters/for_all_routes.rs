//! `filter:`: settings that apply to filters on all routes.

use crate::de::{Flag, Size, Spanned, Time, Word};
use crate::rate_limiter::for_all_routes::RawLimiterSettings;

/// Settings of filters on all routes.
#[section]
pub(crate) struct RawFilterSettings {
    /// Headers that apply to one connection only.
    pub(crate) remove_hop_by_hop: RawRemoveHopByHop,
    /// Limiters on all routes.
    pub(crate) request_rate_limiter: RawLimiterSettings,
    /// Headers that `SecureHeaders` adds on all routes.
    pub(crate) secure_headers: Option<Spanned<RawSecureHeaders>>,
    /// `LocalResponseCache` on all routes.
    pub(crate) local_response_cache: RawLocalResponseCache,
    /// `Retry` on all routes.
    pub(crate) retry: RawRetry,
    /// `RemoveJsonAttributesResponseBody` on all routes.
    pub(crate) remove_json_attributes_response_body: RawRemoveJsonAttributes,
}

/// Headers that apply to one connection only.
#[section]
pub(crate) struct RawRemoveHopByHop {
    /// Replaces the list of headers that are removed in both directions. Default: those of RFC 9110 §7.6.1, and Spring's.
    #[cfg_attr(test, schemars(example = &["connection", "keep-alive", "x-application-context"]))]
    pub(crate) headers: Option<Vec<Spanned<String>>>,
}

/// Headers that `SecureHeaders` adds.
#[section(Clone)]
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
    /// Value of `Content-Security-Policy`. Default: Spring's, which allows scripts over https only.
    pub(crate) content_security_policy: Option<Spanned<String>>,
    /// Value of `X-Download-Options`. Default `noopen`.
    pub(crate) download_options: Option<Spanned<String>>,
    /// Value of `X-Permitted-Cross-Domain-Policies`. Default `none`.
    pub(crate) permitted_cross_domain_policies: Option<Spanned<String>>,
    /// Value of `Permissions-Policy`, which is added if enabled. Default: Spring's, which forbids everything.
    pub(crate) permissions_policy: Option<Spanned<String>>,
    /// Headers to add besides the default ones: `permissions-policy`. Default: none.
    pub(crate) enable: Option<Vec<Spanned<String>>>,
    /// Names of headers not to add. Default: none.
    pub(crate) disable: Option<Vec<Spanned<String>>>,
}

/// Treatment of `Retry-After`.
#[word]
pub(crate) enum RetryAfterWord {
    /// Retries wait for the backoff only.
    Ignore,
    /// Retries wait as long as the response says.
    Obey,
}

/// Retries.
#[section]
pub(crate) struct RawRetry {
    /// `Retry-After` of responses that are retried: `obey` or `ignore`. Default `obey`; in an application.yml `ignore`.
    pub(crate) retry_after: Option<RetryAfterWord>,
}

/// Cache of responses.
#[section]
pub(crate) struct RawLocalResponseCache {
    /// Enables a shared cache for routes without a `LocalResponseCache` of their own.
    pub(crate) enabled: Flag<false>,
    /// Upper bound of the freshness lifetime of a response. Default 5m.
    pub(crate) time_to_live: Option<Spanned<Time>>,
    /// Bytes per cache, headers included. Default: 64MB, or its part of an eighth of the memory, which the caches without a size share; Spring's is unbounded.
    pub(crate) size: Option<Spanned<Size>>,
    /// Position of a `LocalResponseCache` among the filters of its route: `listed`, or `first`, before all others and so before limiters. Default {}; in an application.yml `first`.
    pub(crate) position: Word<CachePosition>,
    /// Cache directives of requests.
    pub(crate) request: RawCacheRequest,
}

/// Position of a `LocalResponseCache` among the filters of its route.
#[word(Default)]
pub(crate) enum CachePosition {
    /// As in the file.
    #[default]
    Listed,
    /// Before all others.
    First,
}

/// Cache directives of requests.
#[section]
pub(crate) struct RawCacheRequest {
    /// Effect of a request's `no-cache`: `revalidate` the cached response, also for `max-age`; `skip-update-cache-entry` or `update-cache-entry`, as in Spring. Default `revalidate`; `skip-update-cache-entry` in a Spring file.
    pub(crate) no_cache_strategy: Option<RawNoCacheStrategy>,
}

/// Effect of a request's `no-cache`.
#[word]
pub(crate) enum RawNoCacheStrategy {
    /// It asks the upstream if the cached response is still valid. So does `max-age` for an older response.
    Revalidate,
    /// It bypasses the cache.
    SkipUpdateCacheEntry,
    /// The new response replaces the cached one.
    UpdateCacheEntry,
}

/// Bodies that `RemoveJsonAttributesResponseBody` reads.
#[section]
pub(crate) struct RawRemoveJsonAttributes {
    /// Largest JSON body that can be filtered; for a larger one the response is 500. Default 1MB.
    pub(crate) max_size: Option<Spanned<Size>>,
}

/// `SetStatus` on all routes.
#[section]
pub(crate) struct RawSetStatus {
    /// Header that `SetStatus` adds with the upstream's own status. Default: none.
    #[cfg_attr(test, schemars(example = &"X-Original-Status"))]
    pub(crate) original_status_header_name: Option<Spanned<String>>,
}
