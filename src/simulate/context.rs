//! Context of the layers in a simulation: buckets in memory on the clock of the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use http::{Request, Response};
use parking_lot::Mutex;
use tollgate_filters::circuit_breaker::{Breaker, Rules};
use tollgate_filters::local_response_cache;
use tollgate_limiter::concurrency::{LeaseStats, LeaseStore, LeaseTable, MemoryLeases};
use tollgate_limiter::metering::{Ledger, Meter, MeterSettings};
use tollgate_limiter::plan::PlanSource;
use tollgate_limiter::store::memory::{Clock, MemoryStore};
use tollgate_limiter::store::{Check, Decision, Store};
use tower::service_fn;

use crate::gateway::layer_context::LayerContext;
use crate::http::body::Body;
use crate::http::service::SharedService;
use crate::telemetry::metrics::Metrics;
use tollgate_config::{ConcurrencyLimiter, Config, RateLimiter, RequestCounter, ResponseCache};

/// Clock that the log sets.
#[derive(Debug, Default)]
pub(super) struct LogClock {
    now_us: AtomicU64,
    /// Times of the further decisions of a request, last first.
    decisions: Mutex<Vec<u64>>,
}

impl LogClock {
    /// Sets the clock for a request at `now_us`, with the times of its decisions.
    pub(super) fn set(&self, now_us: u64, decided_us: impl DoubleEndedIterator<Item = u64>) {
        self.now_us.store(now_us, Relaxed);
        let mut decisions = self.decisions.lock();
        decisions.clear();
        decisions.extend(decided_us.rev());
    }

    /// Advances the clock to the next decision of the request.
    fn advance(&self) {
        if let Some(time) = self.decisions.lock().pop() {
            self.now_us.store(time, Relaxed);
        }
    }
}

impl Clock for LogClock {
    fn now_us(&self) -> u64 {
        self.now_us.load(Relaxed)
    }

    fn wall_us(&self) -> u64 {
        self.now_us()
    }
}

/// Store whose decisions take the time of the log. Requests do not wait for their turn.
struct LogStore {
    memory: MemoryStore,
    clock: Arc<LogClock>,
}

impl Store for LogStore {
    fn decide(&self, checks: &[Check<'_>]) -> Decision {
        self.clock.advance();
        match self.memory.decide(checks) {
            Decision::Ready(mut verdict) => {
                // The layer would wait for the turn. The time of the decision stays that of the request.
                verdict.delay = Duration::ZERO;
                Decision::Ready(verdict)
            }
            pending @ Decision::Pending(_) => pending,
        }
    }

    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        self.memory.settle(check, more, counted_at_us);
    }
}

/// Context of the layers in a simulation.
pub(super) struct LogContext {
    store: Arc<LogStore>,
    pub(super) clock: Arc<LogClock>,
    metrics: Metrics,
}

impl LogContext {
    pub(super) fn new(config: &Config) -> Self {
        let clock = Arc::<LogClock>::default();
        let memory = MemoryStore::with_clock(config.memory.max_keys, Arc::<LogClock>::clone(&clock));
        Self { store: Arc::new(LogStore { memory, clock: Arc::clone(&clock) }), clock, metrics: Metrics::default() }
    }
}

impl LayerContext for LogContext {
    fn store(&self, _: &RateLimiter) -> Arc<dyn Store> {
        Arc::<LogStore>::clone(&self.store)
    }

    fn meter(&self, counter: &RequestCounter, route: &Arc<str>, scope: Arc<str>) -> Meter {
        let settings = MeterSettings {
            scope,
            route: Arc::clone(route),
            dimensions: counter.dimensions,
            period: counter.period,
            ttl: counter.ttl,
            hash_ids: false,
        };
        Meter::new(Arc::new(Ledger::new(1)), &settings)
    }

    fn leases(&self, limiter: &ConcurrencyLimiter, stats: Arc<LeaseStats>) -> Arc<dyn LeaseStore> {
        Arc::new(MemoryLeases::new(Arc::<LeaseTable>::default(), limiter.rule, stats))
    }

    fn plans(&self, _: &str, _: Duration) -> Option<Arc<dyn PlanSource>> {
        None
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

    fn logs_reasons(&self) -> bool {
        true
    }

    fn metrics(&self) -> (&Metrics, usize) {
        (&self.metrics, 0)
    }
}

/// Returns an upstream that answers 200 without a body.
pub(super) fn empty_upstream() -> SharedService {
    SharedService::new(service_fn(|_: Request<Body>| std::future::ready(Ok(Response::new(Body::default())))))
}
