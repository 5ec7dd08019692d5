//! TLS and HTTP handshakes on a connected socket.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::http::body::Body;
use crate::http::read_ahead;
use crate::upstream::origin::Origin;
use crate::upstream::pool::connection::Http1Sender;
use crate::upstream::pool::error::ConnectError;
use crate::upstream::pool::head_limit::limit_heads;
use crate::upstream::pool::http2::{Slot, Streams};
use crate::upstream::pool::read_hook::HookedIo;
use crate::upstream::pool::settings::PoolSettings;
use crate::upstream::pool::watch::{FrameWatch, watch};
use tollgate_transport::error_chain::error_chain;
use tollgate_transport::executor::{LocalExecutor, spawn_boxed};
use tollgate_transport::tls::TlsConnectors;

/// Flow-control window of a stream: bytes that are buffered for a client that does not read.
const STREAM_WINDOW: u32 = 64 * 1024;
/// Flow-control window of all streams of a connection together, large enough that a few slow clients do not stop the
/// others.
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;
/// Maximum number of streams before the server's SETTINGS arrive.
const INITIAL_MAX_STREAMS: usize = 100;
/// Interval between PING frames on a connection with open streams.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Time limit for the reply to a PING frame.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Connection after its handshakes.
pub(super) enum NewConnection {
    Http1(Http1Sender, Option<OwnedSemaphorePermit>),
    Http2(http2::SendRequest<Body>, Rc<Streams>),
}

/// Highest HTTP version to offer. Without TLS it is the version that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BestVersion {
    Http1,
    Http2,
}

/// Performs the TLS handshake, if the origin requires TLS, and then the HTTP handshake. Under TLS the server chooses
/// the HTTP version.
pub(super) async fn handshake(
    stream: TcpStream,
    origin: &Origin,
    tls: Option<&TlsConnectors>,
    version: BestVersion,
    settings: &PoolSettings,
    slot: Slot,
) -> Result<NewConnection, ConnectError> {
    let Some(tls) = tls else {
        return match version {
            BestVersion::Http1 => http1(stream, settings, slot.permit).await,
            BestVersion::Http2 => http2(stream, origin, settings, slot).await,
        };
    };
    let connecting = tls.connect(stream, version == BestVersion::Http2);
    let connected =
        tokio::time::timeout(settings.handshake_timeout, connecting).await.map_err(|_| ConnectError::TlsTimeout)?;
    let stream = connected.map_err(ConnectError::Tls)?;
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        http2(stream, origin, settings, slot).await
    } else {
        http1(stream, settings, slot.permit).await
    }
}

async fn http1<S>(
    stream: S,
    settings: &PoolSettings,
    permit: Option<OwnedSemaphorePermit>,
) -> Result<NewConnection, ConnectError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (stream, head_limit) = limit_heads(stream, settings);
    let gate = stream.gate();
    let (mut sender, connection) = http1::Builder::new()
        .max_header_size(settings.max_head_bytes)
        .max_headers(settings.max_head_fields)
        .max_buf_size(settings.max_head_bytes.max(read_ahead::MAX))
        .handshake(TokioIo::new(stream))
        .await
        .map_err(ConnectError::Handshake)?;
    let read_ahead = head_limit.read_ahead().clone();
    let task = spawn_boxed(async move {
        let mut connection = pin!(connection.with_upgrades());
        let mut is_cut = false;
        // Requests on the connection get its errors. Unexpected bytes on an idle connection close it.
        let _ = poll_fn(|cx| {
            // hyper wakes the task once more when the last part of a response has been taken.
            let is_at_rest = read_ahead.is_at_rest() && gate.is_closed() && !is_cut;
            if is_at_rest || read_ahead.is_idle(cx) {
                return Poll::Pending;
            }
            let progress = connection.as_mut().poll(cx);
            is_cut = !tokio::task::coop::has_budget_remaining();
            progress
        })
        .await;
    });
    // The sender becomes ready when the task has been polled.
    sender.ready().await.map_err(ConnectError::Handshake)?;
    Ok(NewConnection::Http1(Http1Sender::new(sender, head_limit, task), permit))
}

async fn http2<S>(
    stream: S,
    origin: &Origin,
    settings: &PoolSettings,
    slot: Slot,
) -> Result<NewConnection, ConnectError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (stream, watched) = watch(stream);
    let (sender, connection) = http2::Builder::new(LocalExecutor)
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_max_send_streams(INITIAL_MAX_STREAMS)
        .max_header_list_size(u32::try_from(settings.max_head_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(ConnectError::Handshake)?;
    // Read at each selection: the server may change the limit at any time, without notification.
    let connection: SharedConnection<S> = Rc::new(RefCell::new(Some(connection)));
    let limited = Rc::clone(&connection);
    let max_open = move || {
        let connection = limited.try_borrow().ok();
        connection.and_then(|connection| Some(connection.as_ref()?.current_max_send_streams())).unwrap_or(0)
    };
    let streams = Streams::new(Box::new(max_open), watched, slot);
    spawn_boxed(drive(connection, Rc::clone(&streams), origin.clone()));
    Ok(NewConnection::Http2(sender, streams))
}

/// Running HTTP/2 connection, shared by its task and the stream limit.
type SharedConnection<S> =
    Rc<RefCell<Option<http2::Connection<TokioIo<HookedIo<S, FrameWatch>>, Body, LocalExecutor>>>>;

/// Drives a connection to its end and drops it then, so that requests that still wait on it fail.
async fn drive<S>(connection: SharedConnection<S>, streams: Rc<Streams>, origin: Origin)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let ended = poll_fn(|cx| match &mut *connection.borrow_mut() {
        Some(connection) => Pin::new(connection).poll(cx),
        None => Poll::Ready(Ok(())),
    });
    if let Err(error) = ended.await {
        let error = streams.read_error().map_or_else(|| error_chain(&error), str::to_owned);
        let (host, port) = (&origin.host, origin.port);
        if streams.is_idle() {
            tracing::debug!(host, port, error, "upstream http/2 connection closed");
        } else {
            // The requests only learn that the connection is closed.
            tracing::warn!(host, port, error, "upstream http/2 connection lost");
        }
    }
    connection.borrow_mut().take();
}
