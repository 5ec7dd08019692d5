//! From a connected socket to a connection that takes requests: TLS, then HTTP.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::http::body::Body;
use crate::http::executor::LocalExecutor;
use crate::upstream::error::chain;
use crate::upstream::origin::Origin;
use crate::upstream::pool::error::ConnectError;
use crate::upstream::pool::error_capture::{CapturedError, ErrorCapture};
use crate::upstream::pool::head_limit::{HeadLimit, HeadLimitedIo};
use crate::upstream::pool::http2::Streams;
use crate::upstream::pool::settings::PoolSettings;
use crate::upstream::tls::Connectors;

/// What one HTTP/2 stream may send before it must wait for the client: what a client that does not read costs.
const STREAM_WINDOW: u32 = 128 * 1024;
/// What all streams of a connection together may: so much that no few slow clients stop the others.
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;
/// Streams until the server's SETTINGS have come.
const FIRST_STREAMS: usize = 100;
/// How often a connection with open streams is asked whether it lives, and how long it has to say so.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_PATIENCE: Duration = Duration::from_secs(10);

/// A connection that takes requests.
pub(super) enum Fresh {
    Http1(http1::SendRequest<Body>, HeadLimit, Option<OwnedSemaphorePermit>),
    Http2(http2::SendRequest<Body>, Rc<Streams>),
}

/// What is spoken over a plain connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Http1,
    Http2,
}

/// Sets up TLS, if the origin speaks it, then HTTP. With TLS `version` is the best that is offered, and the server
/// chooses.
pub(super) async fn handshake(
    stream: TcpStream,
    origin: &Origin,
    tls: Option<&Connectors>,
    version: Version,
    settings: &PoolSettings,
    permit: Option<OwnedSemaphorePermit>,
) -> Result<Fresh, ConnectError> {
    let max_head_bytes = settings.max_head_bytes;
    let Some(tls) = tls else {
        return match version {
            Version::Http1 => http1(stream, max_head_bytes, permit).await,
            Version::Http2 => http2(stream, origin, max_head_bytes, permit).await,
        };
    };
    let connecting = tls.connect(stream, version == Version::Http2);
    let connected =
        tokio::time::timeout(settings.handshake_timeout, connecting).await.map_err(|_| ConnectError::TlsTimeout)?;
    let stream = connected.map_err(ConnectError::Tls)?;
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        http2(stream, origin, max_head_bytes, permit).await
    } else {
        http1(stream, max_head_bytes, permit).await
    }
}

async fn http1<S>(stream: S, max_head_bytes: usize, permit: Option<OwnedSemaphorePermit>) -> Result<Fresh, ConnectError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (stream, head_limit) = HeadLimitedIo::new(stream, max_head_bytes);
    let (mut sender, connection) = http1::Builder::new()
        .max_header_size(max_head_bytes)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(ConnectError::Handshake)?;
    tokio::task::spawn_local(async move {
        // Its requests learn of its errors; what comes on an idle connection ends it, unseen by any request.
        let _ = connection.with_upgrades().await;
    });
    // It says that it is ready once its task has been polled.
    sender.ready().await.map_err(ConnectError::Handshake)?;
    Ok(Fresh::Http1(sender, head_limit, permit))
}

async fn http2<S>(
    stream: S,
    origin: &Origin,
    max_head_bytes: usize,
    permit: Option<OwnedSemaphorePermit>,
) -> Result<Fresh, ConnectError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (stream, note) = ErrorCapture::new(stream);
    let (sender, connection) = http2::Builder::new(LocalExecutor)
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_max_send_streams(FIRST_STREAMS)
        .max_header_list_size(u32::try_from(max_head_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_PATIENCE)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(ConnectError::Handshake)?;
    // Asked at every choice: the server may change its mind, and nothing else would tell.
    let connection: Running<S> = Rc::new(RefCell::new(Some(connection)));
    let asked = Rc::clone(&connection);
    let most = move || {
        let connection = asked.try_borrow().ok();
        connection.and_then(|connection| Some(connection.as_ref()?.current_max_send_streams())).unwrap_or(0)
    };
    let streams = Streams::new(Box::new(most), permit);
    tokio::task::spawn_local(drive(connection, Rc::clone(&streams), origin.clone(), note));
    Ok(Fresh::Http2(sender, streams))
}

/// A connection as long as it runs, for whoever drives it and for who asks it.
type Running<S> = Rc<RefCell<Option<http2::Connection<TokioIo<ErrorCapture<S>>, Body, LocalExecutor>>>>;

/// Runs a connection to its end, and drops it then: whatever still waits in it learns so.
async fn drive<S>(connection: Running<S>, streams: Rc<Streams>, origin: Origin, note: CapturedError)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let ended = poll_fn(|cx| match &mut *connection.borrow_mut() {
        Some(connection) => Pin::new(connection).poll(cx),
        None => Poll::Ready(Ok(())),
    });
    if let Err(error) = ended.await {
        let cause = note.get().cloned().unwrap_or_else(|| chain(&error));
        let (host, port) = (&origin.host, origin.port);
        if streams.is_idle() {
            tracing::debug!(host, port, cause, "an HTTP/2 connection to the upstream ended");
        } else {
            // The requests are only told that it is gone.
            tracing::warn!(host, port, cause, "an HTTP/2 connection to the upstream broke off");
        }
    }
    connection.borrow_mut().take();
}
