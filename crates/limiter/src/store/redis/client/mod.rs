//! Client that calls Redis within a deadline.

mod fan_out;
mod outcome;
mod request;
mod send;

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use tokio::runtime::Handle;
use tokio::time::{Duration, Instant};

pub use self::outcome::Unanswered;
pub(crate) use self::request::Request;
use super::connection::{ConnectionContext, Connector};
use super::connection_settings::{RedisSettings, RedisSettingsError, Servers};
use super::error::{Advice, StoreError, no_advice};
use super::hash_slot::HashSlot;
use super::stats::{Operation, RedisStats};
use super::topology::{Node, NodeStatus, Topology};
use crate::store::redis::breaker::{BreakerState, Breakers};

/// Name in logs when no single node is concerned.
const CLUSTER: &str = "cluster";

/// Connections to the servers of one Redis. Background tasks keep them alive until the client is dropped or shut down.
pub struct RedisClient {
    inner: Arc<ClientInner>,
    /// State that the stores of this client share.
    store_state: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// State that a client and its requests share.
struct ClientInner {
    topology: Topology,
    context: Arc<ConnectionContext>,
}

impl ClientInner {
    /// Node that keeps the keys of a slot.
    fn route(&self, operation: Operation, slot: impl FnOnce() -> HashSlot) -> Result<Arc<Node>, StoreError> {
        let node = self.topology.route(slot);
        node.inspect_err(|&kind| self.context.record_failure(operation, CLUSTER, kind, None))
    }
}

/// Status of a client, for readiness and metrics.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RedisStatus {
    /// Status of each server.
    pub nodes: Vec<NodeStatus>,
}

// === impl RedisClient ===

impl RedisClient {
    /// Starts connecting, in tasks of the current tokio runtime, whose timer also ends calls at their deadlines: it must run
    /// while calls wait. An unreachable Redis is not an error: the client retries until it connects, and calls fail
    /// meanwhile.
    ///
    /// # Errors
    /// A URL, timeout or TLS setting is invalid, or there is no runtime.
    pub fn start(settings: &RedisSettings) -> Result<Arc<Self>, RedisSettingsError> {
        Self::start_counting(settings, &Breakers::default(), Arc::default(), no_advice)
    }

