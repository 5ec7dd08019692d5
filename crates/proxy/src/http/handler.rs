//! Interface between the server and the service behind it.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body as HttpBody;
use tower::BoxError;

use crate::http::body::Incoming;
use crate::http::busy::BusyCount;
use crate::http::upgrade::TunnelHost;

/// Service that handles requests.
pub trait Handler: 'static {
    /// Body of its responses.
    type Body: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin + 'static;
    /// Future of a response.
    type Future: Future<Output = Response<Self::Body>>;

    /// Handles one request. Must not panic.
    fn handle(&self, request: Request<Incoming>, connection: &ConnectionInfo) -> Self::Future;

    /// Records a request whose head the HTTP parser refused with `status`; `detail` says why. There is no request to handle.
    fn record_refusal(&self, connection: &ConnectionInfo, status: StatusCode, detail: &'static str);
}

/// Client connection of a request.
#[derive(Debug)]
pub struct ConnectionInfo {
    /// Peer address.
    pub peer: SocketAddr,
    /// Local address.
    pub local: Option<SocketAddr>,
    /// True under TLS.
    pub tls: bool,
    /// Version of TLS, such as `TLSv1.3`.
    pub tls_version: Option<&'static str>,
    /// True for HTTP/1.0 and HTTP/1.1, where the next request waits until this request's body has been read.
    pub http1: bool,
    /// Count of the unfinished parts of its requests.
    pub busy: Arc<dyn BusyCount>,
    /// Handle that turns the connection into a tunnel.
    pub tunnel_host: Arc<dyn TunnelHost>,
}
