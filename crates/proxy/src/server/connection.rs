//! One client connection: TLS, protocol detection, and serving until it ends.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep};
use tollgate_config::ProxyProtocol;
use tollgate_transport::executor::spawn_boxed;

use crate::http::client_certificate::PeerCertificate;
use crate::http::handler::{ConnectionHandle, ConnectionInfo, Handler};
use crate::http::upgrade::TunnelClient;
use crate::server::activity::{Activity, ClientTimeouts};
use crate::server::client_io::ClientIo;
use crate::server::drain::{DrainStage, OpenConnection};
use crate::server::gate::{ClientLimits, ConnectionPermit, Gate, Refused};
use crate::server::http2::serve_http2;
use crate::server::protocol::{HeadLimits, Served, ServedConnection, serve_http1};
use crate::server::proxy_header::{Client, Unserved, receive};
use crate::server::sniff::Protocol;
use crate::server::stream::{ClientStream, LINGER_TIME, discard, discard_some};

/// Time in which a connection from the accept queue of a closing gateway must send the first byte of its request.
const CLOSING_GRACE: Duration = Duration::from_millis(500);

/// Limits and protocols of client connections.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// Limits of a request head.
    pub head: HeadLimits,
    /// Connections that begin with a PROXY header; `None`: no connection does.
    pub proxy_protocol: Option<Rc<ProxyProtocol>>,
    /// Enables HTTP/2 with prior knowledge on cleartext connections. Under TLS, ALPN selects the protocol.
    pub http2: bool,
    /// TLS settings; `None` serves cleartext.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Timeouts for the client.
    pub timeouts: ClientTimeouts,
    /// Enables responses to clients that have closed their sending side.
    pub half_close: bool,
    /// Limits of each client.
    pub client: ClientLimits,
    /// Clients without such limits: the trusted proxies.
    pub exempt: ExemptClients,
}

/// Set of client addresses.
#[derive(Clone)]
pub struct ExemptClients(pub Rc<dyn Fn(IpAddr) -> bool>);

impl std::fmt::Debug for ExemptClients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ExemptClients")
    }
}

impl ConnectionLimits {
    /// Returns the limits of the client at `ip`; `None` for a trusted proxy.
    pub(super) fn of_client(&self, ip: IpAddr) -> Option<ClientLimits> {
        (!(self.exempt.0)(ip)).then_some(self.client)
    }
}

/// State that the connections of a worker share.
pub(super) struct Acceptor<H> {
    handler: Rc<H>,
    gate: Gate,
    refused: RefCell<Refused>,
}

impl<H: Handler> Acceptor<H> {
    /// Creates the acceptor of a worker.
    pub(super) fn new(handler: Rc<H>, gate: Gate) -> Self {
        Self { handler, gate, refused: RefCell::default() }
    }

    /// Starts to serve a connection that has a place.
    pub(super) fn start(
        self: &Rc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        limits: ConnectionLimits,
        open: OpenConnection,
        place: OwnedSemaphorePermit,
    ) {
        match &limits.proxy_protocol {
            Some(protocol) if protocol.trusts(peer.ip()) => {
                spawn_boxed(Rc::clone(self).serve_proxied(stream, peer, limits, open, place));
            }
            _ => {
                if let Some(permit) = self.admit(peer, &limits, place) {
                    spawn_boxed(serve(stream, Client::from(peer), limits, open, permit, Rc::clone(&self.handler)));
                }
            }
        }
    }

    /// Serves a connection that begins with a PROXY header.
    async fn serve_proxied(
        self: Rc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        limits: ConnectionLimits,
        open: OpenConnection,
        place: OwnedSemaphorePermit,
    ) {
        let Some(protocol) = &limits.proxy_protocol else { return };
        let client = match receive(&stream, peer, protocol, &open).await {
            Ok(client) => client,
            Err(Unserved::Ended) => return,
            Err(Unserved::Failed(failure)) => return self.gate.reject_header(peer.ip(), failure),
        };
        let Some(permit) = self.admit(client.peer, &limits, place) else { return };
        let handler = Rc::clone(&self.handler);
        drop(self);
        serve(stream, client, limits, open, permit, handler).await;
    }

    /// Admits the connection of a client, unless it has too many.
    fn admit(
        &self,
        client: SocketAddr,
        limits: &ConnectionLimits,
        place: OwnedSemaphorePermit,
    ) -> Option<Arc<ConnectionPermit>> {
        let permit = self.gate.admit(place, client.ip(), limits.of_client(client.ip()));
        if permit.is_none() {
            self.refused.borrow_mut().add(client.ip());
        }
        permit
    }
}

