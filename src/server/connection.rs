//! One client connection: which protocol, and the requests on it until it ends.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep};

use crate::http::body::Body;
use crate::server::drain::{Connections, Open, Stage};
use crate::server::io::{Activity, ClientIo, Patience};
use crate::server::sniff::Protocol;
use crate::server::stream::ClientStream;
use crate::server::turns::Turns;

/// Streams that one HTTP/2 client may have open at once (RFC 9113 §6.5.2 advises at least 100).
const H2_STREAMS: u32 = 128;
/// What one HTTP/2 stream may send before it must wait for the upstream, and all streams of a connection together.
const H2_STREAM_WINDOW: u32 = 64 * 1024;
const H2_CONNECTION_WINDOW: u32 = 1024 * 1024;

/// How long a connection that the system had accepted for a closing gateway may take to send its request's first byte.
const CLOSING_GRACE: Duration = Duration::from_millis(500);

/// What clients are allowed on a connection.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a request's head.
    pub header_bytes: usize,
    /// Fields of a request's head.
    pub headers: usize,
    /// HTTP/2 with prior knowledge beside HTTP/1.1. Under TLS the handshake agrees on the protocol.
    pub http2: bool,
    /// TLS, with what the gateway shows and asks for.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// How long a client may take.
    pub patience: Patience,
}

/// What the requests of a connection share.
#[derive(Debug)]
pub struct ConnectionInfo {
    /// The peer's address.
    pub peer: SocketAddr,
    /// Where it was accepted.
    pub local: Option<SocketAddr>,
    /// Under TLS.
    pub tls: bool,
    /// HTTP/1.0 or HTTP/1.1: the next request waits for this one's body to be read.
    pub http1: bool,
    /// What the connection is doing.
    pub activity: Arc<Activity>,
    /// The worker's connections, this one among them.
    pub connections: Arc<Connections>,
    /// Its share of `server.max-connections`.
    pub permit: Arc<OwnedSemaphorePermit>,
    /// HTTP/2: whose turn it is in each answer. HTTP/1 has one answer at a time, and the socket tells.
    pub turns: Option<Turns>,
}

/// Answers requests.
pub trait Handler: 'static {
    /// The answer to come.
    type Answer: Future<Output = Response<Body>>;

    /// Answers one request. Never fails and never panics.
    fn handle(&self, request: Request<Incoming>, connection: &Rc<ConnectionInfo>) -> Self::Answer;
}

/// Serves one accepted connection to its end.
///
/// A connection that is idle for a moment is parked: hyper's state and its buffers, some 18 KB, are let go of, and only
/// the socket is kept until the next request's first byte.
pub async fn serve<H: Handler>(
    stream: TcpStream,
    peer: SocketAddr,
    limits: Limits,
    connections: Arc<Connections>,
    permit: Arc<OwnedSemaphorePermit>,
    handler: Rc<H>,
) {
    let open = connections.open();
    let _ = stream.set_nodelay(true);
    let local = stream.local_addr().ok();
    let mut patience = limits.patience.header;
    let (mut stream, mut protocol) = match &limits.tls {
        None => (ClientStream::Plain(stream), (!limits.http2).then_some(Protocol::Http1)),
        Some(tls) => match in_time(Box::pin(ClientStream::handshake(stream, Arc::clone(tls))), &open, patience).await {
            Ok((stream, protocol)) => (stream, Some(protocol)),
            Err(error) => return tracing::debug!(%peer, %error, "a TLS handshake failed"),
        },
    };
    let tls = stream.is_tls();
    // The handshake's last bytes may have come with a request's first.
    let mut may_wait = !tls;
    let mut received = Bytes::new();
    loop {
        if std::mem::replace(&mut may_wait, true) && received.is_empty() {
            match in_time(stream.first_bytes(), &open, patience).await {
                Ok(sniffed) => protocol = protocol.or(Some(sniffed)),
                Err(error) => return tracing::debug!(%peer, %error, "a connection ended before its next request"),
            }
        }
        let http1 = protocol == Some(Protocol::Http1);
        let activity = Activity::new(Instant::now(), http1);
        let connections = Arc::clone(&connections);
        let permit = Arc::clone(&permit);
        let turns = (!http1).then(Turns::default);
        let info =
            ConnectionInfo { peer, local, tls, http1, activity: Arc::clone(&activity), connections, permit, turns };
        let info = Rc::new(info);
        let io = ClientIo::new(stream, received, activity, limits.patience);
        // Boxed one by one, so that a parked connection is as small as its socket.
        if !http1 {
            return Box::pin(serve_http2(io, &limits, info, Rc::clone(&handler), &open)).await;
        }
        let Some(parked) = Box::pin(serve_http1(io, &limits, info, Rc::clone(&handler), &open)).await else { return };
        (stream, received) = parked;
        patience = limits.patience.idle;
    }
}

