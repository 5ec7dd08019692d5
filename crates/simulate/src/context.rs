//! Context of the layers in a simulation: buckets in memory on the clock of the log, and requests that wait for a decision.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;

use crate::input::{LogTime, LoggedVerdict};
use tollgate_config::{ConcurrencyLimiter, Config, RateLimiter, RequestCounter};
use tollgate_limiter::concurrency::{MemorySlots, SlotStats, SlotStore, SlotTable};
use tollgate_limiter::metering::{Ledger, Meter};
use tollgate_limiter::store::memory::{Clock, MemoryStore};
use tollgate_limiter::store::{Check, Decision, OwnedCheck, Store};
use tollgate_limiter::verdict::{Outcome, Verdict};
use tollgate_proxy::gateway::layer_context::{LayerContext, Position};
use tollgate_proxy::http::facts::RequestFacts;
use tollgate_proxy::http::service::ResponseFuture;
use tollgate_proxy::instrumentation::metrics::Metrics;
use tollgate_proxy::state::stores::meter_settings;

/// Clock that the log sets.
#[derive(Debug, Default)]
pub(super) struct LogClock {
    now_us: AtomicU64,
    times: Mutex<DecisionTimes>,
}

/// Times of the decisions of the request that is replayed.
#[derive(Debug, Default)]
struct DecisionTimes {
    /// Further times, last first.
    further: Vec<LogTime>,
    /// Time of the next request. Later decisions wait for it.
    horizon: LogTime,
    /// Time that the request waits for.
    awaited: Option<LogTime>,
}

impl LogClock {
    /// Sets the clock for a request at `now`, with the times of its further decisions, last first. The next request has
    /// the time `horizon`.
    pub(super) fn set(&self, now: LogTime, further: impl IntoIterator<Item = LogTime>, horizon: LogTime) {
        self.now_us.store(now.us, Relaxed);
        let mut times = self.times.lock();
        times.further.clear();
        times.further.extend(further);
        (times.horizon, times.awaited) = (horizon, None);
    }

    /// Returns the time that the request waits for, and the times of its decisions after that.
    pub(super) fn take_awaited(&self) -> Option<(LogTime, Vec<LogTime>)> {
        let mut times = self.times.lock();
        Some((times.awaited.take()?, std::mem::take(&mut times.further)))
    }

    /// Advances the clock to the next decision of the request. Returns false if the next request comes first.
    fn advance(&self) -> bool {
        let mut times = self.times.lock();
        let Some(time) = times.further.pop() else { return true };
        if time > times.horizon {
            times.awaited = Some(time);
            return false;
        }
        self.now_us.store(time.us, Relaxed);
        true
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
    memory: Arc<MemoryStore>,
    clock: Arc<LogClock>,
}

impl Store for LogStore {
    fn decide(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Decision {
        if self.clock.advance() {
            return undelayed(self.memory.decide(enforced, observed));
        }
        let owned = |checks: &[Check<'_>]| checks.iter().map(OwnedCheck::of).collect::<Vec<_>>();
        let checks = [owned(enforced), owned(observed)];
        let (memory, mut is_early) = (Arc::clone(&self.memory), true);
        // The replay polls the request a second time when its time has come.
        Decision::Pending(Box::pin(std::future::poll_fn(move |_| {
            if std::mem::replace(&mut is_early, false) {
                return Poll::Pending;
            }
            let [enforced, observed] =
                checks.each_ref().map(|checks| checks.iter().map(OwnedCheck::check).collect::<Vec<_>>());
            match undelayed(memory.decide(&enforced, &observed)) {
                Decision::Ready(verdict) => Poll::Ready(verdict),
                Decision::Pending(_) => Poll::Ready(Verdict::uncounted(Outcome::Allowed)),
            }
        })))
    }

    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        self.memory.settle(check, more, counted_at_us);
    }
}

/// Removes the wait for a turn. The times in the log include it.
fn undelayed(decision: Decision) -> Decision {
    decision.map(|verdict| Verdict { delay: Duration::ZERO, ..verdict })
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
        let memory = MemoryStore::with_clock(Arc::<LogClock>::clone(&clock)).with_max_keys(config.memory.max_keys());
        Self {
            store: Arc::new(LogStore { memory: Arc::new(memory), clock: Arc::clone(&clock) }),
            clock,
            metrics: Metrics::default(),
        }
    }
}

impl LayerContext for LogContext {
    fn store(&self, _: &Position<'_>, _: &RateLimiter) -> Arc<dyn Store> {
        Arc::<LogStore>::clone(&self.store)
    }

    fn slots(&self, _: &Position<'_>, limiter: &ConcurrencyLimiter, stats: Arc<SlotStats>) -> Arc<dyn SlotStore> {
        Arc::new(MemorySlots::new(Arc::<SlotTable>::default(), limiter.rule, stats))
    }

    fn meter(&self, position: &Position<'_>, counter: &RequestCounter, scope: Arc<str>) -> Meter {
        Meter::new(Arc::new(Ledger::new(1)), &meter_settings(counter, position.route_id, scope, false))
    }

    fn metrics(&self) -> (&Metrics, usize) {
        (&self.metrics, 0)
    }
}

/// Request in the layers of its route.
pub(super) struct RunningRequest {
    /// Time of its next decision.
    pub(super) at: LogTime,
    pub(super) number: u64,
    /// Time under which it is counted.
    pub(super) second_us: u64,
    /// Position of its route.
    pub(super) route: usize,
    /// Route in the log, if it is measured under that.
    pub(super) logged_route: Option<Arc<str>>,
    pub(super) logged: Option<LoggedVerdict>,
    /// True if the request is refused since an access list blocked it in the log.
    pub(super) is_blocked: bool,
    pub(super) response: ResponseFuture,
    pub(super) facts: Option<Box<RequestFacts>>,
}
