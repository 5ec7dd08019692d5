//! HTTP/1 and HTTP/2 on a client connection.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use pin_project_lite::pin_project;

use crate::http::busy::BusyGuard;
use crate::http::executor::LocalExecutor;
use crate::http::handler::{ConnectionInfo, Handler};
use crate::server::body::ServedBody;
use crate::server::client_io::{Activity, ClientIo};
use crate::server::drain::{Connections, DrainStage, OpenConnection};
use crate::server::stream::ClientStream;
use crate::server::write_stalls::{ResponseStall, WriteStalls};

/// Maximum number of open streams on a client's HTTP/2 connection. RFC 9113 §6.5.2 advises at least 100.
const H2_STREAMS: u32 = 128;
/// Flow-control window of a stream: bytes that a client may send before the upstream reads them.
const H2_STREAM_WINDOW: u32 = 64 * 1024;
/// Flow-control window of all streams of a connection together.
const H2_CONNECTION_WINDOW: u32 = 1024 * 1024;

/// Limits of a request head.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Maximum size in bytes.
    pub max_bytes: usize,
    /// Maximum number of fields.
    pub max_fields: usize,
}

/// Client connection that is being served.
pub(super) struct ServedConnection {
    pub(super) info: ConnectionInfo,
    /// All connections of the worker, including this one.
    pub(super) connections: Arc<Connections>,
    /// Responses that the client does not read. HTTP/2 only: HTTP/1 has one response at a time, and its socket shows
    /// the stall.
    pub(super) write_stalls: Option<WriteStalls>,
}

/// Serves HTTP/1 until the connection ends or is idle. An idle connection is returned, with the bytes of the next
/// request that were received.
pub(super) async fn serve_http1<H: Handler>(
    io: ClientIo,
    limits: &HeadLimits,
    activity: &Activity,
    served: Rc<ServedConnection>,
    handler: Rc<H>,
    open: &OpenConnection,
) -> Option<(ClientStream, Bytes)> {
    let peer = served.info.peer;
    let (recorder, refused) = (Rc::clone(&handler), Rc::clone(&served));
    let service = service_fn(move |request| respond(&*handler, request, &served));
    let mut connection = http1::Builder::new()
        .header_read_timeout(None::<Duration>) // ClientIo has one at a tenth of the cost
        .max_headers(limits.max_fields)
        .max_header_size(limits.max_bytes)
        .max_buf_size(limits.max_bytes.max(64 * 1024))
        .serve_connection(TokioIo::new(io), service)
        .with_upgrades();
    let shut_down = http1::UpgradeableConnection::graceful_shutdown;
    match drive(Pin::new(&mut connection), open, DrainStage::Closing, shut_down, || activity.is_parked()).await {
        Some(Ok(())) => None,
        Some(Err(error)) => {
            tracing::debug!(%peer, %error, "client connection failed");
            if let Some(status) = refusal(&error) {
                recorder.record_refusal(&refused.info, status);
            }
            None
        }
        None => {
            let parts = connection.into_parts()?;
            Some((parts.io.into_inner().into_stream(), parts.read_buf))
        }
    }
}

/// Returns the status that hyper has sent for a head that it cannot read.
fn refusal(error: &hyper::Error) -> Option<StatusCode> {
    if !error.is_parse() {
        return None;
    }
    Some(match error.is_parse_too_large() {
        true if error.to_string().contains("URI") => StatusCode::URI_TOO_LONG,
        true => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        false => StatusCode::BAD_REQUEST,
    })
}

/// Serves HTTP/2 until the connection ends, or until the client does not read a response for `write_timeout`.
pub(super) async fn serve_http2<H: Handler>(
    io: ClientIo,
    limits: &HeadLimits,
    write_timeout: Duration,
    served: Rc<ServedConnection>,
    handler: Rc<H>,
    open: &OpenConnection,
) {
    let peer = served.info.peer;
    let watched = Rc::clone(&served);
    let service = service_fn(move |request| respond(&*handler, request, &served));
    let connection = http2::Builder::new(LocalExecutor)
        .timer(TokioTimer::new())
        .max_concurrent_streams(H2_STREAMS)
        .max_header_list_size(u32::try_from(limits.max_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(H2_STREAM_WINDOW)
        .initial_connection_window_size(H2_CONNECTION_WINDOW)
        .serve_connection(TokioIo::new(io), service);
    // GOAWAY names the last accepted request, so the connection can shut down at the first stage.
    let shut_down = http2::Connection::graceful_shutdown;
    let stalled = async {
        match &watched.write_stalls {
            Some(stalls) => stalls.stalled(write_timeout).await,
            None => std::future::pending().await,
        }
    };
    let mut connection = pin!(connection);
    tokio::select! {
        ended = drive(connection.as_mut(), open, DrainStage::LastRequests, shut_down, || false) => {
            if let Some(Err(error)) = ended {
                tracing::debug!(%peer, %error, "client connection failed");
            }
        }
        () = stalled => tracing::debug!(%peer, "client connection closed: responses not read in time"),
    }
}

pin_project! {
    /// Future of a response, with what the connection adds to it.
    struct ServedResponse<F> {
        #[pin]
        response: F,
        served: Rc<ServedConnection>,
        stall: Option<ResponseStall>,
        busy: Option<BusyGuard>,
    }
}

/// Handles one request. Until its response has been sent, the connection is busy.
fn respond<H: Handler>(
    handler: &H,
    request: Request<Incoming>,
    served: &Rc<ServedConnection>,
) -> ServedResponse<H::Future> {
    let busy = Some(BusyGuard::new(Arc::clone(&served.info.busy)));
    let stall = served.write_stalls.as_ref().map(WriteStalls::watch);
    ServedResponse { response: handler.handle(request, &served.info), served: Rc::clone(served), stall, busy }
}

impl<F: Future<Output = Response<B>>, B> Future for ServedResponse<F> {
    type Output = Result<Response<ServedBody<B>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = ready!(this.response.poll(cx));
        let served = &**this.served;
        if served.info.http1
            && served.connections.stage() > DrainStage::Serving
            && response.status() != StatusCode::SWITCHING_PROTOCOLS
        {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let (stall, busy) = (this.stall.take(), this.busy.take());
        Poll::Ready(Ok(response.map(|body| ServedBody::new(body, stall, busy))))
    }
}

/// Drives a connection to its end, and calls `shut_down` once when draining reaches `last`. Returns `None` if `leave`
/// asks to stop driving it.
async fn drive<C, E>(
    mut connection: Pin<&mut C>,
    open: &OpenConnection,
    last: DrainStage,
    shut_down: fn(Pin<&mut C>),
    leave: impl Fn() -> bool,
) -> Option<Result<(), E>>
where
    C: Future<Output = Result<(), E>>,
{
    let (mut watched, mut is_shut_down) = (false, false);
    poll_fn(|cx: &mut Context<'_>| {
        if !std::mem::replace(&mut watched, true) {
            open.watch(cx);
        }
        // Polled before `shut_down`: a request that has arrived must be read first, or hyper closes the connection.
        let mut ended = connection.as_mut().poll(cx);
        if ended.is_pending() && !is_shut_down && open.stage() >= last {
            is_shut_down = true;
            shut_down(connection.as_mut());
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