/// Serves HTTP/1 until the connection ends or is idle: then it is handed back, with what was received of the next
/// request, if anything.
async fn serve_http1<H: Handler>(
    io: ClientIo,
    limits: &Limits,
    info: Rc<ConnectionInfo>,
    handler: Rc<H>,
    open: &Open,
) -> Option<(ClientStream, Bytes)> {
    let activity = Arc::clone(&info.activity);
    let peer = info.peer;
    let service = service_fn(move |request| {
        let answer = handler.handle(request, &info);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut connection = http1::Builder::new()
        .header_read_timeout(None::<Duration>) // ClientIo has one, for a tenth of the price
        .max_headers(limits.headers)
        .max_header_size(limits.header_bytes)
        .max_buf_size(limits.header_bytes.max(64 * 1024))
        .serve_connection(TokioIo::new(io), service)
        .with_upgrades();
    let end = http1::UpgradeableConnection::graceful_shutdown;
    match drive(Pin::new(&mut connection), open, Stage::Closing, end, || activity.is_parked()).await {
        Some(Ok(())) => None,
        Some(Err(error)) => {
            tracing::debug!(%peer, %error, "a connection ended early");
            None
        }
        None => {
            let parts = connection.into_parts()?;
            Some((parts.io.into_inner().into_stream(), parts.read_buf))
        }
    }
}

async fn serve_http2<H: Handler>(io: ClientIo, limits: &Limits, info: Rc<ConnectionInfo>, handler: Rc<H>, open: &Open) {
    let peer = info.peer;
    let watched = Rc::clone(&info);
    let service = service_fn(move |request| {
        let answer = handler.handle(request, &info);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let connection = http2::Builder::new(LocalExecutor)
        .timer(TokioTimer::new())
        .max_concurrent_streams(H2_STREAMS)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(H2_STREAM_WINDOW)
        .initial_connection_window_size(H2_CONNECTION_WINDOW)
        .serve_connection(TokioIo::new(io), service);
    // GOAWAY tells the client which requests were not taken: there is nothing to wait for.
    let end = http2::Connection::graceful_shutdown;
    let stalled = async {
        match &watched.turns {
            Some(turns) => turns.stalled(limits.patience.write).await,
            None => std::future::pending().await,
        }
    };
    let mut connection = pin!(connection);
    tokio::select! {
        ended = drive(connection.as_mut(), open, Stage::LastRequests, end, || false) => {
            if let Some(Err(error)) = ended {
                tracing::debug!(%peer, %error, "a connection ended early");
            }
        }
        () = stalled => tracing::debug!(%peer, "a connection was ended: its client does not read its answers"),
    }
}

/// Waits for what a client has to send: not for ever, and hardly at all once the gateway is closing.
async fn in_time<T>(coming: impl Future<Output = io::Result<T>>, open: &Open, patience: Duration) -> io::Result<T> {
    let mut grace = None;
    let mut coming = pin!(tokio::time::timeout(patience, coming));
    let mut watched = false;
    poll_fn(|cx| {
        if !std::mem::replace(&mut watched, true) {
            open.watch(cx);
        }
        match coming.as_mut().poll(cx) {
            Poll::Ready(Ok(come)) => Poll::Ready(come),
            Poll::Ready(Err(_)) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending if open.stage() == Stage::Closing => {
                let grace = grace.get_or_insert_with(|| Box::pin(sleep(CLOSING_GRACE)));
                grace.as_mut().poll(cx).map(|()| Err(io::ErrorKind::ConnectionAborted.into()))
            }
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Polls a connection to its end, and tells it once when the draining has come to `last`. `None` where it is to be
/// left as it is.
async fn drive<C, E>(
    mut connection: Pin<&mut C>,
    open: &Open,
    last: Stage,
    end: fn(Pin<&mut C>),
    leave: impl Fn() -> bool,
) -> Option<Result<(), E>>
where
    C: Future<Output = Result<(), E>>,
{
    let (mut watched, mut told) = (false, false);
    poll_fn(|cx: &mut Context<'_>| {
        if !std::mem::replace(&mut watched, true) {
            open.watch(cx);
        }
        // Polled before it is told: a request that has come must be read first, or hyper closes upon it.
        let mut ended = connection.as_mut().poll(cx);
        if ended.is_pending() && !told && open.stage() >= last {
            told = true;
            end(connection.as_mut());
            ended = connection.as_mut().poll(cx);
        }
        match ended {
            Poll::Ready(ended) => Poll::Ready(Some(ended)),
            Poll::Pending if leave() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Spawns an HTTP/2 connection's streams on its own thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalExecutor;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}
