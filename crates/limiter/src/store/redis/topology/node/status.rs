//! Status of one server, for readiness and metrics.

use super::{Address, Node};
use crate::store::breaker::BreakerState;

/// Status of one server.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    /// `host:port`, or the primary's name in the Sentinels' configuration.
    pub name: String,
    /// Address of the primary that Sentinels name; `None` before the first, and without Sentinels.
    pub primary: Option<String>,
    /// Number of live connections.
    pub live_connections: usize,
    /// State of the circuit breaker.
    pub breaker: BreakerState,
    /// Last connection error, without secrets; `None` while a connection is live.
    pub last_error: Option<String>,
}

impl NodeStatus {
    pub(crate) fn of(node: &Node) -> Self {
        Self {
            name: node.name.clone(),
            primary: match &node.address {
                Address::Published(address) => address.current().map(|address| address.to_string()),
                Address::Fixed(_) => None,
            },
            live_connections: node.live_connections(),
            breaker: node.breaker.state(),
            last_error: node.last_error.lock().as_ref().map(|(_, text)| text.clone()),
        }
    }
}
