//! What readiness and metrics ask of a client.

use super::breaker::BreakerState;
use super::error::StoreError;
use super::hot::CallSizes;
use super::node::{Address, Node};

/// How a client is doing.
#[derive(Clone, Debug)]
pub struct RedisStatus {
    /// How each server is doing.
    pub nodes: Vec<NodeStatus>,
    /// Decisions that Redis did not make, by the reason.
    pub failures: [(StoreError, u64); StoreError::ALL.len()],
    /// Calls for which the script had to be loaded again.
    pub script_misses: u64,
    /// Connections that were made.
    pub connects: u64,
    /// Requests that were denied without a call, since Redis had said for how long they are.
    pub denied_from_memory: u64,
    /// Requests that passed without a call, since one before them had brought more than was asked for.
    pub paid_in_advance: u64,
    /// Calls that decided requests, by for how many at a time.
    pub call_sizes: CallSizes,
}

/// How one server is doing.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    /// `host:port`, or the name that Sentinels know the primary by.
    pub name: String,
    /// Where the primary is that Sentinels name, once they have; `None` where none are asked.
    pub primary: Option<String>,
    /// Live connections.
    pub live_connections: usize,
    /// Whether calls go through.
    pub breaker: BreakerState,
    /// What went wrong last, without secrets; `None` once a connection is live again.
    pub last_error: Option<String>,
}

impl RedisStatus {
    /// Whether at least one connection to each server is live.
    #[must_use]
    pub fn connected(&self) -> bool {
        !self.nodes.is_empty() && self.nodes.iter().all(|node| node.live_connections > 0)
    }

    /// Whether a connection to some server is live: in a cluster some keys are decided in Redis then.
    #[must_use]
    pub fn reaches_any(&self) -> bool {
        self.nodes.iter().any(|node| node.live_connections > 0)
    }

    /// Live connections to all servers.
    #[must_use]
    pub fn live_connections(&self) -> usize {
        self.nodes.iter().map(|node| node.live_connections).sum()
    }

    /// Open as soon as one server's is.
    #[must_use]
    pub fn breaker(&self) -> BreakerState {
        let open = self.nodes.iter().any(|node| node.breaker == BreakerState::Open);
        if open { BreakerState::Open } else { BreakerState::Closed }
    }

    /// What went wrong last at some server.
    #[must_use]
    pub fn last_error(&self) -> Option<&str> {
        self.nodes.iter().find_map(|node| node.last_error.as_deref())
    }
}

impl NodeStatus {
    pub(super) fn of(node: &Node) -> Self {
        Self {
            name: node.name.clone(),
            primary: match &node.address {
                Address::Primary(primary) => primary.place().map(|place| place.to_string()),
                Address::Fixed(_) => None,
            },
            live_connections: node.live_connections(),
            breaker: node.breaker.state(),
            last_error: node.last_error.lock().as_ref().map(|(_, text)| text.clone()),
        }
    }
}
