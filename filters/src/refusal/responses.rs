//! Responses to refused requests that a program makes, or that gRPC demands.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tower::{BoxError, Service};

use super::{ErrorFormat, Refusal, ReplacesRefusals, WantsRefusal, grpc};
use crate::filter::Filter;
use crate::response_filter::{MapResponse, ResponseChange};

// Statuses of gRPC.
const PERMISSION_DENIED: u8 = 7;
const RESOURCE_EXHAUSTED: u8 = 8;
const UNAVAILABLE: u8 = 14;

/// Function of a program that makes the response to a refused request.
type OnRefusal = Arc<dyn Fn(&Refusal) -> Response<OwnBody> + Send + Sync>;

/// Filter around a limiter that replaces its refusals: by responses of the program's function, or by errors of gRPC.
#[derive(Clone, Default)]
pub struct RefusalResponses {
    on_refusal: Option<OnRefusal>,
    format: ErrorFormat,
}

/// Change to the response to one request.
pub struct ReplaceRefusal {
    on_refusal: Option<OnRefusal>,
    is_grpc: bool,
}

/// Body of a limiter's response.
pub trait LimiterBody: Sized {
    /// Returns the body of the limiter's own response; `None` for one of the inner service.
    fn refusal(&self) -> Option<&Bytes>;

    /// Creates the body of a program's response.
    fn own(body: OwnBody) -> Self;

    /// Creates an empty body.
    fn empty() -> Self;
}

/// Body of a program's response.
pub struct OwnBody(Mutex<Pin<Box<dyn Body<Data = Bytes, Error = BoxError> + Send>>>);

pin_project! {
    /// Body with boxed errors.
    struct BoxedErrors<B> {
        #[pin]
        inner: B,
    }
}

// === impl RefusalResponses ===

impl RefusalResponses {
    /// Makes the responses to refused requests by `respond`.
    pub(crate) fn respond_with<F, P>(&mut self, respond: F)
    where
        F: Fn(&Refusal) -> Response<P> + Send + Sync + 'static,
        P: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        self.on_refusal = Some(Arc::new(move |refusal| respond(refusal).map(OwnBody::new)));
    }

    /// Sets the format of refusals for clients of gRPC.
    pub(crate) fn set_format(&mut self, format: ErrorFormat) {
        self.format = format;
    }
}

impl fmt::Debug for RefusalResponses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefusalResponses").field("format", &self.format).finish_non_exhaustive()
    }
}

impl<S, B, R> Filter<S, B> for RefusalResponses
where
    S: Service<Request<B>, Response = Response<R>>,
    R: LimiterBody,
{
    type Body = B;
    type Response = Response<R>;
    type Future = MapResponse<S::Future, ReplaceRefusal>;

    fn call(&self, mut request: Request<B>, inner: &mut S) -> Self::Future {
        // A server that describes refusals to itself makes errors of gRPC itself.
        let is_grpc = self.format == ErrorFormat::Auto
            && grpc::is_grpc(request.headers())
            && request.extensions().get::<WantsRefusal>().is_none();
        if is_grpc || self.on_refusal.is_some() {
            request.extensions_mut().insert(ReplacesRefusals);
        }
        let on_refusal = self.on_refusal.as_ref().filter(|_| !is_grpc).cloned();
        MapResponse::new(inner.call(request), ReplaceRefusal { on_refusal, is_grpc })
    }
}

// === impl ReplaceRefusal ===

impl<R: LimiterBody> ResponseChange<R> for ReplaceRefusal {
    type Body = R;

    fn change(self, mut response: Response<R>) -> Response<R> {
        let Some(body) = response.body().refusal() else { return response };
        let Some(refusal) = response.extensions().get::<Refusal>().cloned() else { return response };
        if self.is_grpc {
            let message = message(&response, body);
            let code = match response.status() {
                _ if refusal.is_denial => RESOURCE_EXHAUSTED,
                StatusCode::SERVICE_UNAVAILABLE => UNAVAILABLE,
                _ => PERMISSION_DENIED,
            };
            let headers = response.headers_mut();
            headers.remove(CONTENT_LENGTH);
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            grpc::set_error_fields(headers, code, &message, refusal.retry);
            *response.status_mut() = StatusCode::OK;
            *response.body_mut() = R::empty();
        } else if let Some(on_refusal) = self.on_refusal {
            let (parts, body) = on_refusal(&refusal).into_parts();
            *response.status_mut() = parts.status;
            response.headers_mut().remove(CONTENT_LENGTH);
            response.headers_mut().remove(CONTENT_TYPE);
            response.headers_mut().extend(parts.headers);
            response.extensions_mut().extend(parts.extensions);
            *response.body_mut() = R::own(body);
        }
        response
    }
}

/// Returns the text of a refusal, or the name of its status.
fn message<R>(response: &Response<R>, body: &Bytes) -> String {
    let is_text = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"));
    let text = std::str::from_utf8(body).ok().filter(|_| is_text).map(str::trim).filter(|text| !text.is_empty());
    text.or(response.status().canonical_reason()).unwrap_or("Error").to_owned()
}

// === impl OwnBody ===

impl OwnBody {
    fn new<B>(inner: B) -> Self
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        Self(Mutex::new(Box::pin(BoxedErrors { inner })))
    }
}

impl Body for OwnBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.get_mut().as_mut().poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().size_hint()
    }
}

impl fmt::Debug for OwnBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnBody")
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>>> Body for BoxedErrors<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.project().inner.poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

crate::opaque_debug!(ReplaceRefusal);