/// Serves one accepted connection to its end.
///
/// An idle connection is parked: it drops hyper's state and buffers, about 18 KB, and keeps only the socket until the
/// first byte of the next request.
fn serve<H: Handler>(
    stream: TcpStream,
    client: Client,
    limits: ConnectionLimits,
    open: OpenConnection,
    permit: Arc<ConnectionPermit>,
    handler: Rc<H>,
) -> impl Future<Output = ()> {
    let Client { peer, proxy_header } = client;
    let _ = stream.set_nodelay(true);
    let local = stream.local_addr().ok();
    // Not an `async fn`: each idle connection would hold the arguments twice.
    async move {
        let mut timeout = limits.timeouts.header;
        let (mut stream, mut protocol) = match shake_hands(stream, &limits, &open, &permit).await {
            Ok(shaken) => shaken,
            Err(error) => return tracing::debug!(%peer, %error, "client tls handshake failed"),
        };
        let (tls, tls_version) = (stream.is_tls(), stream.tls_version());
        let certificate = stream.client_chain().and_then(PeerCertificate::of).map(Rc::new);
        // The last packet of the handshake may have carried the first request.
        let mut may_wait = !tls;
        let mut received = Bytes::new();
        loop {
            if std::mem::replace(&mut may_wait, true) && received.is_empty() {
                match wait_for_client(pin!(stream.first_bytes()), &open, timeout).await {
                    Ok(sniffed) => protocol = protocol.or(Some(sniffed)),
                    Err(error) => return tracing::debug!(%peer, %error, "client connection closed between requests"),
                }
            }
            let http1 = protocol == Some(Protocol::Http1);
            let activity = Activity::new(Instant::now(), http1);
            let handle: Arc<dyn ConnectionHandle> = Arc::<Activity>::clone(&activity);
            let served = Rc::new(ServedConnection {
                info: ConnectionInfo {
                    peer,
                    proxy_header: proxy_header.clone(),
                    certificate: certificate.clone(),
                    local,
                    tls,
                    tls_version,
                    http1,
                    handle,
                },
                activity: Arc::clone(&activity),
                permit: Arc::clone(&permit),
                connections: Arc::clone(open.all()),
                asks_upgrade: Cell::default(),
            });
            let io = ClientIo::new(stream, received, activity, limits.timeouts, limits.half_close);
            let (timeouts, handler) = (&limits.timeouts, Rc::clone(&handler));
            // Boxed separately, so that a parked connection is as small as its socket.
            if !http1 {
                let serving = Box::pin(serve_http2(io, limits.head, timeouts.write, served, handler, &open));
                if let Some(stream) = serving.await {
                    linger(&stream, false, &open).await;
                }
                return;
            }
            match Box::pin(serve_http1(io, limits.head, timeouts.write, served, handler, &open)).await {
                Served::Idle(idle, bytes) => (stream, received) = (idle, bytes),
                Served::Closed { stream, is_sending } => return linger(&stream, is_sending, &open).await,
                Served::Tunnel(stream, tunnel) => {
                    let open = Box::new((open.all().open(), permit));
                    let _ = tunnel.send(TunnelClient { stream, open });
                    return;
                }
                Served::Gone => return,
            }
            timeout = timeouts.idle;
        }
    }
}

/// Completes and counts the TLS handshake, if there is TLS. Returns the protocol as far as it is known.
async fn shake_hands(
    stream: TcpStream,
    limits: &ConnectionLimits,
    open: &OpenConnection,
    permit: &ConnectionPermit,
) -> io::Result<(ClientStream, Option<Protocol>)> {
    let Some(tls) = &limits.tls else {
        return Ok((ClientStream::Plain(stream), (!limits.http2).then_some(Protocol::Http1)));
    };
    let mut handshake = Box::pin(ClientStream::handshake(stream, Arc::clone(tls)));
    let shaken = wait_for_client(handshake.as_mut(), open, limits.timeouts.header).await;
    permit.count_handshake(shaken.is_ok());
    shaken.map(|(stream, protocol)| (stream, Some(protocol)))
}

/// Waits until the client of a connection that the gateway has closed has sent everything, if bytes of it have arrived or
/// if it `is_sending`. The connection counts as idle meanwhile.
pub(super) async fn linger(stream: &ClientStream, is_sending: bool, open: &OpenConnection) {
    let socket = stream.socket();
    if is_sending || discard_some(socket).is_ok_and(|count| count > 0) {
        let _ = wait_for_client(Box::pin(discard(socket)).as_mut(), open, LINGER_TIME).await;
    }
}

/// Waits for bytes of the client, for `timeout` at most, and for [`CLOSING_GRACE`] once the gateway is closing.
pub(super) async fn wait_for_client<T>(
    mut bytes: Pin<&mut impl Future<Output = io::Result<T>>>,
    open: &OpenConnection,
    timeout: Duration,
) -> io::Result<T> {
    let (mut timer, mut grace) = (pin!(None), None);
    // The task keeps its waker: it is woken at each stage of a shutdown from now on.
    poll_fn(|cx| {
        open.watch(cx);
        Poll::Ready(())
    })
    .await;
    let received = poll_fn(|cx| {
        if let Poll::Ready(received) = bytes.as_mut().poll(cx) {
            return Poll::Ready(received);
        }
        // Bytes that have arrived cost no timer and no place among the idle connections.
        if timer.is_none() {
            timer.set(Some(sleep(timeout)));
            open.set_idle(true);
        }
        if timer.as_mut().as_pin_mut().is_some_and(|timer| timer.poll(cx).is_ready()) {
            Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
        } else if open.is_evicted() {
            Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()))
        } else if open.stage() == DrainStage::Closing {
            let grace = grace.get_or_insert_with(|| Box::pin(sleep(CLOSING_GRACE)));
            grace.as_mut().poll(cx).map(|()| Err(io::ErrorKind::ConnectionAborted.into()))
        } else {
            Poll::Pending
        }
    })
    .await;
    open.set_idle(false);
    received
}
