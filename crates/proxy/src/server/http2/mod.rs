//! HTTP/2 on a client connection, on the `h2` crate. hyper's server neither sends interim responses nor bounds the bytes
//! of a response that a client does not read.

mod outstanding;
mod preface;
mod stream;
mod write_buffer;

use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use h2::server::{Connection, Handshake, SendResponse};
use h2::{Reason, RecvStream};
use http::header::{EXPECT, HeaderMap};
use http::{Method, Request, StatusCode};

use self::outstanding::{ResponsePart, Responses};
use self::stream::{Exchange, head_too_large};
use self::write_buffer::BufferedIo;
use crate::http::body::{self, Incoming, StreamBody};
use crate::http::fields::{DROPPED_FIELD, list_size};
use crate::http::handler::{BusyGuard, Handler};
use crate::http::interim::{InterimResponses, InterimSender};
use crate::server::client_io::ClientIo;
use crate::server::drain::{DrainStage, OpenConnection};
use crate::server::protocol::{HeadLimits, ServedConnection, drive};
use crate::server::stream::ClientStream;
use tollgate_transport::executor::spawn_reused;

/// Maximum number of open streams on a client's connection. RFC 9113 §6.5.2 advises at least 100.
const STREAMS: u32 = 128;
/// Flow-control window of a stream: bytes that a client may send before the upstream reads them.
const STREAM_WINDOW: u32 = 64 * 1024;
/// Flow-control window of all streams of a connection together: a body that its upstream does not read stops no other one.
const CONNECTION_WINDOW: u32 = STREAMS * STREAM_WINDOW;
/// Streams that `h2` may reset on one connection for errors of the client before it closes the connection.
const LOCAL_RESETS: usize = 1024;
/// Size up to which a head above the limit gets a response with status 431. `h2` closes the connection for heads of more
/// than four times this size.
const DECODED_HEAD: usize = 256 * 1024;

/// Time limit for writing the last frame of a connection that is closed because the gateway is full.
const LAST_WRITE: Duration = Duration::from_millis(100);

/// Serves HTTP/2 until the connection ends. Streams that the client does not read for `write_timeout` are reset. Returns the
/// connection if the gateway has closed its sending side.
pub(super) fn serve_http2<H: Handler>(
    io: ClientIo,
    limits: HeadLimits,
    write_timeout: Duration,
    served: Rc<ServedConnection>,
    handler: Rc<H>,
    open: &OpenConnection,
) -> impl Future<Output = Option<ClientStream>> {
    let peer = served.info.peer;
    let activity = Arc::clone(&served.activity);
    let responses = Rc::<Responses>::default();
    let io = BufferedIo::new(io);
    // Not an `async fn`: each connection would hold the arguments twice.
    async move {
        let server = Http2Server {
            state: State::Handshake(builder(limits).handshake(io.clone())),
            io: io.clone(),
            shuts_down: false,
            limits,
            responses: Rc::clone(&responses),
            served,
            handler,
        };
        let evicted = |_: &Context<'_>| {
            open.set_idle(activity.is_parked());
            open.is_evicted()
        };
        let is_closed = {
            let mut server = pin!(server);
            tokio::select! {
                // GOAWAY names the last accepted request, so the connection can shut down at the first stage.
                ended = drive(server.as_mut(), open, DrainStage::LastRequests, Http2Server::shut_down, evicted) => match ended {
                    Some(Ok(())) => true,
                    Some(Err(error)) => {
                        tracing::debug!(%peer, %error, "client connection failed");
                        !error.is_io()
                    }
                    None => {
                        server.as_mut().close();
                        let _ = tokio::time::timeout(LAST_WRITE, server).await;
                        false
                    }
                },
                () = responses.check_all(write_timeout) => false,
            }
        };
        let socket = io.into_inner().filter(|_| is_closed)?;
        Some(socket.into_stream())
    }
}

