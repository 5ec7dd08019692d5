//! Settings that all limiters of one file share.

use std::cell::RefCell;
use std::collections::BTreeMap;

use http::StatusCode;
use tollgate_filters::headers::HeaderNames;
use tollgate_limiter::metering::{Dimensions, Period};
use tollgate_limiter::rule::Rule;

use crate::sections::key_resolvers::KeyResolvers;

/// Settings that all limiters of one file share.
pub(crate) struct Limits<'c> {
    pub(crate) resolvers: KeyResolvers<'c>,
    pub(crate) deny_empty_key: bool,
    pub(crate) empty_key_status: StatusCode,
    pub(crate) throw_on_limit: bool,
    pub(crate) headers: HeaderNames,
    pub(crate) has_redis: bool,
    pub(crate) has_cluster: bool,
    /// What `RequestCounter`s that share a `bucket` must agree on, by its name.
    pub(crate) counted: RefCell<BTreeMap<String, (Dimensions, Period)>>,
    /// The rules of shared buckets, as they are met.
    pub(crate) buckets: RefCell<BTreeMap<String, Rule>>,
}
