//! Body type of requests and responses: streamed, never collected.

mod client;
mod incoming;
mod stream;
mod upload;

use std::fmt::Debug;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use thiserror::Error;
use tollgate_filters::concurrency_limiter::SlotBody;
use tollgate_filters::local_response_cache::StoringBody;
use tollgate_filters::replay::{ReplayBody, ReplayError};
use tollgate_filters::request_counter::Counted;
use tollgate_filters::request_rate_limiter::Metered;
use tollgate_filters::request_size::SizeLimited;
use tower::BoxError;

use self::client::ClientBody;
pub use self::incoming::{ClientStream, Incoming, IncomingError};
pub use self::stream::StreamBody;
pub use self::upload::{ConcurrentUpload, UploadFailure, UploadProgress};
use crate::http::handler::{BusyGuard, ConnectionHandle};
use crate::http::trailers::TrailerRules;

/// Body of a request or response.
#[derive(Debug)]
pub struct Body(BodyKind);

#[derive(Debug)]
enum BodyKind {
    /// Bytes of the whole body that are not sent yet.
    Full(Bytes),
    Streamed(Streamed),
}

#[derive(Debug)]
enum Streamed {
    Client(Box<ClientBody>),
    /// Body of an upstream's response, or a layer's body around another one, with the progress of the client's upload in
    /// it.
    Wrapped(Box<dyn StreamedBody>, Option<Rc<UploadProgress>>),
}

/// Requests are moved through every layer: with a body of another word, they take twice the instructions.
const _: () = assert!(size_of::<Request<Body>>() <= 256);

/// Body of a type that this module does not name.
trait StreamedBody: HttpBody<Data = Bytes, Error = BodyError> + Debug + Unpin {}

impl<B: HttpBody<Data = Bytes, Error = BodyError> + Debug + Unpin> StreamedBody for B {}

