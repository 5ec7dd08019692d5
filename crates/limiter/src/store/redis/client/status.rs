//! Status of a client, for readiness and metrics.

use super::ClientInner;
use crate::store::breaker::BreakerState;
use crate::store::redis::error::StoreError;
use crate::store::redis::stats::CallSizes;
use crate::store::redis::topology::NodeStatus;

/// Status of a client.
#[derive(Clone, Debug)]
pub struct RedisStatus {
    /// Status of each server.
    pub nodes: Vec<NodeStatus>,
    /// Decisions that Redis did not make, by reason.
    pub failures: [(StoreError, u64); StoreError::ALL.len()],
    /// Calls that had to load their script again.
    pub script_misses: u64,
    /// Connections established.
    pub connects: u64,
    /// Requests denied from the denial cache, without a call.
    pub denial_cache_hits: u64,
    /// Requests allowed from a lease, without a call.
    pub lease_hits: u64,
    /// Calls that decided requests, by the number of requests in each.
    pub call_sizes: CallSizes,
}

impl RedisStatus {
    pub(super) fn of(client: &ClientInner) -> Self {
        let stats = &client.context.stats;
        Self {
            nodes: client.topology.status(),
            failures: stats.failures(),
            script_misses: stats.script_misses(),
            connects: stats.connects(),
            denial_cache_hits: stats.denial_cache_hits(),
            lease_hits: stats.lease_hits(),
            call_sizes: stats.call_sizes(),
        }
    }

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
