//! Settings and registries that all filters of one file share.

use std::cell::RefCell;
use std::collections::BTreeSet;

use http::header::HeaderName;

use crate::filters::for_all_routes::RawFilterSettings;
use crate::rate_limiter::context::LimiterContext;
use crate::sections::resilience::Resilience;
use crate::switches::Switches;
use crate::yaml::Span;

/// Settings and registries that all filters of one file share.
pub(crate) struct FilterContext<'s> {
    /// Disabled filters.
    pub(crate) switches: &'s Switches,
    /// `filter`.
    pub(crate) filter: &'s RawFilterSettings,
    /// Settings of limiters.
    pub(crate) limiters: LimiterContext<'s>,
    /// `resilience4j`.
    pub(crate) resilience: Resilience,
    /// `set-status.original-status-header-name`.
    pub(crate) original_status_header: Option<HeaderName>,
    /// Names of the circuit breakers of routes, collected while they are read.
    pub(crate) breakers: RefCell<BTreeSet<String>>,
    /// Paths that requests are forwarded to within the gateway, collected while routes are read.
    pub(crate) forwards: RefCell<Vec<(Span, String)>>,
}
