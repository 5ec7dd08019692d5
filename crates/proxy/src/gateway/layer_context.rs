//! State that the layers of a route are built with, and their positions in it.

use std::sync::Arc;
use std::time::Duration;

use tollgate_filters::circuit_breaker::{self, Breaker};
use tollgate_filters::local_response_cache;
use tollgate_limiter::concurrency::{SlotStats, SlotStore};
use tollgate_limiter::metering::Meter;
use tollgate_limiter::plan::PlanSource;
use tollgate_limiter::store::Store;

use crate::http::service::SharedService;
use crate::instrumentation::metrics::Metrics;
use tollgate_config::{ConcurrencyLimiter, Filter, RateLimiter, RequestCounter, ResponseCache, RouteConditions};

/// Position of a filter in its route.
#[derive(Debug)]
pub struct Position<'r> {
    /// Id of the route.
    pub route_id: &'r Arc<str>,
    /// Filters of the route.
    pub filters: &'r [Filter],
    /// Index of the filter among them.
    pub index: usize,
}

/// Stores, caches, breakers and metrics of the layers. The defaults are those of `explain` and `simulate`, where caches are
/// empty, circuit breakers are closed, and `forward:` ends at an upstream without a body.
pub trait LayerContext {
    /// Returns the store of the buckets of the limiter at `position`.
    fn store(&self, position: &Position<'_>, limiter: &RateLimiter) -> Arc<dyn Store>;
    /// Returns the meter of the counter at `position`, which counts under `scope`.
    fn meter(&self, position: &Position<'_>, counter: &RequestCounter, scope: Arc<str>) -> Meter;
    /// Returns the store of the slots of the limiter at `position`, which are counted in `stats`.
    fn slots(&self, position: &Position<'_>, limiter: &ConcurrencyLimiter, stats: Arc<SlotStats>)
    -> Arc<dyn SlotStore>;
    /// Metrics of the process, and the index of the worker that writes them.
    fn metrics(&self) -> (&Metrics, usize);
    /// Returns the plans in the Redis hash `hash`, each cached for `cache`; `None` gives every key the default plan.
    fn plans(&self, _hash: &str, _cache: Duration) -> Option<Arc<dyn PlanSource>> {
        None
    }
    /// Returns the response cache of `route`.
    fn response_cache(&self, _route: &Arc<str>, cache: &ResponseCache) -> Arc<local_response_cache::ResponseCache> {
        Arc::new(local_response_cache::ResponseCache::new(cache.max_bytes))
    }
    /// Returns the circuit breaker called `name`.
    fn circuit_breaker(&self, name: &Arc<str>, rules: &circuit_breaker::Rules) -> Arc<Breaker> {
        Arc::new(Breaker::new(Arc::clone(name), rules.clone()))
    }
    /// Returns the service that routes a request again, by its current path.
    fn rerouting(&self) -> SharedService {
        SharedService::empty()
    }
    /// Returns true if traces are on.
    fn is_traced(&self) -> bool {
        false
    }
    /// Returns true if the keys of verdicts are counted (see [`top_keys`](tollgate_telemetry::top_keys)).
    fn counts_keys(&self) -> bool {
        false
    }
    /// Returns true if all local responses carry their reason, for an access log with reason codes.
    fn logs_reasons(&self) -> bool {
        true
    }
}

impl Position<'_> {
    /// Returns the number of the filter among those of its kind in the route, from 1.
    #[must_use]
    pub fn number(&self) -> usize {
        let kind = |filter: &Filter| std::mem::discriminant(filter);
        let counted = kind(&self.filters[self.index]);
        self.filters[..=self.index].iter().filter(|filter| kind(filter) == counted).count()
    }

    /// Returns the scope of a counter or a concurrency limiter. Route ids contain no `#`. The keys of the two kinds
    /// have different prefixes, so their numbers may coincide.
    pub(super) fn scope(&self) -> Arc<str> {
        match self.number() {
            1 => Arc::clone(self.route_id),
            number => format!("{}#{number}", self.route_id).into(),
        }
    }

    /// Returns the conditions of the rules of the route.
    pub(super) fn conditions(&self) -> RouteConditions {
        RouteConditions::of(self.filters.iter().filter_map(Filter::as_rate_limiter))
    }

    /// Returns true if a filter of the route reads API keys: the denials of a key are counted.
    pub(super) fn reads_api_keys(&self) -> bool {
        self.filters.iter().any(Filter::reads_api_key)
    }

    /// Returns true if a filter in front of this one acts on responses.
    pub(super) fn is_behind_response_filter(&self) -> bool {
        self.filters[..self.index].iter().any(|filter| filter.properties().acts_on_responses)
    }
}
