//! State that layers are built with.

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
use tollgate_config::{ConcurrencyLimiter, RateLimiter, RequestCounter, ResponseCache};

/// Stores, caches, breakers and metrics of the layers. The defaults are those of `explain` and `simulate`, where caches are
/// empty, circuit breakers are closed, and `forward:` ends at an upstream without a body.
pub trait LayerContext {
    /// Returns the store of the limiter's buckets.
    fn store(&self, limiter: &RateLimiter) -> Arc<dyn Store>;
    /// Returns the meter of a counter of `route`, which counts under `scope`.
    fn meter(&self, counter: &RequestCounter, route: &Arc<str>, scope: Arc<str>) -> Meter;
    /// Returns the store of the limiter's slots, which are counted in `stats`.
    fn slots(&self, limiter: &ConcurrencyLimiter, stats: Arc<SlotStats>) -> Arc<dyn SlotStore>;
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
