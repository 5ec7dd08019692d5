//! Limits the size of request bodies: Spring Cloud Gateway's `RequestSize`.
//!
//! A request with a `Content-Length` above the limit gets a 413 without a body, with Spring's `errorMessage` header. The
//! response carries [`LocalReply`] with the reason `request-too-large`. Unlike Spring, this filter also counts received
//! bytes, so that chunked and HTTP/2 bodies are limited too: the forwarded body ends with a [`BodyTooLarge`] error, and
//! the layer that handles this error responds. Costs one addition per chunk and buffers nothing. Put this layer before
//! all layers that read bodies.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use http_body_util::Full;
//! use tollgate_filters::request_size::{RequestSizeLayer, SizeLimited};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let upstream = service_fn(|_: Request<SizeLimited<Full<Bytes>>>| async {
//!     Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
//! });
//! let request = Request::builder().header("content-length", "6").body(Full::from("123456"))?;
//! let response = RequestSizeLayer::new(5).layer(upstream).oneshot(request).await?;
//! assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
//! # Ok(())
//! # }
//! ```

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use thiserror::Error;
use tower::{BoxError, Service};

use crate::context::LocalReply;
use crate::filter::{Filter, FilterLayer};
use crate::refusal_body::ReplyBody;
use crate::request_filter::RespondOr;

/// Limits the size of request bodies. See the [module](self).
pub type RequestSizeLayer = FilterLayer<RequestSize>;

/// Filter that limits the size of request bodies.
#[derive(Clone, Copy, Debug)]
pub struct RequestSize {
    max_bytes: u64,
}

pin_project! {
    /// A body that fails with [`BodyTooLarge`] after more bytes than allowed.
    #[derive(Debug)]
    pub struct SizeLimited<B> {
        #[pin]
        inner: B,
        remaining: u64,
        max_bytes: u64,
        exceeded: bool,
    }
}

/// A request body has more bytes than allowed. Respond with 413.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("request body is larger than {max_bytes} bytes")]
pub struct BodyTooLarge {
    /// The limit, in bytes.
    pub max_bytes: u64,
}

/// Spring's `errorMessage`.
const ERROR_MESSAGE: HeaderName = HeaderName::from_static("errormessage");

// === impl RequestSizeLayer ===

impl RequestSizeLayer {
    /// Creates a layer that allows bodies of up to `max_bytes` bytes. Spring's default is 5,000,000.
    #[must_use]
    pub fn new(max_bytes: u64) -> Self {
        Self(RequestSize { max_bytes })
    }
}

// === impl RequestSize ===

impl RequestSize {
    /// Returns `Content-Length` as an error if it is above the limit. The server rejects values that are not numbers.
    fn verify<B>(&self, request: &Request<B>) -> Result<(), u64> {
        let content_length =
            request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        match content_length {
            Some(length) if length > self.max_bytes => Err(length),
            _ => Ok(()),
        }
    }
}

impl<S, B, R> Filter<S, B> for RequestSize
where
    S: Service<Request<SizeLimited<B>>, Response = Response<R>>,
    R: ReplyBody,
{
    type Body = SizeLimited<B>;
    type Response = Response<R>;
    type Future = RespondOr<S::Future, Response<R>>;

    fn call(&self, request: Request<B>, inner: &mut S) -> Self::Future {
        match self.verify(&request) {
            Err(length) => RespondOr::respond(too_large(length, self.max_bytes)),
            Ok(()) => {
                let request = request.map(|body| SizeLimited::new(body, self.max_bytes));
                RespondOr::forward(inner.call(request))
            }
        }
    }
}

fn too_large<R: From<Bytes>>(length: u64, max_bytes: u64) -> Response<R> {
    let message = format!(
        "Request size is larger than permissible limit. Request size is {} where permissible limit is {}",
        display_size(length),
        display_size(max_bytes)
    );
    let message = HeaderValue::try_from(message).ok().map(|message| (ERROR_MESSAGE, message));
    LocalReply::empty(StatusCode::PAYLOAD_TOO_LARGE, "request-too-large", HeaderMap::from_iter(message))
}

/// Formats `bytes` as Spring does: in units of 1000, with one decimal, rounded half up.
fn display_size(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let (mut unit, mut prefixes) = (1000_u128, "kMGTPE".chars());
    let mut prefix = prefixes.next();
    while u128::from(bytes) >= unit * 1000 {
        unit *= 1000;
        prefix = prefixes.next();
    }
    let tenths = (u128::from(bytes) * 10 + unit / 2) / unit;
    format!("{}.{} {}B", tenths / 10, tenths % 10, prefix.unwrap_or('?'))
}

// === impl SizeLimited ===

impl<B> SizeLimited<B> {
    /// Limits `inner` to `max_bytes` bytes of data. Trailers do not count.
    pub fn new(inner: B, max_bytes: u64) -> Self {
        Self { inner, remaining: max_bytes, max_bytes, exceeded: false }
    }

    /// Returns the inner body.
    pub fn get_ref(&self) -> &B {
        &self.inner
    }
}

impl<B> Body for SizeLimited<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let this = self.project();
        if *this.exceeded {
            return Poll::Ready(None);
        }
        let Some(frame) = ready!(this.inner.poll_frame(cx)) else { return Poll::Ready(None) };
        let frame = frame.map_err(Into::into)?;
        if let Some(data) = frame.data_ref() {
            match this.remaining.checked_sub(data.remaining() as u64) {
                Some(remaining) => *this.remaining = remaining,
                None => {
                    *this.exceeded = true;
                    return Poll::Ready(Some(Err(BodyTooLarge { max_bytes: *this.max_bytes }.into())));
                }
            }
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.exceeded || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

// === impl BodyTooLarge ===

impl BodyTooLarge {
    /// Finds this error in `error` or in its sources: HTTP clients wrap the errors of the bodies that they send.
    #[must_use]
    pub fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        std::iter::successors(Some(error), |error| (*error).source()).find_map(|error| error.downcast_ref())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn sizes_are_formatted_as_in_spring() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (1_250, "1.3 kB"),
            (6_000, "6.0 kB"),
            (5_000_000, "5.0 MB"),
            (999_949, "999.9 kB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(display_size(bytes), text);
        }
    }
}
