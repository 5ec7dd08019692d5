//! Context of layers outside of traffic, for `explain` and `simulate`.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use tollgate_filters::circuit_breaker::{Breaker, Rules};
use tollgate_filters::local_response_cache;
use tollgate_limiter::concurrency::{SlotStats, SlotStore};
use tollgate_limiter::metering::{Ledger, Meter};
use tollgate_limiter::plan::PlanSource;
use tollgate_limiter::store::Store;
use tower::service_fn;

use crate::gateway::layer_context::LayerContext;
use crate::http::body::Body;
use crate::http::service::SharedService;
use crate::instrumentation::metrics::Metrics;
use crate::state::stores::meter_settings;
use tollgate_config::{ConcurrencyLimiter, RateLimiter, RequestCounter, ResponseCache};

/// Context of layers outside of traffic. Caches are empty, circuit breakers are closed, and `forward:` ends at an upstream
/// without a body.
pub trait DryContext {
    /// Returns the store of the limiter's buckets.
    fn store(&self, limiter: &RateLimiter) -> Arc<dyn Store>;
    /// Returns the store of the limiter's slots, which are counted in `stats`.
    fn slots(&self, limiter: &ConcurrencyLimiter, stats: Arc<SlotStats>) -> Arc<dyn SlotStore>;
    /// Returns the ledger of a counter that counts under `scope`.
    fn ledger(&self, counter: &RequestCounter, scope: &Arc<str>) -> Arc<Ledger>;
    /// Returns true if counters hash key ids.
    fn hashes_ids(&self) -> bool;
    /// Returns the plans in the Redis hash `hash`; `None` gives every key the default plan.
    fn plans(&self, hash: &str, cache: Duration) -> Option<Arc<dyn PlanSource>>;
    /// Metrics that are not shown.
    fn metrics(&self) -> &Metrics;
}

impl<C: DryContext> LayerContext for C {
    fn store(&self, limiter: &RateLimiter) -> Arc<dyn Store> {
        DryContext::store(self, limiter)
    }

    fn meter(&self, counter: &RequestCounter, route: &Arc<str>, scope: Arc<str>) -> Meter {
        let ledger = self.ledger(counter, &scope);
        let settings = meter_settings(counter, route, scope, self.hashes_ids());
        Meter::new(ledger, &settings)
    }

    fn slots(&self, limiter: &ConcurrencyLimiter, stats: Arc<SlotStats>) -> Arc<dyn SlotStore> {
        DryContext::slots(self, limiter, stats)
    }

    fn plans(&self, hash: &str, cache: Duration) -> Option<Arc<dyn PlanSource>> {
        DryContext::plans(self, hash, cache)
    }

    fn response_cache(&self, _: &Arc<str>, cache: &ResponseCache) -> Arc<local_response_cache::ResponseCache> {
        Arc::new(local_response_cache::ResponseCache::new(cache.max_bytes))
    }

    fn circuit_breaker(&self, name: &Arc<str>, rules: &Rules) -> Arc<Breaker> {
        Arc::new(Breaker::new(Arc::clone(name), rules.clone()))
    }

    fn rerouting(&self) -> SharedService {
        empty_upstream()
    }

    fn counts_keys(&self) -> bool {
        false
    }

    fn logs_reasons(&self) -> bool {
        // All local responses carry their reason.
        true
    }

    fn metrics(&self) -> (&Metrics, usize) {
        (DryContext::metrics(self), 0)
    }
}

/// Returns an upstream that responds with 200 and no body.
#[must_use]
pub fn empty_upstream() -> SharedService {
    SharedService::new(service_fn(|_: Request<Body>| std::future::ready(Ok(Response::new(Body::default())))))
}
