//! HTTP/1 on a client connection.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response, StatusCode, Version};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use pin_project_lite::pin_project;
use tokio::sync::oneshot;

use crate::http::body::Incoming;
use crate::http::handler::{BusyGuard, ConnectionInfo, Handler, ResponseBody};
use crate::http::interim::InterimSender;
use crate::http::upgrade::{TunnelClient, TunnelStream};
use crate::server::activity::Activity;
use crate::server::client_io::ClientIo;
use crate::server::drain::{Connections, DrainStage, OpenConnection};
use crate::server::gate::ConnectionPermit;
use crate::server::refusal::Refusal;
use crate::server::stream::ClientStream;

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
    /// State of the socket.
    pub(super) activity: Arc<Activity>,
    /// Place of the connection.
    pub(super) permit: Arc<ConnectionPermit>,
    /// All connections of the worker, including this one.
    pub(super) connections: Arc<Connections>,
    /// HTTP/1: true after a request with `Upgrade` or CONNECT, even if it was refused.
    pub(super) asks_upgrade: Cell<bool>,
}

/// State of a connection after HTTP/1 was served on it.
pub(super) enum Served {
    /// It is idle. Bytes of the next request may have been received.
    Idle(ClientStream, Bytes),
    /// The gateway has closed its sending side.
    Closed {
        stream: ClientStream,
        /// True if the client was sending.
        is_sending: bool,
    },
    /// It is a tunnel that waits for its socket.
    Tunnel(Box<dyn TunnelStream>, oneshot::Sender<TunnelClient>),
    /// It has failed.
    Gone,
}

/// Serves HTTP/1 until the connection ends or is idle.
pub(super) fn serve_http1<H: Handler>(
    io: ClientIo,
    limits: HeadLimits,
    write_timeout: Duration,
    served: Rc<ServedConnection>,
    handler: Rc<H>,
    open: &OpenConnection,
) -> impl Future<Output = Served> {
    let (recorder, connected) = (Rc::clone(&handler), Rc::clone(&served));
    let service = service_fn(move |request| respond(&*handler, request, &served));
    let mut connection = builder(limits).serve_connection(TokioIo::new(io), service);
    // Not an `async fn`: each connection would hold the arguments twice.
    async move {
        let activity = &connected.activity;
        let leave = |cx: &Context<'_>| {
            // hyper does not always ask for more of the response after it has written everything.
            if activity.may_go_on() {
                cx.waker().wake_by_ref();
            }
            activity.is_parked()
        };
        let ended = loop {
            let shut_down = http1::Connection::graceful_shutdown;
            let ended = drive(Pin::new(&mut connection), open, DrainStage::Closing, shut_down, leave).await;
            // After a request to switch protocols, hyper ends once before it has written everything and closed.
            if !connected.asks_upgrade.take() || activity.is_tunnel() || !matches!(ended, Some(Ok(()))) {
                break ended;
            }
        };
        let tunnel = activity.take_tunnel();
        let refusal = match &ended {
            Some(Err(error)) => {
                tracing::debug!(peer = %connected.info.peer, %error, "client connection failed");
                let Some(refusal) = Refusal::of(error) else { return Served::Gone };
                recorder.record_refusal(&connected.info, refusal.status, refusal.detail);
                Some(refusal)
            }
            Some(Ok(())) | None => None,
        };
        let (io, received) = {
            let parts = connection.into_parts();
            (parts.io.into_inner(), parts.read_buf)
        };
        if let Some(tunnel) = tunnel {
            return Served::Tunnel(Box::new(io.with_received(received)), tunnel);
        }
        if ended.is_none() {
            // Empty bytes of hyper would keep its buffer of 8 KB for as long as the connection is idle.
            let received = if received.is_empty() { Bytes::new() } else { received };
            return Served::Idle(io.into_stream(), received);
        }
        let is_sending = refusal.is_some() || activity.ends_reads() || !received.is_empty() || io.has_received();
        Box::pin(close(io, refusal, is_sending, write_timeout)).await
    }
}

