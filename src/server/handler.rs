//! Interface between the server and the service behind it.

use std::any::Any;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{Request, Response};
use http_body::Body as HttpBody;
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;
use tower::BoxError;

use crate::http::upgrade::TunnelHost;
use crate::server::client_io::Activity;
use crate::server::drain::{Connections, OpenConnection};
use crate::server::write_stalls::WriteStalls;

/// Service that handles requests.
pub trait Handler: 'static {
    /// Body of its responses.
    type Body: HttpBody<Error: Into<BoxError>> + Unpin + 'static;
    /// Future of a response.
    type Future: Future<Output = Response<Self::Body>>;

    /// Handles one request. Must not panic.
    fn handle(&self, request: Request<Incoming>, connection: &ConnectionInfo) -> Self::Future;
}

/// Connection data shared by its requests.
#[derive(Debug)]
pub struct ConnectionInfo {
    /// Peer address.
    pub peer: SocketAddr,
    /// Local address.
    pub local: Option<SocketAddr>,
    /// True under TLS.
    pub tls: bool,
    /// True for HTTP/1.0 and HTTP/1.1, where the next request waits until this request's body has been read.
    pub http1: bool,
    /// State of the connection.
    pub activity: Arc<Activity>,
    /// All connections of the worker, including this one.
    pub(super) connections: Arc<Connections>,
    /// Share of `server.max-connections`.
    pub(super) permit: Arc<OwnedSemaphorePermit>,
    /// Responses that the client does not read. HTTP/2 only: HTTP/1 has one response at a time, and its socket shows
    /// the stall.
    pub(super) write_stalls: Option<WriteStalls>,
}

impl ConnectionInfo {
    /// Returns a handle that can turn the connection into a tunnel.
    #[must_use]
    pub fn tunnel_host(&self) -> Arc<dyn TunnelHost> {
        Arc::new(ClientTunnelHost {
            activity: Arc::clone(&self.activity),
            connections: Arc::clone(&self.connections),
            permit: Arc::clone(&self.permit),
        })
    }
}

#[derive(Debug)]
struct ClientTunnelHost {
    activity: Arc<Activity>,
    connections: Arc<Connections>,
    permit: Arc<OwnedSemaphorePermit>,
}

/// Holds an open tunnel's place among the connections and its share of `server.max-connections`.
struct OpenTunnel {
    _open: OpenConnection,
    _permit: Arc<OwnedSemaphorePermit>,
}

impl TunnelHost for ClientTunnelHost {
    fn open_tunnel(&self) -> Box<dyn Any> {
        self.activity.set_tunnel();
        Box::new(OpenTunnel { _open: self.connections.open(), _permit: Arc::clone(&self.permit) })
    }
}