/// Error of a body that ended early.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The client disconnected, reset the stream, or broke HTTP's framing.
    #[error("the request body ended early")]
    Client(#[source] IncomingError),
    /// The client closed its sending side in the middle of the body.
    #[error("the request body ended early")]
    ClientEnded,
    /// The client sent nothing for `server.body-timeout`.
    #[error("the client did not send its body in time")]
    ClientStalled,
    /// A size-limited body (`RequestSize`, `server.max-body-size`) failed: it was too large
    /// ([`BodyTooLarge`](tollgate_filters::request_size::BodyTooLarge)), or the body inside it failed.
    #[error("the size-limited body failed")]
    Limited(#[source] BoxError),
    /// The request is being sent again.
    #[error("the request is being sent again")]
    Superseded,
    /// The upstream closed the connection, reset the stream, or broke HTTP's framing.
    #[error("the response body of the upstream ended early")]
    Upstream(#[source] BoxError),
    /// The upstream reset the stream with `NO_ERROR` before the end of the response.
    #[error("the upstream reset the stream before the end of its response")]
    UpstreamReset,
    /// The upstream sent nothing for `httpclient.read-timeout`.
    #[error("the upstream did not send its response body in time")]
    UpstreamStalled,
    /// The request body ended early while the response was being sent.
    #[error("the request body ended before the response")]
    Upload(UploadFailure),
}

impl Body {
    /// Wraps the request body of a client.
    ///
    /// The body fails if the client sends nothing for `timeout`, apart from the time of a response beside it. If `drains` is
    /// true, a short unread rest is read and discarded when the body is dropped: never for a client that still waits for
    /// `100 Continue`. `connection` counts as busy until the body has been read.
    #[must_use]
    pub fn from_client(
        incoming: Incoming,
        timeout: Option<Duration>,
        drains: bool,
        trailer_rules: &Rc<TrailerRules>,
        connection: &Arc<dyn ConnectionHandle>,
    ) -> Self {
        if incoming.is_end_stream() {
            return Self::default();
        }
        let busy = BusyGuard::new(Arc::clone(connection));
        let body = ClientBody::new(incoming, timeout, drains, Rc::clone(trailer_rules), busy);
        Self(BodyKind::Streamed(Streamed::Client(Box::new(body))))
    }

    /// Replaces the timeout of a client's body.
    pub fn set_client_timeout(&mut self, timeout: Option<Duration>) {
        if let BodyKind::Streamed(Streamed::Client(body)) = &mut self.0 {
            body.set_timeout(timeout);
        }
    }

    /// Wraps a body of another type, such as the response body of an upstream.
    #[must_use]
    pub fn boxed(body: impl HttpBody<Data = Bytes, Error = BodyError> + Debug + Unpin + 'static) -> Self {
        Self::wrapping(None, body)
    }

    fn wrapping(upload: Option<Rc<UploadProgress>>, body: impl StreamedBody + 'static) -> Self {
        Self(BodyKind::Streamed(Streamed::Wrapped(Box::new(body), upload)))
    }

    /// Returns the bytes of a body that is not streamed.
    #[must_use]
    pub fn whole(&self) -> Option<&Bytes> {
        match &self.0 {
            BodyKind::Full(bytes) => Some(bytes),
            BodyKind::Streamed(_) => None,
        }
    }

    /// Returns the progress of the client's upload, if this is a client's body.
    #[must_use]
    pub fn upload(&self) -> Option<Rc<UploadProgress>> {
        match &self.0 {
            BodyKind::Streamed(Streamed::Client(body)) => Some(body.upload()),
            BodyKind::Streamed(Streamed::Wrapped(_, upload)) => upload.clone(),
            BodyKind::Full(_) => None,
        }
    }
}

impl Default for Body {
    fn default() -> Self {
        Bytes::new().into()
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self(BodyKind::Full(bytes))
    }
}

impl From<SizeLimited<Body>> for Body {
    fn from(limited: SizeLimited<Body>) -> Self {
        let upload = limited.get_ref().upload();
        let failing = upload.clone();
        let limited = limited.map_err(move |error| {
            if let Some(upload) = &failing {
                upload.fail(UploadFailure::TooLarge);
            }
            BodyError::Limited(error)
        });
        Self::wrapping(upload, limited)
    }
}

impl From<Counted<Body>> for Body {
    fn from(counted: Counted<Body>) -> Self {
        // An empty body has no bytes to count.
        if counted.is_end_stream() { counted.into_inner() } else { Self::wrapping(counted.get_ref().upload(), counted) }
    }
}

impl From<SlotBody<Body>> for Body {
    fn from(body: SlotBody<Body>) -> Self {
        // Without a body the request is over; without a slot nothing has to be released.
        if body.is_end_stream() || !body.has_slot() { body.into_inner() } else { Self::boxed(body) }
    }
}

impl From<StoringBody<Body>> for Body {
    fn from(filling: StoringBody<Body>) -> Self {
        if filling.is_storing() { Self::boxed(filling) } else { filling.into_inner() }
    }
}

impl From<ReplayBody<Body>> for Body {
    fn from(body: ReplayBody<Body>) -> Self {
        body.into_direct().unwrap_or_else(|recorded| {
            let upload = recorded.with_inner(Self::upload).flatten();
            Self::wrapping(upload, recorded.map_err(BodyError::from))
        })
    }
}

impl From<Metered<Body>> for Body {
    fn from(metered: Metered<Body>) -> Self {
        Self::wrapping(metered.get_ref().upload(), metered)
    }
}

impl From<ReplayError<BodyError>> for BodyError {
    fn from(error: ReplayError<BodyError>) -> Self {
        match error {
            ReplayError::Inner(error) => error,
            ReplayError::Superseded => Self::Superseded,
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            BodyKind::Full(bytes) => Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(std::mem::take(bytes))))),
            BodyKind::Streamed(Streamed::Client(body)) => body.poll(cx),
            BodyKind::Streamed(Streamed::Wrapped(body, _)) => Pin::new(&mut **body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodyKind::Full(bytes) => bytes.is_empty(),
            BodyKind::Streamed(Streamed::Client(body)) => body.is_end_stream(),
            BodyKind::Streamed(Streamed::Wrapped(body, _)) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyKind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodyKind::Streamed(Streamed::Client(body)) => body.size_hint(),
            BodyKind::Streamed(Streamed::Wrapped(body, _)) => body.size_hint(),
        }
    }
}
