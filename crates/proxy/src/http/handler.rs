//! Interface between the server and the service behind it, guards that keep a client connection from counting as idle, and
//! counters of client connections.

use std::fmt::Debug;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Context;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body as HttpBody;
use tokio::sync::oneshot;
use tower::BoxError;

use crate::http::body::Incoming;
use crate::http::client_certificate::PeerCertificate;
use crate::http::proxy_header::{HeaderFailure, ProxyHeader};
use crate::http::upgrade::TunnelClient;

/// Service that handles requests.
pub trait Handler: 'static {
    /// Body of its responses.
    type Body: ResponseBody;
    /// Future of a response.
    type Future: Future<Output = Response<Self::Body>>;

    /// Handles one request. Must not panic.
    fn handle(&self, request: Request<Incoming>, connection: &ConnectionInfo) -> Self::Future;

    /// Records a request whose head the HTTP parser refused with `status`; `detail` says why. There is no request to handle.
    fn record_refusal(&self, connection: &ConnectionInfo, status: StatusCode, detail: &'static str);
}

/// Body of a response.
pub trait ResponseBody: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin + 'static {
    /// Notes that the body will be dropped before its end, because the client took no byte of it in time.
    fn client_stalled(&mut self);
}

/// Client connection of a request.
#[derive(Debug)]
pub struct ConnectionInfo {
    /// Address of the client: that of its PROXY header, or of the TCP connection.
    pub peer: SocketAddr,
    /// PROXY header with which the connection began.
    pub proxy_header: Option<Rc<ProxyHeader>>,
    /// Certificate of the client, which the TLS handshake has verified.
    pub certificate: Option<Rc<PeerCertificate>>,
    /// Local address.
    pub local: Option<SocketAddr>,
    /// True under TLS.
    pub tls: bool,
    /// Version of TLS, such as `TLSv1.3`.
    pub tls_version: Option<&'static str>,
    /// True for HTTP/1.0 and HTTP/1.1, where the next request waits until this request's body has been read.
    pub http1: bool,
    /// State of the connection that its requests change.
    pub handle: Arc<dyn ConnectionHandle>,
}

impl ConnectionInfo {
    /// Returns true if a load balancer has named the peer in a PROXY header.
    pub fn is_proxied(&self) -> bool {
        self.proxy_header.as_ref().is_some_and(|header| header.names_client)
    }
}

/// State of a client connection that its requests change. It counts their unfinished parts: request bodies still to be
/// read, responses still to be written.
pub trait ConnectionHandle: Debug + Send + Sync {
    /// Adds one unfinished part.
    fn acquire(&self);

    /// Removes one unfinished part; the connection is idle at zero.
    fn release(&self);

    /// Returns true if one part is left.
    fn is_last(&self) -> bool;

    /// Notes that the rest of a request body is not read: the connection ends after the response.
    fn end_reads(&self);

    /// Returns true if the client has closed its sending side. Otherwise the current task, which waits for a request
    /// body, is woken when the client does so.
    fn poll_client_end(&self, cx: &Context<'_>) -> bool;

    /// Turns the connection into a tunnel. Returns its socket when the status 101 has been written.
    fn open_tunnel(&self) -> oneshot::Receiver<TunnelClient>;
}

/// One unfinished part of a request. Dropping it finishes the part.
#[derive(Debug)]
pub struct BusyGuard<C: ConnectionHandle + ?Sized = dyn ConnectionHandle>(Arc<C>);

impl<C: ConnectionHandle + ?Sized> BusyGuard<C> {
    /// Counts a part of a request on `connection` until the guard is dropped.
    pub fn new(connection: Arc<C>) -> Self {
        connection.acquire();
        Self(connection)
    }

    /// Returns the connection.
    pub fn connection(&self) -> &C {
        &self.0
    }
}

impl<C: ConnectionHandle + ?Sized> Drop for BusyGuard<C> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Counters of client connections and TLS handshakes since the start, over all workers.
#[derive(Debug, Default)]
pub struct ConnectionStats {
    /// Connections that were served.
    pub opened: AtomicU64,
    /// Served connections that have ended.
    pub closed: AtomicU64,
    /// Connections that were closed at once because their client has too many.
    pub refused: AtomicU64,
    /// Connections that were closed for their PROXY header, by the reason's position in [`HeaderFailure::ALL`].
    pub failed_headers: [AtomicU64; HeaderFailure::ALL.len()],
    /// Completed TLS handshakes.
    pub handshakes: AtomicU64,
    /// Failed TLS handshakes.
    pub failed_handshakes: AtomicU64,
}

impl ConnectionStats {
    /// Returns the number of open connections, tunnels included.
    pub fn open(&self) -> u64 {
        // The end of a connection is counted after its start, so this order never underflows by much.
        let closed = self.closed.load(Relaxed);
        self.opened.load(Relaxed).saturating_sub(closed)
    }
}
