//! Calls Redis within a deadline.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Duration;

use super::breaker::{BreakerState, Breakers};
use super::dial::Dial;
use super::error::StoreError;
use super::hash_slot::HashSlot;
use super::link::Link;
use super::node::{Address, Node};
use super::settings::{RedisSettings, RedisSettingsError};
use super::stats::{Operation, RedisStats};
use super::status::{NodeStatus, RedisStatus};
use super::supervisor;
use super::ticket::Ticket;
use crate::limiter::store::memory::{Clock, MonotonicClock};

/// Connections to the servers of one Redis, kept alive in the background until it is dropped or shut down.
pub struct RedisClient {
    shared: Arc<Shared>,
}

/// What calls and supervisors share.
pub(super) struct Shared {
    pub(super) node: Arc<Node>,
    pub(super) stats: Arc<RedisStats>,
    /// How many connections are live.
    pub(super) live: watch::Sender<usize>,
    timeout: Duration,
    outage: &'static str,
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
    pub fn start(settings: &RedisSettings) -> Result<Arc<Self>, RedisSettingsError> {
        Self::start_with(settings, &Breakers::default())
    }

    /// The same with breakers that other clients of the same servers know too, such as those of other worker threads.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(settings: &RedisSettings, breakers: &Breakers) -> Result<Arc<Self>, RedisSettingsError> {
        Self::start_counting(settings, breakers, Arc::default())
    }

    /// The same, and counts in `stats`, which outlive it.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_counting(
        settings: &RedisSettings,
        breakers: &Breakers,
        stats: Arc<RedisStats>,
    ) -> Result<Arc<Self>, RedisSettingsError> {
        Self::start_for("deciding without redis", settings, breakers, stats)
    }

    /// The same for whoever says `outage` in the log when a call fails.
    pub(crate) fn start_for(
        outage: &'static str,
        settings: &RedisSettings,
        breakers: &Breakers,
        stats: Arc<RedisStats>,
    ) -> Result<Arc<Self>, RedisSettingsError> {
        let runtime = Handle::try_current().map_err(|_| RedisSettingsError::NoRuntime)?;
        let (_dial, one) = Dial::new(settings)?;
        let Some(info) = one else {
            return Err(RedisSettingsError::Unusable("only one server is supported".into()));
        };
        let name = info.addr().to_string();
        let breaker = breakers.of(&name);
        let node = Node::new(name, Address::Fixed(Box::new(info)), settings.connections.get(), breaker);
        let shared = Arc::new(Shared {
            node: Arc::new(node),
            stats,
            live: watch::Sender::new(0),
            timeout: settings.timeout,
            outage,
            clock: MonotonicClock::default(),
            warned_at_us: AtomicU64::new(0),
            warned_of_scripts: AtomicBool::new(false),
        });
        supervisor::start(&shared, &shared.node, &runtime);
        Ok(Arc::new(Self { shared }))
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
        let attempted =
            live.wait_for(|&live| live > 0 || self.shared.nodes().iter().any(|node| node.last_error.lock().is_some()));
        let _ = tokio::time::timeout(at_most, attempted).await;
    }

    /// How it is doing.
    #[must_use]
    pub fn status(&self) -> RedisStatus {
        let shared = &*self.shared;
        let nodes = shared.nodes();
        RedisStatus {
            nodes: nodes.iter().map(|node| NodeStatus::of(node)).collect(),
            failures: shared.stats.failures(),
            script_misses: shared.stats.script_misses(),
            connects: shared.stats.connects(),
        }
    }

    /// Closes the connections and makes no more; calls fail from now on.
    pub fn shutdown(&self) {
        self.shared.nodes().iter().for_each(|node| node.shutdown());
        self.shared.recount();
    }

    /// Leave to run a script in Redis, or at once the reason why not. The time that a call may take runs from here.
    /// `slot` says which slot of a cluster the keys of the call are in; it is asked only where there is a cluster.
    pub(crate) fn ticket(&self, slot: impl FnOnce() -> HashSlot) -> Result<Ticket, StoreError> {
        self.ticket_for(Operation::Decide, slot)
    }

    /// The same for another operation than a decision.
    pub(crate) fn ticket_for(
        &self,
        operation: Operation,
        slot: impl FnOnce() -> HashSlot,
    ) -> Result<Ticket, StoreError> {
        let node = self.shared.route(slot);
        let lacks_scripts = operation.runs_script() && node.no_scripts.load(Ordering::Relaxed);
        let leave = match node.find_live() {
            None => Err(StoreError::Disconnected),
            // The breaker stays out of it: others may call.
            Some(_) if lacks_scripts => Err(StoreError::NoScripts),
            Some(_) if !node.breaker.admits() => Err(StoreError::BreakerOpen),
            Some(live) => Ok(live),
        };
        let (link, live) = leave.inspect_err(|&kind| self.shared.degraded(operation, node, kind))?;
        Ok(Ticket::new(Arc::clone(&self.shared), Arc::clone(node), (link, live), operation, self.shared.timeout))
    }

    /// The servers that are in no trouble, as far as is known.
    pub(super) fn healthy_nodes(&self) -> Vec<Arc<Node>> {
        let closed = |node: &&Arc<Node>| node.breaker.state() == BreakerState::Closed;
        self.shared.nodes().iter().filter(closed).map(Arc::clone).collect()
    }

    /// Leave to ask a certain server about itself, if it is reached.
    pub(super) fn ticket_to_look_at(&self, node: &Arc<Node>) -> Option<Ticket> {
        let (shared, live) = (Arc::clone(&self.shared), node.find_live()?);
        Some(Ticket::new(shared, Arc::clone(node), live, Operation::Info, self.shared.timeout))
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
    /// The servers that are known.
    pub(super) fn nodes(&self) -> &[Arc<Node>] {
        std::slice::from_ref(&self.node)
    }

    /// The server that keeps the keys of a slot.
    fn route(&self, _slot: impl FnOnce() -> HashSlot) -> &Arc<Node> {
        &self.node
    }

    /// Gives up a connection. Without any, the breaker need not find out by itself.
    pub(super) fn lose(&self, node: &Node, link: &Link, number: u64) {
        if link.drop_connection(number) {
            self.recount();
            if node.live_connections() == 0 {
                node.breaker.open(StoreError::Disconnected);
            }
        }
    }

    /// Tells whoever waits how many connections are live. Counted anew each time: one may be lost while it is put in.
    pub(super) fn recount(&self) {
        self.live.send_modify(|live| *live = self.nodes().iter().map(|node| node.live_connections()).sum());
    }

    /// Counts an operation for requests that Redis did not do, and says so once a second at most; that it runs no scripts, which
    /// stays as it is, once.
    pub(super) fn degraded(&self, operation: Operation, node: &Node, kind: StoreError) {
        if !operation.serves_requests() {
            return;
        }
        self.stats.failed(kind);
        if kind == StoreError::NoScripts {
            if !self.warned_of_scripts.swap(true, Ordering::Relaxed) {
                tracing::error!(redis = %node.name, kind = kind.as_str(), "{}: {kind}", self.outage);
            }
            return;
        }
        let (now, last) = (self.clock.now_us(), self.warned_at_us.load(Ordering::Relaxed));
        let due = last == 0 || now.saturating_sub(last) >= 1_000_000;
        if due && self.warned_at_us.compare_exchange(last, now.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            tracing::warn!(redis = %node.name, kind = kind.as_str(), "{}: {kind}", self.outage);
        }
    }
}
