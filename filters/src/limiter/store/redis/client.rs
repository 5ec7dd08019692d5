//! Calls Redis within a deadline.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use redis::ConnectionInfo;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Duration, Instant};

use super::breaker::Breaker;
use super::connection::{Live, Slot};
use super::error::StoreError;
use super::hot::Hot;
use super::settings::{RedisSettings, RedisSettingsError};
use super::status::{Counters, RedisStatus};
use super::supervisor;
use super::ticket::Ticket;
use crate::limiter::store::memory::{Clock, MonotonicClock};

/// Connections to one Redis, kept alive in the background until it is dropped or shut down.
pub struct RedisClient {
    shared: Arc<Shared>,
    supervisors: Vec<AbortHandle>,
}

/// What calls and supervisors share.
pub(super) struct Shared {
    pub(super) info: ConnectionInfo,
    pub(super) slots: Box<[Slot]>,
    pub(super) breaker: Arc<Breaker>,
    pub(super) counters: Counters,
    pub(super) live: watch::Sender<usize>,
    /// What is known of keys that many ask for.
    pub(super) hot: Arc<Hot>,
    /// The server runs no scripts, as far as is known.
    pub(super) no_scripts: AtomicBool,
    pub(super) last_error: Mutex<Option<(StoreError, String)>>,
    pub(super) timeout: Duration,
    outage: &'static str,
    next_slot: AtomicUsize,
    clock: MonotonicClock,
    warned_at_us: AtomicU64,
    warned_of_scripts: AtomicBool,
}

// === impl RedisClient ===

impl RedisClient {
    /// Starts connecting, in tasks of the tokio runtime that it is called in. A Redis that is down is no error: the
    /// client tries again until it is there, and fails every call meanwhile.
    ///
    /// # Errors
    /// A URL or a timeout that cannot work, or no runtime.
    pub fn start(settings: RedisSettings) -> Result<Arc<Self>, RedisSettingsError> {
        Self::start_with(settings, Arc::default())
    }

    /// The same with a breaker that other clients of the same Redis know too, such as those of other worker threads.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(settings: RedisSettings, breaker: Arc<Breaker>) -> Result<Arc<Self>, RedisSettingsError> {
        Self::start_for("deciding without redis", settings, breaker)
    }

    /// The same for whoever says `outage` in the log when a call fails.
    pub(crate) fn start_for(
        outage: &'static str,
        settings: RedisSettings,
        breaker: Arc<Breaker>,
    ) -> Result<Arc<Self>, RedisSettingsError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| RedisSettingsError::NoRuntime)?;
        let shared = Arc::new(Shared {
            info: settings.connection_info()?,
            slots: (0..settings.connections.get()).map(|_| Slot::default()).collect(),
            breaker,
            counters: Counters::default(),
            live: watch::Sender::new(0),
            hot: Arc::default(),
            no_scripts: AtomicBool::new(false),
            last_error: Mutex::default(),
            timeout: settings.timeout,
            outage,
            next_slot: AtomicUsize::new(0),
            clock: MonotonicClock::default(),
            warned_at_us: AtomicU64::new(0),
            warned_of_scripts: AtomicBool::new(false),
        });
        let supervise = |slot| runtime.spawn(supervisor::run(Arc::clone(&shared), slot)).abort_handle();
        let supervisors = (0..shared.slots.len()).map(supervise).collect();
        Ok(Arc::new(Self { shared, supervisors }))
    }

    /// Waits until a connection is live, `at_most` so long; returns whether one is.
    pub async fn wait_connected(&self, at_most: Duration) -> bool {
        let mut live = self.shared.live.subscribe();
        tokio::time::timeout(at_most, live.wait_for(|&live| live > 0)).await.is_ok_and(|found| found.is_ok())
    }

    /// Waits until the first attempt to connect has succeeded or failed, `at_most` so long: who decides before that
    /// guesses without need.
    pub async fn wait_attempted(&self, at_most: Duration) {
        let mut live = self.shared.live.subscribe();
        let attempted = live.wait_for(|&live| live > 0 || self.shared.last_error.lock().is_some());
        let _ = tokio::time::timeout(at_most, attempted).await;
    }

    /// How it is doing.
    #[must_use]
    pub fn status(&self) -> RedisStatus {
        let shared = &*self.shared;
        let live_connections = *shared.live.borrow();
        RedisStatus {
            connected: live_connections > 0,
            live_connections,
            breaker: shared.breaker.state(),
            failures: shared.counters.failures(),
            script_misses: shared.counters.script_misses.load(Ordering::Relaxed),
            connects: shared.counters.connects.load(Ordering::Relaxed),
            denied_from_memory: shared.hot.denied_from_memory(),
            paid_in_advance: shared.hot.paid_in_advance(),
            call_sizes: shared.hot.call_sizes(),
            last_error: shared.last_error.lock().as_ref().map(|(_, text)| text.clone()),
        }
    }

    /// Gives back what was taken from Redis for requests that did not come (see `RedisStore::lease`): before an end that
    /// is not in a hurry. Otherwise it is there again when a full bucket or a new window would have it.
    pub async fn give_back(&self) {
        self.shared.hot.give_back().await;
    }

    /// Closes the connections and makes no more; calls fail from now on.
    pub fn shutdown(&self) {
        self.supervisors.iter().for_each(AbortHandle::abort);
        for slot in &self.shared.slots {
            // Not lost: the breaker may be shared with a client that takes this one's place.
            if let Some(live) = slot.get() {
                slot.drop_connection(live.number);
            }
        }
        self.shared.recount();
    }

    /// What is known of keys that many ask for.
    pub(super) fn hot(&self) -> &Arc<Hot> {
        &self.shared.hot
    }

    /// Leave to run a script in Redis, or at once the reason why not. The time that a call may take runs from here.
    pub(crate) fn ticket(&self) -> Result<Ticket, StoreError> {
        self.leave(self.shared.no_scripts.load(Ordering::Relaxed))
    }

    /// The same for a command that is no script.
    pub(super) fn plain_ticket(&self) -> Result<Ticket, StoreError> {
        self.leave(false)
    }

    fn leave(&self, lacks_scripts: bool) -> Result<Ticket, StoreError> {
        let leave = match self.shared.find_live() {
            None => Err(StoreError::Disconnected),
            // The breaker stays out of it: others may call.
            Some(_) if lacks_scripts => Err(StoreError::NoScripts),
            Some(_) if !self.shared.breaker.admits() => Err(StoreError::BreakerOpen),
            Some(live) => Ok(live),
        };
        let (slot, live) = leave.inspect_err(|&kind| self.shared.degraded(kind))?;
        Ok(Ticket::new(Arc::clone(&self.shared), slot, live, Instant::now() + self.shared.timeout))
    }
}

