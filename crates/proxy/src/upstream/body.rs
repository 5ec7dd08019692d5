//! Response body of an upstream.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;

use crate::http::body::{Body, BodyError, ConcurrentUpload, UploadProgress};
use crate::upstream::exchange::poll_timeout;
use crate::upstream::incoming::Incoming;
use crate::upstream::pick::{HeldConnection, Outcome};
use crate::upstream::pool::Connection;

/// Response body that returns its connection to the pool when it has been read to its end.
#[derive(Debug)]
struct UpstreamBody {
    /// Frame that arrived with the response head.
    first: Option<Frame<Bytes>>,
    incoming: Incoming,
    held: Option<HeldConnection>,
    timeout: Option<Duration>,
    /// Request body that is still being sent.
    upload: Option<ConcurrentUpload>,
    failed: Option<BodyError>,
}

/// Wraps the response body of an upstream. It fails if nothing arrives for `timeout`, neither of the response nor of the
/// `upload`; `connection` returns to its pool at the end.
///
/// # Errors
/// The start of the body arrived with the head and is invalid: the client gets a failure instead of the head.
pub(super) fn response_body(
    mut incoming: Incoming,
    mut held: HeldConnection,
    timeout: Option<Duration>,
    upload: Option<Rc<UploadProgress>>,
) -> Result<Body, Box<(BodyError, HeldConnection)>> {
    if incoming.is_end_stream(Some(&held.connection)) {
        held.release(timeout);
        return Ok(Body::default());
    }
    let first = match incoming.received(&mut held.connection) {
        Poll::Pending => None,
        Poll::Ready(Some(Ok(frame))) => Some(frame),
        Poll::Ready(Some(Err(error))) => return Err(Box::new((cause(error, upload.as_deref()), held))),
        Poll::Ready(None) if !incoming.is_end_stream(Some(&held.connection)) => {
            return Err(Box::new((cause(BodyError::UpstreamReset, upload.as_deref()), held)));
        }
        Poll::Ready(None) => {
            held.release(timeout);
            return Ok(Body::default());
        }
    };
    let is_ended = incoming.is_end_stream(Some(&held.connection));
    let is_last = first.as_ref().is_some_and(|frame| is_ended || frame.is_trailers());
    let mut held = Some(held);
    if is_last && let Some(held) = held.take() {
        held.release(timeout);
    }
    match first.map(|frame| if is_last { frame.into_data() } else { Err(frame) }) {
        Some(Ok(data)) => Ok(Body::from(data)),
        first => {
            let first = first.and_then(Result::err);
            let upload = upload.and_then(ConcurrentUpload::new);
            Ok(Body::boxed(UpstreamBody { first, incoming, held, timeout, upload, failed: None }))
        }
    }
}

/// Returns the cause of a response that ended with `error`: a request body that ends early ends the exchange.
fn cause(error: BodyError, upload: Option<&UploadProgress>) -> BodyError {
    upload.and_then(UploadProgress::failure).map_or(error, BodyError::Upload)
}

impl UpstreamBody {
    /// Returns true if the upstream reset the stream with `NO_ERROR` before the end of its response. The body ends
    /// then, but such a reset is a normal end only after a complete response (RFC 9113 §8.1).
    fn is_cut(&self) -> bool {
        self.connection().is_some_and(Connection::is_http2) && !self.incoming.is_end_stream(self.connection())
    }

    fn connection(&self) -> Option<&Connection> {
        self.held.as_ref().map(|held| &*held.connection)
    }

    /// Ends the body with `error` at the next poll. Until then the server sends what it has of the response: on an error it
    /// closes the connection at once, and discards the rest.
    fn fail(&mut self, error: BodyError, cx: &Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let error = cause(error, self.upload.as_deref());
        if let Some(held) = self.held.take() {
            let is_of_client = matches!(error, BodyError::Upload(_));
            let outcome = if is_of_client { Outcome::ClientFailed } else { Outcome::Disconnected };
            held.pick.report(outcome, None);
        }
        self.failed = Some(error);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Fails if nothing has arrived for the timeout.
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let (Some(held), Some(timeout)) = (&mut self.held, self.timeout) else { return Poll::Pending };
        let deadline = &mut held.connection.deadline;
        if !deadline.is_set() {
            deadline.set(Instant::now() + timeout);
        }
        let upload = self.upload.as_deref();
        ready!(poll_timeout(deadline, self.timeout, upload, cx));
        // The upstream may be waiting for the client.
        let is_uploading = upload.is_some_and(|upload| !upload.is_over());
        held.pick.report(if is_uploading { Outcome::ClientFailed } else { Outcome::TimedOut }, None);
        self.held = None;
        Poll::Ready(Some(Err(BodyError::UpstreamStalled)))
    }

    fn finish(&mut self) {
        if let Some(held) = self.held.take() {
            held.release(self.timeout);
        }
    }
}

impl HttpBody for UpstreamBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        if let Some(first) = this.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        if let Some(error) = this.failed.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let Some(held) = &mut this.held else { return Poll::Ready(None) };
        // The server asks for the next part when the client has taken the one before.
        match this.incoming.poll(&mut held.connection, cx) {
            Poll::Ready(Some(Ok(frame))) => {
                // Trailers are the last frame: a server does not poll for another.
                if frame.is_trailers() || this.incoming.is_end_stream(Some(&held.connection)) {
                    this.finish();
                } else {
                    held.connection.deadline.clear();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => this.fail(error, cx),
            Poll::Ready(None) if this.is_cut() => this.fail(BodyError::UpstreamReset, cx),
            Poll::Ready(None) => {
                this.finish();
                Poll::Ready(None)
            }
            Poll::Pending => this.poll_stalled(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.incoming.is_end_stream(self.connection())
    }

    fn size_hint(&self) -> SizeHint {
        let first = self.first.as_ref().and_then(Frame::data_ref).map_or(0, Bytes::len) as u64;
        let rest = self.incoming.size_hint(self.connection());
        let mut hint = SizeHint::new();
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + first);
        }
        hint.set_lower(rest.lower() + first);
        hint
    }
}