fn builder(limits: HeadLimits) -> h2::server::Builder {
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from((limits.max_bytes + DROPPED_FIELD).max(DECODED_HEAD)).unwrap_or(u32::MAX))
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_local_error_reset_streams(Some(LOCAL_RESETS));
    builder
}

type Socket = BufferedIo<ClientIo>;

/// Server of one connection. It completes when the connection has ended.
struct Http2Server<H> {
    state: State,
    io: Socket,
    shuts_down: bool,
    limits: HeadLimits,
    responses: Rc<Responses>,
    served: Rc<ServedConnection>,
    handler: Rc<H>,
}

#[allow(clippy::large_enum_variant)] // the connection's future is boxed
enum State {
    Handshake(Handshake<Socket, ResponsePart>),
    Serving(Connection<Socket, ResponsePart>),
}

impl<H: Handler> Http2Server<H> {
    fn shut_down(mut self: Pin<&mut Self>) {
        self.shuts_down = true;
        if let State::Serving(connection) = &mut self.state {
            connection.graceful_shutdown();
        }
    }

    /// Closes an idle connection.
    fn close(mut self: Pin<&mut Self>) {
        if let State::Serving(connection) = &mut self.state {
            connection.abrupt_shutdown(Reason::NO_ERROR);
        }
    }

    /// Reads and writes frames, and starts the requests that arrive.
    fn poll_frames(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        loop {
            match &mut self.state {
                State::Handshake(handshake) => {
                    let mut connection = ready!(Pin::new(handshake).poll(cx))?;
                    if self.shuts_down {
                        connection.graceful_shutdown();
                    }
                    self.state = State::Serving(connection);
                }
                State::Serving(connection) => match ready!(connection.poll_accept(cx)).transpose()? {
                    Some((request, respond)) => self.start(request, respond),
                    None => return Poll::Ready(Ok(())),
                },
            }
        }
    }

    /// Handles one request. Until its response has been written, the connection is busy.
    fn start(&self, request: Request<RecvStream>, mut respond: SendResponse<ResponsePart>) {
        if exceeds(request.method(), request.uri().path(), request.headers(), self.limits) {
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            self.handler.record_refusal(&self.served.info, status, "the request head is too large");
            let _ = respond.send_response(head_too_large(), true);
            return;
        }
        let Ok(place) = self.served.permit.stream() else {
            // The client may send the request again (RFC 9113 §8.7).
            respond.send_reset(Reason::REFUSED_STREAM);
            return;
        };
        let (head, stream) = request.into_parts();
        let interim = InterimResponses::default();
        let mut sender = Some(interim.open());
        let waits = !stream.is_end_stream() && head.headers.contains_key(EXPECT);
        let waiting = if waits { sender.clone() } else { None };
        let body = body::ClientStream::new(StreamBody::new(stream, &head.headers, self.limits.max_bytes), waiting);
        let busy = BusyGuard::new(Arc::clone(&self.served.activity));
        let is_head = head.method == Method::HEAD;
        let request = Request::from_parts(head, Incoming::Http2(Box::new(body)));
        let scope = InterimSender::enter(&mut sender);
        let response = self.handler.handle(request, &self.served.info);
        drop(scope);
        let exchange =
            Exchange { respond, watched: self.responses.watch(), interim, sender, is_head, busy, _place: place };
        spawn_reused(exchange.run(response));
    }
}

impl<H: Handler> Future for Http2Server<H> {
    type Output = Result<(), h2::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        let progress = self.poll_frames(cx);
        self.io.flush(cx);
        progress
    }
}

/// Returns true if a head exceeds the limits. Its size is counted as in RFC 9113 §6.5.2.
fn exceeds(method: &Method, path: &str, headers: &HeaderMap, limits: HeadLimits) -> bool {
    let first = method.as_str().len() + path.len() + 2 * 32;
    headers.len() > limits.max_fields || first + list_size(headers) > limits.max_bytes
}
