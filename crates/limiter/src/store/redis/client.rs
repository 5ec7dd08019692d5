//! Calls Redis within a deadline.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Duration, Instant};

use super::breaker::Breakers;
use super::cluster::Cluster;
use super::dial::Dial;
use super::error::StoreError;
use super::hash_slot::HashSlot;
use super::hot::Hot;
use super::node::{Address, Node};
use super::primary::Primary;
use super::settings::{RedisSettings, RedisSettingsError, Servers};
use super::shared::{Shared, Topology};
use super::stats::{Operation, RedisStats};
use super::status::RedisStatus;
use super::supervisor;
use super::ticket::Ticket;
use crate::store::memory::MonotonicClock;

/// Connections to the servers of one Redis, kept alive in the background until it is dropped or shut down.
pub struct RedisClient {
    pub(super) shared: Arc<Shared>,
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
        let (dial, one_info) = Dial::new(settings)?;
        let dial = Arc::new(dial);
        let one = |name: String, address| {
            let breaker = breakers.of(&name);
            Topology::One(Arc::new(Node::new(name, address, settings.connections.get(), breaker)))
        };
        let topology = match (&settings.servers, one_info) {
            (Servers::Cluster(seeds), _) => {
                Topology::Cluster(Box::new(Cluster::new(seeds, Arc::clone(&dial), settings, breakers, &runtime)))
            }
            (Servers::Sentinel(sentinel), _) => {
                one(sentinel.master.clone(), Address::Primary(Primary::new(settings, sentinel)?))
            }
            (Servers::One(_), Some(info)) => one(info.addr().to_string(), Address::Fixed(Box::new(info))),
            (Servers::One(_), None) => return Err(RedisSettingsError::Unusable("there is no server".into())),
        };
        let shared = Arc::new(Shared {
            topology,
            dial,
            hot: Arc::new(Hot::counting(Arc::clone(&stats))),
            stats,
            // Keys of different slots cannot share a call.
            batch: settings.batch && !matches!(settings.servers, Servers::Cluster(_)),
            live: watch::Sender::new(0),
            timeout: settings.timeout,
            outage,
            clock: MonotonicClock::default(),
            warned_at_us: AtomicU64::new(0),
            warned_of_scripts: AtomicBool::new(false),
        });
        match &shared.topology {
            Topology::One(node) => supervisor::start(&shared, node, &runtime),
            Topology::Cluster(cluster) => cluster.start(&shared),
        }
        Ok(Arc::new(Self { shared }))
    }

    /// Waits until a connection to each server is live, `at_most` so long; returns whether that is so.
    pub async fn wait_connected(&self, at_most: Duration) -> bool {
        let mut live = self.shared.live.subscribe();
        let connected = live.wait_for(|_| self.shared.topology.is_connected());
        tokio::time::timeout(at_most, connected).await.is_ok_and(|found| found.is_ok())
    }

    /// Waits until the first attempt to connect has succeeded or failed, `at_most` so long: who decides before that
    /// guesses without need.
    pub async fn wait_attempted(&self, at_most: Duration) {
        let mut live = self.shared.live.subscribe();
        let attempted = live.wait_for(|_| self.shared.topology.was_attempted());
        let _ = tokio::time::timeout(at_most, attempted).await;
    }

    /// How it is doing.
    #[must_use]
    pub fn status(&self) -> RedisStatus {
        let shared = &*self.shared;
        RedisStatus {
            nodes: shared.topology.status(),
            failures: shared.stats.failures(),
            script_misses: shared.stats.script_misses(),
            connects: shared.stats.connects(),
            denied_from_memory: shared.stats.denied_from_memory(),
            paid_in_advance: shared.stats.paid_in_advance(),
            call_sizes: shared.stats.call_sizes(),
        }
    }

    /// Gives back what was taken from Redis for requests that did not come (see `RedisStore::lease`): before an end that
    /// is not in a hurry. Otherwise it is there again when a full bucket or a new window would have it.
    pub async fn give_back(&self) {
        self.shared.hot.give_back().await;
    }

    /// Closes the connections and makes no more; calls fail from now on.
    pub fn shutdown(&self) {
        self.shared.topology.shutdown();
        self.shared.recount();
    }

    /// What is known of keys that many ask for.
    pub(super) fn hot(&self) -> &Arc<Hot> {
        &self.shared.hot
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
        let node = self.shared.route(operation, slot)?;
        Shared::leave(&self.shared, node, operation, self.deadline())
    }

    /// A call must have its answer by then if it is made now.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.shared.timeout
    }

    /// Leave to decide by scripts on keys of each of `slots` until one deadline, or at once the reason why not. A node is
    /// asked for leave once: an open breaker gives it to one probe, and of two calls to one node the second would get none.
    pub(super) fn tickets(&self, slots: impl Iterator<Item = HashSlot>) -> Result<Vec<Ticket>, StoreError> {
        let (deadline, mut tickets) = (self.deadline(), Vec::<Ticket>::new());
        for slot in slots {
            let node = self.shared.route(Operation::Decide, || slot)?;
            let ticket = match tickets.iter().find(|ticket| ticket.is_for(&node)) {
                Some(same) => same.clone(),
                None => Shared::leave(&self.shared, node, Operation::Decide, deadline)?,
            };
            tickets.push(ticket);
        }
        Ok(tickets)
    }

    /// Leave to ask a certain server about itself, if it is reached. Where nobody asks anything else this is the probe that
    /// closes its breaker.
    pub(super) fn ticket_to_look_at(&self, node: &Arc<Node>) -> Option<Ticket> {
        let (shared, live) = (Arc::clone(&self.shared), node.find_live()?);
        if !node.breaker.admits() {
            return None;
        }
        Some(Ticket::new(shared, Arc::clone(node), Some(live), Operation::Info, self.deadline()))
    }

    /// Whether keys are shared out among several servers, by their slots.
    pub(super) fn is_cluster(&self) -> bool {
        self.shared.is_cluster()
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
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
