//! What the calls of a client and the supervisors of its connections share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::watch;
use tokio::time::{Duration, Instant};

use super::cluster::Cluster;
use super::dial::Dial;
use super::error::StoreError;
use super::hash_slot::HashSlot;
use super::hot::Hot;
use super::link::Link;
use super::node::Node;
use super::stats::{Operation, RedisStats};
use super::status::NodeStatus;
use super::ticket::Ticket;
use crate::store::memory::{Clock, MonotonicClock};

/// What calls and supervisors share.
pub(super) struct Shared {
    pub(super) topology: Topology,
    pub(super) dial: Arc<Dial>,
    pub(super) stats: Arc<RedisStats>,
    /// What is known of keys that many ask for.
    pub(super) hot: Arc<Hot>,
    /// Whether decisions that wait together are one call.
    pub(super) batch: bool,
    /// How many connections are live.
    pub(super) live: watch::Sender<usize>,
    pub(super) timeout: Duration,
    pub(super) outage: &'static str,
    pub(super) clock: MonotonicClock,
    pub(super) warned_at_us: AtomicU64,
    pub(super) warned_of_scripts: AtomicBool,
}

/// The servers among which keys are shared out.
pub(super) enum Topology {
    /// One keeps them all.
    One(Arc<Node>),
    /// Each keeps some.
    Cluster(Box<Cluster>),
}

// === impl Shared ===

impl Shared {
    /// The server that keeps the keys of a slot.
    pub(super) fn route(&self, operation: Operation, slot: impl FnOnce() -> HashSlot) -> Result<Arc<Node>, StoreError> {
        match &self.topology {
            Topology::One(node) => Ok(Arc::clone(node)),
            Topology::Cluster(cluster) => cluster.node(slot()).ok_or(StoreError::ClusterDown).inspect_err(|&kind| {
                self.degraded(operation, "cluster", kind);
            }),
        }
    }

    /// Leave to ask `node` until `deadline`, or at once the reason why not.
    pub(super) fn leave(
        shared: &Arc<Self>,
        node: Arc<Node>,
        operation: Operation,
        deadline: Instant,
    ) -> Result<Ticket, StoreError> {
        let lacks_scripts = operation.runs_script() && node.no_scripts.load(Ordering::Relaxed);
        let leave = match node.find_live() {
            // A node that joined a moment ago is being connected to.
            None if shared.is_new(&node) => Ok(None),
            None => Err(node.why_not_live()),
            // The breaker stays out of it: others may call.
            Some(_) if lacks_scripts => Err(StoreError::NoScripts),
            Some(_) if !node.breaker.admits() => Err(StoreError::BreakerOpen),
            live => Ok(live),
        };
        let at = leave.inspect_err(|&kind| shared.degraded(operation, &node.name, kind))?;
        Ok(Ticket::new(Arc::clone(shared), node, at, operation, deadline))
    }

    /// Whether keys are shared out among several servers.
    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.topology, Topology::Cluster(_))
    }

    /// Whether `node` is of a cluster and nobody knows yet whether it can be reached.
    pub(super) fn is_new(&self, node: &Node) -> bool {
        self.is_cluster() && !node.was_attempted()
    }

    /// Something happened that makes it doubtful which server keeps what.
    pub(super) fn doubt(&self) {
        if let Topology::Cluster(cluster) = &self.topology {
            cluster.refresh_soon();
        }
    }

    /// Gives up a connection. Without any, the breaker need not find out by itself.
    pub(super) fn lose(&self, node: &Node, link: &Link, number: u64) {
        if link.drop_connection(number) {
            self.hot.forget();
            self.recount();
            if node.live_connections() == 0 {
                node.breaker.open(StoreError::Disconnected);
                self.doubt();
            }
        }
    }

    /// Tells whoever waits how many connections are live. Counted anew each time: one may be lost while it is put in.
    pub(super) fn recount(&self) {
        self.live.send_modify(|live| *live = self.topology.nodes().iter().map(|node| node.live_connections()).sum());
    }

    /// Counts an operation for requests that Redis did not do, and says so once a second at most; that it runs no scripts, which
    /// stays as it is, once.
    pub(super) fn degraded(&self, operation: Operation, node: &str, kind: StoreError) {
        self.degraded_because(operation, node, kind, None);
    }

    /// The same with what Redis said, where that says more.
    pub(super) fn degraded_because(&self, operation: Operation, node: &str, kind: StoreError, reason: Option<&str>) {
        if !operation.serves_requests() {
            return;
        }
        self.stats.failed(kind);
        if kind == StoreError::NoScripts {
            if !self.warned_of_scripts.swap(true, Ordering::Relaxed) {
                tracing::error!(redis = node, kind = kind.as_str(), "{}: {kind}", self.outage);
            }
            return;
        }
        let (now, last) = (self.clock.now_us(), self.warned_at_us.load(Ordering::Relaxed));
        let due = last == 0 || now.saturating_sub(last) >= 1_000_000;
        if due && self.warned_at_us.compare_exchange(last, now.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            tracing::warn!(redis = node, kind = kind.as_str(), reason, "{}: {kind}", self.outage);
        }
    }
}

// === impl Topology ===

impl Topology {
    /// The server, if there is only one.
    pub(super) fn only(&self) -> Option<&Arc<Node>> {
        match self {
            Self::One(node) => Some(node),
            Self::Cluster(_) => None,
        }
    }

    /// The servers that are known.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        match self {
            Self::One(node) => vec![Arc::clone(node)],
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }

    pub(super) fn status(&self) -> Vec<NodeStatus> {
        match self {
            Self::One(node) => vec![NodeStatus::of(node)],
            Self::Cluster(cluster) => cluster.status(),
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        let nodes = self.nodes();
        !nodes.is_empty() && nodes.iter().all(|node| node.live_connections() > 0)
    }

    pub(super) fn was_attempted(&self) -> bool {
        match self {
            Self::One(node) => node.was_attempted(),
            Self::Cluster(cluster) => cluster.was_attempted(),
        }
    }

    pub(super) fn shutdown(&self) {
        match self {
            Self::One(node) => node.shutdown(),
            Self::Cluster(cluster) => cluster.shutdown(),
        }
    }
}
