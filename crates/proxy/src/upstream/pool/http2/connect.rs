//! Start, task and end of an HTTP/2 connection.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, Connection};
use h2::{Ping, PingPong};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::http::fields::DROPPED_FIELD;
use crate::upstream::origin::Origin;
use crate::upstream::pool::dial::ConnectError;
use crate::upstream::pool::http2::streams::Streams;
use crate::upstream::pool::pool_settings::PoolSettings;
use crate::upstream::pool::read_hook::HookedIo;
use crate::upstream::pool::waiting::WaitingRequests;
use crate::upstream::pool::watch::{ConnectionEvents, FrameWatch, watch};
use tollgate_transport::error_chain;
use tollgate_transport::executor::spawn_boxed;

/// Flow-control window of a stream: bytes that are buffered for a client that does not read.
const STREAM_WINDOW: u32 = 64 * 1024;
/// Flow-control window of all streams of a connection together.
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;
/// Maximum number of open streams of a connection: as many as its window has room for, so that clients that do not read
/// stop no other stream, however many they are.
pub(super) const MAX_STREAMS: usize = (CONNECTION_WINDOW / STREAM_WINDOW) as usize;
/// Maximum number of streams before the server's SETTINGS arrive.
const INITIAL_MAX_STREAMS: usize = 100;
/// Streams that may be reset for errors of the upstream before the connection ends.
const LOCAL_RESETS: usize = 1024;
/// Bytes of a request body that the connection buffers for an upstream that does not read.
const SEND_BUFFER: usize = 1024 * 1024;
/// Interval between checks of a connection with open streams.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Checks without a received byte after which a PING is sent. The connection ends at the next one.
const CHECKS_BEFORE_PING: u32 = 3;

/// Place of a new connection in its pool.
pub(in crate::upstream) struct ConnectionSlot {
    /// Share of the pool's connection limit.
    pub(in crate::upstream) permit: Option<OwnedSemaphorePermit>,
    /// Requests that wait for a stream.
    pub(super) waiting: Rc<WaitingRequests>,
}

/// Connection as its task sees it. On drop, the connection has ended.
struct Ending {
    origin: Origin,
    streams: Weak<Streams>,
    watched: Arc<ConnectionEvents>,
    slot: ConnectionSlot,
}

/// Starts a connection on `stream`.
pub(in crate::upstream) async fn connect<S>(
    stream: S,
    origin: &Origin,
    settings: &PoolSettings,
    slot: ConnectionSlot,
) -> Result<Rc<Streams>, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let (stream, watched) = watch(stream);
    let (sender, mut connection) = Builder::new()
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_max_send_streams(INITIAL_MAX_STREAMS)
        .max_header_list_size(u32::try_from(settings.max_head_bytes + DROPPED_FIELD).unwrap_or(u32::MAX))
        .max_send_buffer_size(SEND_BUFFER)
        .max_local_error_reset_streams(Some(LOCAL_RESETS))
        .enable_push(false)
        .handshake::<_, Bytes>(stream)
        .await
        .map_err(ConnectError::Http2)?;
    let pings = connection.ping_pong();
    let streams = Streams::new(sender, Arc::clone(&watched), settings.max_head_bytes, Rc::clone(&slot.waiting));
    let ending = Ending { origin: origin.clone(), streams: Rc::downgrade(&streams), watched, slot };
    let task = spawn_boxed(drive(ending, connection)).abort_handle();
    if let Some(pings) = pings {
        spawn_boxed(keep_alive(pings, task, Rc::downgrade(&streams), origin.clone()));
    }
    Ok(streams)
}

/// Drives a connection to its end. Dropped, it fails the requests that still wait on it.
async fn drive<S>(ending: Ending, mut connection: Connection<HookedIo<S, FrameWatch>, Bytes>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let ended = poll_fn(|cx| {
        let progress = Pin::new(&mut connection).poll(cx);
        // The server may have raised its limit of streams.
        ending.slot.waiting.wake_first();
        progress
    });
    let Err(error) = ended.await else { return };
    let error = ending.watched.read_error().map_or_else(|| error_chain(&error), str::to_owned);
    let (host, port) = (&ending.origin.host, ending.origin.port);
    if ending.streams.upgrade().is_none_or(|streams| streams.is_idle()) {
        tracing::debug!(host, port, error, "upstream http/2 connection closed");
    } else {
        // The requests only learn that the connection is closed.
        tracing::warn!(host, port, error, "upstream http/2 connection lost");
    }
}

/// Ends `connection` if the upstream is silent for [`CHECKS_BEFORE_PING`] checks while streams are open, and then does
/// not reply to a PING before the next check.
async fn keep_alive(mut pings: PingPong, connection: AbortHandle, streams: Weak<Streams>, origin: Origin) {
    let mut silent = 0;
    loop {
        sleep(CHECK_INTERVAL).await;
        let Some(streams) = streams.upgrade().filter(|_| !connection.is_finished()) else { return };
        if streams.take_read() || streams.is_idle() {
            silent = 0;
            continue;
        }
        silent += 1;
        if silent > CHECKS_BEFORE_PING {
            let (host, port) = (&origin.host, origin.port);
            tracing::warn!(host, port, error = "no reply to PING", "upstream http/2 connection lost");
            return connection.abort();
        }
        if silent == CHECKS_BEFORE_PING {
            // The reply to an earlier one has been read, or this one is not sent.
            let _ = pings.poll_pong(&mut Context::from_waker(Waker::noop()));
            let _ = pings.send_ping(Ping::opaque());
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.watched.retire();
        self.slot.waiting.wake_first();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::Request;
    use tokio::io::{DuplexStream, duplex};
    use tokio::task::{LocalSet, spawn_local};
    use tokio::time::Instant;
    use tollgate_config::{Http2, Scheme};

    use super::*;
    use crate::http::body::Body;
    use crate::upstream::pool::http2::exchange::SendError;

    /// Accepts requests without a response. If `reads` is false, it reads nothing after the first one.
    async fn upstream(stream: DuplexStream, reads: bool) {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let mut requests = Vec::new();
        while let Some(request) = connection.accept().await {
            requests.push(request.unwrap());
            if !reads {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns the seconds until a request to an [`upstream`] fails, within five minutes.
    async fn fails_after(reads: bool) -> Option<u64> {
        let (client, server) = duplex(64 * 1024);
        let origin = Origin::new(Scheme::Http, "127.0.0.1", 80, &Arc::default(), Http2::PriorKnowledge);
        let test = async {
            spawn_local(upstream(server, reads));
            let slot = ConnectionSlot { permit: None, waiting: Rc::default() };
            let streams = connect(client, &origin, &PoolSettings::default(), slot).await.unwrap();
            let request = Request::get("http://a/").body(Body::default()).unwrap();
            let mut stream = streams.open();
            let response = stream.send(request, None).unwrap();
            let start = Instant::now();
            let ended = tokio::time::timeout(Duration::from_secs(300), response).await;
            assert_eq!(streams.is_usable(), ended.is_err());
            match ended {
                Ok(Err(SendError::Stream(_))) => Some(start.elapsed().as_secs()),
                Ok(_) => Some(0),
                Err(_) => None,
            }
        };
        LocalSet::new().run_until(test).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_ends_and_one_that_replies_to_pings_does_not() {
        assert!(fails_after(false).await.is_some_and(|seconds| (30..=60).contains(&seconds)));
        assert_eq!(fails_after(true).await, None);
    }
}