impl Drop for RedisClient {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl fmt::Debug for RedisClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisClient").field("status", &self.status()).finish_non_exhaustive()
    }
}

// === impl Shared ===

impl Shared {
    /// A live connection, the next one in turn.
    fn find_live(&self) -> Option<(usize, Live)> {
        let slots = self.slots.len();
        let first = if slots == 1 { 0 } else { self.next_slot.fetch_add(1, Ordering::Relaxed) };
        (0..slots).map(|n| first.wrapping_add(n) % slots).find_map(|slot| Some((slot, self.slots[slot].get()?)))
    }

    /// Gives up a connection. Without any, the breaker need not find out by itself.
    pub(super) fn lose(&self, slot: &Slot, number: u64) {
        if slot.drop_connection(number) {
            self.hot.forget();
            self.recount();
            if !self.slots.iter().any(Slot::is_live) {
                self.breaker.open();
            }
        }
    }

    /// Tells whoever waits how many connections are live. Counted anew each time: one may be lost while it is put in.
    pub(super) fn recount(&self) {
        self.live.send_modify(|live| *live = self.slots.iter().filter(|slot| slot.is_live()).count());
    }

    /// Counts a decision that Redis did not make, and says so once a second at most; that it runs no scripts, which
    /// stays as it is, once.
    pub(super) fn degraded(&self, kind: StoreError) {
        self.counters.failed(kind);
        if kind == StoreError::NoScripts {
            if !self.warned_of_scripts.swap(true, Ordering::Relaxed) {
                tracing::error!(redis = %self.info.addr(), kind = kind.as_str(), "{}: {kind}", self.outage);
            }
            return;
        }
        let (now, last) = (self.clock.now_us(), self.warned_at_us.load(Ordering::Relaxed));
        let due = last == 0 || now.saturating_sub(last) >= 1_000_000;
        if due && self.warned_at_us.compare_exchange(last, now.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            tracing::warn!(redis = %self.info.addr(), kind = kind.as_str(), "{}: {kind}", self.outage);
        }
    }
}