fn builder(limits: HeadLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .header_read_timeout(None::<Duration>) // ClientIo has one at a tenth of the cost
        .half_close(true) // ClientIo notices the end of a client
        .max_headers(limits.max_fields)
        .max_header_size(limits.max_bytes)
        .max_buf_size(limits.max_bytes.max(64 * 1024));
    builder
}

/// Ends a connection, with `refusal` if hyper's own response to the head was withheld.
async fn close(io: ClientIo, refusal: Option<Refusal>, is_sending: bool, write_timeout: Duration) -> Served {
    let is_withheld = io.has_withheld();
    let mut stream = io.into_stream();
    if let Some(refusal) = refusal.filter(|_| is_withheld) {
        let sent = tokio::time::timeout(write_timeout, refusal.send(&mut stream)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return Served::Gone;
        }
    }
    Served::Closed { stream, is_sending }
}

pin_project! {
    /// Future of a response, with what the connection adds to it.
    struct ServedResponse<F> {
        #[pin]
        response: F,
        served: Rc<ServedConnection>,
        busy: Option<BusyGuard<Activity>>,
        // Sends interim responses; `None` for HTTP/1.0.
        interim: Option<InterimSender>,
    }
}

/// Handles one request. Until its response has been sent, the connection is busy.
fn respond<H: Handler>(
    handler: &H,
    mut request: Request<hyper::body::Incoming>,
    served: &Rc<ServedConnection>,
) -> ServedResponse<H::Future> {
    let busy = Some(BusyGuard::new(Arc::clone(&served.activity)));
    let is_http11 = request.version() == Version::HTTP_11;
    let mut interim = if is_http11 { Some(served.activity.open_interim()) } else { None };
    if request.extensions_mut().remove::<OnUpgrade>().is_some() {
        served.asks_upgrade.set(true);
    }
    let request = request.map(Incoming::Http1);
    let scope = InterimSender::enter(&mut interim);
    let response = handler.handle(request, &served.info);
    drop(scope);
    ServedResponse { response, served: Rc::clone(served), busy, interim }
}

impl<F: Future<Output = Response<B>>, B: ResponseBody> Future for ServedResponse<F> {
    type Output = Result<Response<ServedBody<B>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let served = &**this.served;
        served.activity.interim().watch(cx);
        let scope = InterimSender::enter(this.interim);
        let polled = this.response.poll(cx);
        drop(scope);
        let mut response = ready!(polled);
        served.activity.response_begins();
        if this.interim.is_some() {
            served.activity.close_interim();
        }
        let is_last = served.connections.stage() > DrainStage::Serving || served.activity.ends_reads();
        if is_last && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let busy = this.busy.take().unwrap_or_else(|| BusyGuard::new(Arc::clone(&served.activity)));
        Poll::Ready(Ok(response.map(|body| ServedBody::new(body, busy))))
    }
}

/// Drives a connection to its end, and calls `shut_down` once when draining reaches `last`. Returns `None` if `leave`
/// asks to stop driving it.
pub(super) async fn drive<C, E>(
    mut connection: Pin<&mut C>,
    open: &OpenConnection,
    last: DrainStage,
    shut_down: fn(Pin<&mut C>),
    leave: impl Fn(&Context<'_>) -> bool,
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
            Poll::Pending if leave(cx) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Bytes of a response after which they are written before more of it is requested.
const UNWRITTEN: usize = 16 * 1024;

/// Response body that keeps its connection busy until it ends, and stops while the client does not read. hyper alone
/// would ask for more of the body while the socket accepts no bytes, and before it has tried to write.
#[derive(Debug)]
pub(super) struct ServedBody<B: ResponseBody> {
    body: B,
    busy: BusyGuard<Activity>,
}

impl<B: ResponseBody> ServedBody<B> {
    pub(super) fn new(body: B, busy: BusyGuard<Activity>) -> Self {
        Self { body, busy }
    }
}

impl<B: ResponseBody> Drop for ServedBody<B> {
    fn drop(&mut self) {
        if self.busy.connection().is_write_stalled() {
            self.body.client_stalled();
        }
    }
}

impl<B: ResponseBody> HttpBody for ServedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        // The connection polls again when all bytes have been written.
        if self.busy.connection().holds_response(UNWRITTEN) {
            return Poll::Pending;
        }
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.busy.connection().add_unwritten(data.remaining());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
