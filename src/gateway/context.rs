//! What the innermost service must know of the connection that a request came on.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::server::drain::Connections;
use crate::server::io::Activity;

/// The peer of a request; a request extension, put in only where something needs it: a trusted peer's forwarding
/// fields, or a tunnel.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Whether it is a trusted proxy.
    pub trusted: bool,
    /// What its connection is doing.
    pub activity: Arc<Activity>,
    /// The worker's connections and tunnels.
    pub connections: Arc<Connections>,
}
