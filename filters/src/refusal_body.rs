//! Body type of services behind layers that make responses themselves.
//!
//! Such a layer needs an inner service whose body it can make from bytes. [`RefusalBodyLayer`] turns a service with any body into
//! one: its body is a [`RefusalBody`], either that of the service or bytes. The two limiters include it, so that they fit around
//! each other, tower-http's layers, axum, tonic and boxed bodies. Put it behind other layers of this crate:
//!
//! ```
//! # #[cfg(feature = "request-header-size")]
//! # fn stack() {
//! use tollgate_filters::refusal_body::RefusalBodyLayer;
//! use tollgate_filters::request_header_size::{RequestHeaderSizeLayer, Settings};
//! use tower::ServiceBuilder;
//!
//! let stack = ServiceBuilder::new()
//!     .layer(RequestHeaderSizeLayer::new(Settings::new(16_384)))
//!     .layer(RefusalBodyLayer::default());
//! # }
//! ```

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tower::{BoxError, Service};

use crate::filter::{Filter, FilterLayer};
use crate::refusal::{LimiterBody, OwnBody};
use crate::response_filter::{MapResponse, ResponseChange};

/// Body that a layer can make from the bytes of a response of its own. Every body with `From<Bytes>` is one.
#[diagnostic::on_unimplemented(
    message = "the layer responds itself, and cannot make a `{Self}` from bytes",
    label = "this response body has no `From<Bytes>`",
    note = "put `tollgate_filters::refusal_body::RefusalBodyLayer::default()` behind the layer: it accepts every body"
)]
pub trait ReplyBody: From<Bytes> {}

#[diagnostic::do_not_recommend]
impl<R: From<Bytes>> ReplyBody for R {}

pin_project! {
    /// Body of the inner service, or that of a response which a layer made.
    #[derive(Debug)]
    pub struct RefusalBody<B> {
        #[pin]
        state: State<B>,
    }
}

pin_project! {
    #[project = StateProj]
    #[derive(Debug)]
    enum State<B> {
        Inner { #[pin] body: B },
        Refusal { bytes: Bytes },
        Own { #[pin] body: OwnBody },
    }
}

/// Filter that gives responses a [`RefusalBody`].
#[derive(Clone, Copy, Debug, Default)]
pub struct RefusalBodies;

/// Gives the responses of services with any body a [`RefusalBody`].
pub type RefusalBodyLayer = FilterLayer<RefusalBodies>;

// === impl RefusalBody ===

impl<B> RefusalBody<B> {
    /// Creates the body of a response that the inner service made.
    pub fn inner(body: B) -> Self {
        Self { state: State::Inner { body } }
    }
}

impl<B> From<Bytes> for RefusalBody<B> {
    fn from(bytes: Bytes) -> Self {
        Self { state: State::Refusal { bytes } }
    }
}

impl<B> Default for RefusalBody<B> {
    /// Returns an empty body.
    fn default() -> Self {
        Bytes::new().into()
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>>> Body for RefusalBody<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.project().state.project() {
            StateProj::Inner { body } => body.poll_frame(cx).map_err(Into::into),
            StateProj::Own { body } => body.poll_frame(cx),
            StateProj::Refusal { bytes } if bytes.is_empty() => Poll::Ready(None),
            StateProj::Refusal { bytes } => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Inner { body } => body.is_end_stream(),
            State::Own { body } => body.is_end_stream(),
            State::Refusal { bytes } => bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Inner { body } => body.size_hint(),
            State::Own { body } => body.size_hint(),
            State::Refusal { bytes } => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}

impl<B> LimiterBody for RefusalBody<B> {
    fn refusal(&self) -> Option<&Bytes> {
        match &self.state {
            State::Refusal { bytes } => Some(bytes),
            State::Inner { .. } | State::Own { .. } => None,
        }
    }

    fn own(body: OwnBody) -> Self {
        Self { state: State::Own { body } }
    }

    fn empty() -> Self {
        Self::default()
    }
}

// === impl RefusalBodies ===

impl<S, B, R> Filter<S, B> for RefusalBodies
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Body = B;
    type Response = Response<RefusalBody<R>>;
    type Future = MapResponse<S::Future, Self>;

    fn call(&self, request: Request<B>, inner: &mut S) -> Self::Future {
        MapResponse::new(inner.call(request), *self)
    }
}

impl<R> ResponseChange<R> for RefusalBodies {
    type Body = RefusalBody<R>;

    fn change(self, response: Response<R>) -> Response<RefusalBody<R>> {
        response.map(RefusalBody::inner)
    }
}
