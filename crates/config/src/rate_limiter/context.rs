//! Settings and registries that all limiters of one file share.

use std::cell::RefCell;
use std::collections::BTreeMap;

use http::StatusCode;
use tollgate_filters::headers::HeaderNames;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_limiter::metering::{Dimensions, Period};
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::OnStoreFailure;

use crate::key_resolvers::{KeyResolvers, Preflights};
use crate::rate_limiter::words::ErrorBodyWord;

/// Settings and registries that all limiters of one file share.
pub(crate) struct LimiterContext<'c> {
    pub(crate) key_resolvers: &'c KeyResolvers<'c>,
    /// `filter.request-rate-limiter.deny-empty-key`.
    pub(crate) deny_empty_key: bool,
    /// `filter.request-rate-limiter.empty-key-status-code`.
    pub(crate) empty_key_status: StatusCode,
    /// `filter.request-rate-limiter.throw-on-limit`.
    pub(crate) throw_on_limit: bool,
    /// `filter.request-rate-limiter.error-body`.
    pub(crate) error_body: ErrorBodyWord,
    /// `filter.request-rate-limiter.on-store-failure`.
    pub(crate) on_store_failure: Option<OnStoreFailure>,
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
