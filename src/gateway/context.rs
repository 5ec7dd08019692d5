//! What the innermost service must know of a request that asks to leave HTTP.

use std::sync::Arc;

use http::HeaderValue;
use tokio::sync::OwnedSemaphorePermit;

use crate::server::drain::Connections;
use crate::server::io::Activity;

/// A request to switch protocols; a request extension, put in only where there is one.
#[derive(Clone, Debug)]
pub struct Upgrade {
    /// The protocol asked for.
    pub protocol: HeaderValue,
    /// What the request's connection is doing.
    pub activity: Arc<Activity>,
    /// The worker's connections and tunnels.
    pub connections: Arc<Connections>,
    /// The connection's share of `server.max-connections`, which the tunnel goes on to hold.
    pub permit: Arc<OwnedSemaphorePermit>,
}
