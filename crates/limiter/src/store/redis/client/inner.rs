//! State that a client and its requests share.

use std::sync::Arc;

use crate::store::redis::connection::ConnectionContext;
use crate::store::redis::error::StoreError;
use crate::store::redis::hash_slot::HashSlot;
use crate::store::redis::stats::Operation;
use crate::store::redis::topology::{Node, Topology};

/// Name in logs when no single node is concerned.
pub(super) const CLUSTER: &str = "cluster";

/// State that a client and its requests share.
pub(super) struct ClientInner {
    pub(super) topology: Topology,
    pub(super) context: Arc<ConnectionContext>,
}

impl ClientInner {
    /// Node that keeps the keys of a slot.
    pub(super) fn route(&self, operation: Operation, slot: impl FnOnce() -> HashSlot) -> Result<Arc<Node>, StoreError> {
        let node = self.topology.route(slot);
        node.inspect_err(|&kind| self.context.record_failure(operation, CLUSTER, kind, None))
    }
}