    /// Starts a client that shares `breakers` with other clients of the same servers, such as those of other workers, and
    /// counts in `stats`, which outlive it. `advice` returns the program's names of the settings to look at, for the log.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_counting(
        settings: &RedisSettings,
        breakers: &Breakers,
        stats: Arc<RedisStats>,
        advice: Advice,
    ) -> Result<Arc<Self>, RedisSettingsError> {
        Self::start_for("deciding without redis", settings, breakers, stats, advice)
    }

    /// As [`start_counting`](Self::start_counting), with a log message for failed calls.
    pub(crate) fn start_for(
        failure_message: &'static str,
        settings: &RedisSettings,
        breakers: &Breakers,
        stats: Arc<RedisStats>,
        advice: Advice,
    ) -> Result<Arc<Self>, RedisSettingsError> {
        let runtime = Handle::try_current().map_err(|_| RedisSettingsError::NoRuntime)?;
        let (connector, info) = Connector::new(settings)?;
        // Keys of different slots cannot share a call.
        let batch = settings.batch && !matches!(settings.servers, Servers::Cluster(_));
        let context = ConnectionContext::new(connector, stats, batch, settings, (failure_message, advice));
        let context = Arc::new(context);
        let topology = Topology::start(settings, info, &context, breakers, &runtime)?;
        let inner = Arc::new(ClientInner { topology, context });
        Ok(Arc::new(Self { inner, store_state: OnceLock::new() }))
    }

    /// Waits up to `at_most` until a connection to each server is live. Returns true if they are.
    pub async fn wait_connected(&self, at_most: Duration) -> bool {
        let mut changes = self.context().changes();
        let connected = changes.wait_for(|()| self.status().connected());
        tokio::time::timeout(at_most, connected).await.is_ok_and(|connected| connected.is_ok())
    }

    /// Waits up to `at_most` until the first attempt to connect to each server has ended. Decisions before that would
    /// fall back needlessly.
    pub async fn wait_attempted(&self, at_most: Duration) {
        let mut changes = self.context().changes();
        let attempted = changes.wait_for(|()| self.topology().was_attempted());
        let _ = tokio::time::timeout(at_most, attempted).await;
    }

    /// Returns the status of the servers.
    #[must_use]
    pub fn status(&self) -> RedisStatus {
        RedisStatus { nodes: self.topology().status() }
    }

    /// Returns the counters of calls.
    #[must_use]
    pub fn stats(&self) -> &RedisStats {
        &self.context().stats
    }

    /// Closes the connections for good; later calls fail.
    pub fn shutdown(&self) {
        self.topology().shutdown();
        self.context().notify_change();
    }

    /// Text before the name of every key and channel.
    pub(crate) fn key_prefix(&self) -> &Arc<str> {
        &self.context().key_prefix
    }

    pub(crate) fn context(&self) -> &Arc<ConnectionContext> {
        &self.inner.context
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.inner.topology
    }

    /// Returns the state that the stores of this client share; the first call creates it. All calls must name the same
    /// type.
    pub(crate) fn store_state<T: Send + Sync + 'static>(&self, create: impl Fn() -> T) -> Arc<T> {
        let state = self.store_state.get_or_init(|| Arc::new(create()));
        Arc::clone(state).downcast().unwrap_or_else(|_| Arc::new(create()))
    }

    /// Begins a request for `operation`, or returns at once the reason why Redis cannot be called. Its time starts here.
    /// `slot` is the cluster slot of the call's keys; it is called in a cluster only.
    pub(crate) fn request(&self, operation: Operation, slot: impl FnOnce() -> HashSlot) -> Result<Request, StoreError> {
        let node = self.inner.route(operation, slot)?;
        Request::begin(&self.inner, node, operation, self.deadline())
    }

    /// Deadline of a call that starts now.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.context().timeout
    }

    /// Begins requests for decisions on keys of each of `slots`, with one deadline. Each node's breaker is asked once: an
    /// open breaker admits one probe, and a second request to the node would be refused.
    pub(crate) fn requests(&self, slots: impl Iterator<Item = HashSlot>) -> Result<Vec<Request>, StoreError> {
        let (deadline, mut requests) = (self.deadline(), Vec::<Request>::new());
        for slot in slots {
            let node = self.inner.route(Operation::Decide, || slot)?;
            let request = match requests.iter().find(|request| request.is_for(&node)) {
                Some(same) => same.clone(),
                None => Request::begin(&self.inner, node, Operation::Decide, deadline)?,
            };
            requests.push(request);
        }
        Ok(requests)
    }

    /// Begins a request for a server's `INFO`, if the server is connected. Without other traffic it is the probe that
    /// closes the breaker.
    pub(crate) fn info_request(&self, node: &Arc<Node>) -> Option<Request> {
        node.live_connection()?;
        Request::begin(&self.inner, Arc::clone(node), Operation::Info, self.deadline()).ok()
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

// === impl RedisStatus ===

impl RedisStatus {
    /// Returns true if at least one connection to each server is live.
    #[must_use]
    pub fn connected(&self) -> bool {
        !self.nodes.is_empty() && self.nodes.iter().all(|node| node.live_connections > 0)
    }

    /// Returns true if a connection to any server is live. A cluster then decides some keys.
    #[must_use]
    pub fn reaches_any(&self) -> bool {
        self.nodes.iter().any(|node| node.live_connections > 0)
    }

    /// Returns the number of live connections to all servers.
    #[must_use]
    pub fn live_connections(&self) -> usize {
        self.nodes.iter().map(|node| node.live_connections).sum()
    }

    /// Open if the breaker of any server is open.
    #[must_use]
    pub fn breaker(&self) -> BreakerState {
        let open = self.nodes.iter().any(|node| node.breaker == BreakerState::Open);
        if open { BreakerState::Open } else { BreakerState::Closed }
    }

    /// Last connection error of the first server that has one.
    #[must_use]
    pub fn last_error(&self) -> Option<&str> {
        self.nodes.iter().find_map(|node| node.last_error.as_deref())
    }
}
