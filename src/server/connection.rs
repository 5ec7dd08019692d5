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

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::drain::{Connections, Open, Stage};
use super::io::{Activity, ClientIo, Patience};
use super::sniff::{Protocol, sniff};
use crate::body::Body;

/// Streams that one HTTP/2 client may have open at once (RFC 9113 §6.5.2 advises at least 100).
const H2_STREAMS: u32 = 128;
/// What one HTTP/2 stream may send before it must wait for the upstream, and all streams of a connection together.
const H2_STREAM_WINDOW: u32 = 64 * 1024;
const H2_CONNECTION_WINDOW: u32 = 1024 * 1024;

/// How long a connection that the system had accepted for a closing gateway may take to send its request's first byte.
const CLOSING_GRACE: Duration = Duration::from_millis(500);

/// What clients are allowed on a connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request's head.
    pub header_bytes: usize,
    /// Fields of a request's head.
    pub headers: usize,
    /// HTTP/2 with prior knowledge beside HTTP/1.1.
    pub http2: bool,
    /// How long a client may take.
    pub patience: Patience,
}

/// What the requests of a connection share.
#[derive(Debug)]
pub struct ConnectionInfo {
    /// The peer's address.
    pub peer: SocketAddr,
    /// HTTP/1.0 or HTTP/1.1: the next request waits for this one's body to be read.
    pub http1: bool,
    /// What the connection is doing.
    pub activity: Arc<Activity>,
    /// The worker's connections, this one among them.
    pub connections: Arc<Connections>,
}

/// Answers requests.
pub trait Handler: 'static {
    /// Answers one. Never fails and never panics.
    fn handle(
        self: Rc<Self>,
        request: Request<Incoming>,
        connection: Rc<ConnectionInfo>,
    ) -> impl Future<Output = Response<Body>>;
}

/// Serves one accepted connection to its end.
pub async fn serve<H: Handler>(
    stream: TcpStream,
    peer: SocketAddr,
    limits: Limits,
    connections: Arc<Connections>,
    handler: Rc<H>,
) {
    let open = connections.open();
    let _ = stream.set_nodelay(true);
    let accepted = Instant::now();
    let protocol = match first_bytes(&stream, &open, &limits).await {
        Ok(protocol) => protocol,
        Err(error) => return tracing::debug!(%peer, %error, "a connection ended before its first request"),
    };
    let activity = Activity::new(accepted);
    let http1 = protocol == Protocol::Http1;
    let info = Rc::new(ConnectionInfo { peer, http1, activity: Arc::clone(&activity), connections });
    let io = TokioIo::new(ClientIo::new(stream, activity, limits.patience));
    let service = service_fn(move |request| {
        let answer = Rc::clone(&handler).handle(request, Rc::clone(&info));
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let ended = match protocol {
        Protocol::Http1 => {
            let connection = http1::Builder::new()
                .header_read_timeout(None::<Duration>) // ClientIo has one, for a tenth of the price
                .max_headers(limits.headers)
                .max_header_size(limits.header_bytes)
                .max_buf_size(limits.header_bytes.max(64 * 1024))
                .serve_connection(io, service)
                .with_upgrades();
            drive(pin!(connection), &open, Stage::Closing, http1::UpgradeableConnection::graceful_shutdown).await
        }
        Protocol::Http2 => {
            let connection = http2::Builder::new(LocalExecutor)
                .timer(TokioTimer::new())
                .max_concurrent_streams(H2_STREAMS)
                .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
                .initial_stream_window_size(H2_STREAM_WINDOW)
                .initial_connection_window_size(H2_CONNECTION_WINDOW)
                .serve_connection(io, service);
            // GOAWAY tells the client which requests were not taken: there is nothing to wait for.
            drive(pin!(connection), &open, Stage::LastRequests, http2::Connection::graceful_shutdown).await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection ended early");
    }
}

/// Waits for the first bytes: not for ever, and hardly at all once the gateway is closing.
async fn first_bytes(stream: &TcpStream, open: &Open, limits: &Limits) -> io::Result<Protocol> {
    let mut grace = None;
    let mut sniffing = pin!(tokio::time::timeout(limits.patience.header, sniff(stream)));
    let mut watched = false;
    poll_fn(|cx| {
        if !std::mem::replace(&mut watched, true) {
            open.watch(cx);
        }
        match sniffing.as_mut().poll(cx) {
            Poll::Ready(Ok(Ok(Protocol::Http2))) if !limits.http2 => Poll::Ready(Ok(Protocol::Http1)),
            Poll::Ready(Ok(protocol)) => Poll::Ready(protocol),
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

/// Polls a connection to its end, and tells it once when the draining has come to `last`.
async fn drive<C, E>(mut connection: Pin<&mut C>, open: &Open, last: Stage, end: fn(Pin<&mut C>)) -> Result<(), E>
where
    C: Future<Output = Result<(), E>>,
{
    let (mut watched, mut told) = (false, false);
    poll_fn(|cx: &mut Context<'_>| {
        if !std::mem::replace(&mut watched, true) {
            open.watch(cx);
        }
        // Polled before it is told: a request that has come must be read first, or hyper closes upon it.
        let ended = connection.as_mut().poll(cx);
        if ended.is_pending() && !told && open.stage() >= last {
            told = true;
            end(connection.as_mut());
            return connection.as_mut().poll(cx);
        }
        ended
    })
    .await
}

/// Spawns an HTTP/2 connection's streams on its own thread.
#[derive(Clone, Copy, Debug)]
struct LocalExecutor;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}
