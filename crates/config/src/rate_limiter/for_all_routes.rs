//! Settings of limiters on all routes.

use std::cell::RefCell;

use http::StatusCode;
use serde::Deserialize;
use tollgate_filters::headers::HeaderNames;

use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;
use crate::key_resolvers::{KeyResolvers, Preflights};
use crate::rate_limiter::context::LimiterContext;
use crate::rate_limiter::settings::{families, throw_on_limit};
use crate::rate_limiter::words::{ErrorBodyWord, OnStoreFailureWord};
use crate::sections::redis::RawRedis;
use crate::spec::types::Status;
use crate::spec::values::{header_name, refusal};

/// Settings of limiters on all routes.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawLimiterSettings {
    /// Refuses requests without a key. Default true.
    pub(crate) deny_empty_key: Option<bool>,
    /// Status of requests without a key, a number or a name; also `empty-key-status`. Default 403.
    #[serde(alias = "empty-key-status")]
    pub(crate) empty_key_status_code: Option<Spanned<Status>>,
    /// Enables Spring's exception for denials, which results in 500. Default false.
    pub(crate) throw_on_limit: Option<Spanned<bool>>,
    /// Body of refusals of `RequestRateLimiter`: `problem` (text, or RFC 9457 for JSON) or `empty`. Default `problem`; in an application.yml `empty`.
    pub(crate) error_body: Option<ErrorBodyWord>,
    /// Decision of `RequestRateLimiter` while Redis is unreachable: `local`, `allow` or `deny`. Default `local`, with a `quota` `deny`; in an application.yml `allow`.
    pub(crate) on_store_failure: Option<OnStoreFailureWord>,
}

/// Response headers of `RequestRateLimiter` on all routes.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawLimiterHeaders {
    /// Enables the headers of limiters. Default true.
    pub(crate) include_headers: Option<bool>,
    /// Name of the header with the remaining tokens. Default `X-RateLimit-Remaining`.
    pub(crate) remaining_header: Option<Spanned<String>>,
    /// Name of the header with the rate. Default `X-RateLimit-Replenish-Rate`.
    pub(crate) replenish_rate_header: Option<Spanned<String>>,
    /// Name of the header with the capacity. Default `X-RateLimit-Burst-Capacity`.
    pub(crate) burst_capacity_header: Option<Spanned<String>>,
    /// Name of the header with the tokens per request. Default `X-RateLimit-Requested-Tokens`.
    pub(crate) requested_tokens_header: Option<Spanned<String>>,
    /// Families of header fields: `spring`, `draft` (`RateLimit`) and `legacy` (`X-RateLimit-Limit`). Default `spring`.
    pub(crate) headers: Option<Vec<Spanned<String>>>,
}

/// Checks the settings of limiters on all routes.
pub(crate) fn context<'c>(
    settings: &RawLimiterSettings,
    headers: &RawLimiterHeaders,
    redis: Option<&Spanned<RawRedis>>,
    key_resolvers: &'c KeyResolvers<'c>,
    preflights: Preflights,
    diagnostics: &mut Diagnostics,
) -> LimiterContext<'c> {
    LimiterContext {
        key_resolvers,
        deny_empty_key: settings.deny_empty_key.unwrap_or(true),
        empty_key_status: refusal(settings.empty_key_status_code, StatusCode::FORBIDDEN, diagnostics),
        throw_on_limit: throw_on_limit(settings.throw_on_limit, diagnostics),
        error_body: settings.error_body.unwrap_or(ErrorBodyWord::Problem),
        on_store_failure: settings.on_store_failure.map(Into::into),
        preflights,
        headers: header_names(headers, diagnostics),
        // Errors in the section are reported there.
        has_redis: redis.is_some(),
        has_cluster: redis.is_some_and(|redis| redis.value.cluster.is_some()),
        counter_buckets: RefCell::default(),
        limiter_buckets: RefCell::default(),
        bucket_resolvers: RefCell::default(),
    }
}

fn header_names(raw: &RawLimiterHeaders, diagnostics: &mut Diagnostics) -> HeaderNames {
    let mut headers = HeaderNames::default();
    headers.include = raw.include_headers.unwrap_or(headers.include);
    for (text, header) in [
        (&raw.remaining_header, &mut headers.remaining),
        (&raw.replenish_rate_header, &mut headers.replenish_rate),
        (&raw.burst_capacity_header, &mut headers.burst_capacity),
        (&raw.requested_tokens_header, &mut headers.requested_tokens),
    ] {
        if let Some(name) = text.as_ref().and_then(|text| header_name(&text.value, text.span, diagnostics)) {
            *header = name;
        }
    }
    if let Some(names) = &raw.headers
        && let Ok(found) = families(names, diagnostics)
    {
        headers.families = found;
    }
    headers
}
