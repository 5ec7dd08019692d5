//! Client connections that become tunnels.

use std::any::Any;
use std::sync::Arc;

use crate::http::upgrade::TunnelHost;
use crate::server::activity::Activity;
use crate::server::drain::{Connections, OpenConnection};
use crate::server::gate::ConnectionPermit;

/// Client connection that can become a tunnel.
#[derive(Debug)]
pub(super) struct ClientTunnelHost {
    pub(super) activity: Arc<Activity>,
    pub(super) connections: Arc<Connections>,
    /// Share of `server.max-connections`.
    pub(super) permit: Arc<ConnectionPermit>,
}

/// Open tunnel: counted among the connections, with its share of `server.max-connections`.
struct OpenTunnel {
    _open: OpenConnection,
    _permit: Arc<ConnectionPermit>,
}

impl TunnelHost for ClientTunnelHost {
    fn open_tunnel(&self) -> Box<dyn Any> {
        self.activity.set_tunnel();
        Box::new(OpenTunnel { _open: self.connections.open(), _permit: Arc::clone(&self.permit) })
    }
}
