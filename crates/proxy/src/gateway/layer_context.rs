//! State that layers are built with.

use std::sync::Arc;
use std::time::Duration;

use tollgate_filters::circuit_breaker::{Breaker, Rules};
use tollgate_filters::local_response_cache;
use tollgate_limiter::concurrency::{SlotStats, SlotStore};
use tollgate_limiter::metering::Meter;
use tollgate_limiter::plan::PlanSource;
use tollgate_limiter::store::Store;

use crate::http::service::SharedService;
use crate::instrumentation::metrics::Metrics;
use tollgate_config::{ConcurrencyLimiter, RateLimiter, RequestCounter, ResponseCache};

/// Stores, caches, breakers and metrics of the layers of one worker. A dry run has its own implementation.
pub trait LayerContext {
    /// Returns the store of the limiter's buckets.
    fn store(&self, limiter: &RateLimiter) -> Arc<dyn Store>;
    /// Returns the meter of a counter of `route`, which counts under `scope`.
    fn meter(&self, counter: &RequestCounter, route: &Arc<str>, scope: Arc<str>) -> Meter;
    /// Returns the store of the limiter's slots, which are counted in `stats`.
    fn slots(&self, limiter: &ConcurrencyLimiter, stats: Arc<SlotStats>) -> Arc<dyn SlotStore>;
    /// Returns the plans in the Redis hash `hash`, each cached for `cache`; `None` without Redis.
    fn plans(&self, hash: &str, cache: Duration) -> Option<Arc<dyn PlanSource>>;
    /// Returns the response cache of `route`.
    fn response_cache(&self, route: &Arc<str>, cache: &ResponseCache) -> Arc<local_response_cache::ResponseCache>;
    /// Returns the circuit breaker called `name`.
    fn circuit_breaker(&self, name: &Arc<str>, rules: &Rules) -> Arc<Breaker>;
    /// Returns the service that routes a request again, by its current path.
    fn rerouting(&self) -> SharedService;
    /// Returns true if traces are on.
    fn is_traced(&self) -> bool {
        false
    }
    /// Returns true if the keys of verdicts are counted (see [`top_keys`](tollgate_telemetry::top_keys)). Default: true.
    fn counts_keys(&self) -> bool {
        true
    }
    /// Returns true if the access log contains reason codes.
    fn logs_reasons(&self) -> bool;
    /// Metrics of the process, and the index of the worker that writes them.
    fn metrics(&self) -> (&Metrics, usize);
}
