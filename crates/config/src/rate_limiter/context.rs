//! Settings and registries that all limiters of one file share.

use std::cell::RefCell;
use std::collections::BTreeMap;

use http::StatusCode;
use tollgate_filters::headers::HeaderNames;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_limiter::metering::{Dimensions, Period};
use tollgate_limiter::rule::Rule;

use crate::de::Spanned;
use crate::diagnostics::Diagnostics;
use crate::key_resolvers::{KeyResolvers, Preflights};
use crate::predicates::context::PredicateContext;
use crate::rate_limiter::for_all_routes::{RawLimiterHeaders, RawLimiterSettings};
use crate::rate_limiter::shared_settings::{families, throw_on_limit};
use crate::sections::redis::RawRedis;
use crate::sections::server::ErrorFormatWord;
use crate::spec::{header_name, refusal};

/// Settings and registries that all limiters of one file share.
pub(crate) struct LimiterContext<'c> {
    pub(crate) key_resolvers: &'c KeyResolvers<'c>,
    /// Settings of predicates, for `when`.
    pub(crate) predicates: &'c PredicateContext<'c>,
    /// `filter.request-rate-limiter`.
    pub(crate) settings: &'c RawLimiterSettings,
    /// `filter.request-rate-limiter.empty-key-status-code`.
    pub(crate) empty_key_status: StatusCode,
    /// `filter.request-rate-limiter.throw-on-limit`.
    pub(crate) throw_on_limit: bool,
    /// `server.error-format`.
    pub(crate) error_format: ErrorFormatWord,
    /// `preflights`.
    pub(crate) preflights: Preflights,
    /// `redis-rate-limiter`.
    pub(crate) headers: HeaderNames,
    /// True if the file has `redis:`, valid or not.
    pub(crate) has_redis: bool,
    /// True if `redis:` is a cluster.
    pub(crate) has_cluster: bool,
    /// Settings on which `RequestCounter`s with the same `bucket` must agree, by its name.
    pub(crate) counter_buckets: RefCell<BTreeMap<String, (Dimensions, Period)>>,
    /// Rules of shared buckets, by their name.
    pub(crate) limiter_buckets: RefCell<BTreeMap<String, Rule>>,
    /// Key resolvers of shared buckets, by their name.
    pub(crate) bucket_resolvers: RefCell<BTreeMap<String, KeyResolver>>,
}

impl LimiterContext<'_> {
    /// Returns `resolver` with the treatment of preflights without a key.
    pub(crate) fn with_preflights(&self, resolver: KeyResolver) -> KeyResolver {
        match self.preflights {
            Preflights::ByAddress => resolver.or_preflight(),
            Preflights::ByKey => resolver,
        }
    }
}

/// Checks the settings of limiters on all routes.
pub(crate) fn context<'c>(
    settings: &'c RawLimiterSettings,
    headers: &RawLimiterHeaders,
    redis: Option<&Spanned<RawRedis>>,
    (key_resolvers, predicates): (&'c KeyResolvers<'c>, &'c PredicateContext<'c>),
    (preflights, error_format): (Preflights, ErrorFormatWord),
    diagnostics: &mut Diagnostics,
) -> LimiterContext<'c> {
    LimiterContext {
        key_resolvers,
        predicates,
        settings,
        empty_key_status: refusal(settings.empty_key_status_code, StatusCode::FORBIDDEN, diagnostics),
        throw_on_limit: throw_on_limit(settings.throw_on_limit, diagnostics),
        error_format,
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
    let mut headers = HeaderNames { include: raw.include_headers.get(), ..HeaderNames::default() };
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
        && let Ok(families) = families(names, diagnostics)
    {
        headers.families = families;
    }
    headers
}
