//! Takes attributes out of JSON answers: Spring Cloud Gateway's `RemoveJsonAttributesResponseBody`.
//!
//! Only answers whose `Content-Type` is `application/json`, whatever its parameters, are looked into; as in Spring
//! `application/problem+json` is another type. The body is collected, up to a bound, stripped and given on with its new
//! length. An answer that cannot be stripped does not pass, since what is to be removed may be confidential: broken
//! JSON, a body above the bound, and one in a content coding are answered 500, one that breaks off 502. Each carries
//! [`LocalReply`] with the reason `response-body`.
//!
//! So that there is a whole, plain body to look into, `Range`, `If-Range` and `Accept-Encoding` are taken out of the
//! request: a server may ignore the first two (RFC 9110 §14.2), and the upstream is asked for `identity`. What said
//! something of the bytes as they were is removed (digests, `Accept-Ranges`) or weakened (`ETag`, RFC 9110 §8.8.1),
//! trailers are dropped. Answers that a filter or the gateway made itself are left alone.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use tollgate_filters::remove_json_attributes::{RemoveJsonAttributesLayer, Settings};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let upstream = service_fn(|_: Request<()>| async {
//!     let body = Full::<Bytes>::from(r#"{"name": "Ada", "secret": 1}"#);
//!     Response::builder().header("content-type", "application/json").body(body)
//! });
//! let layer = RemoveJsonAttributesLayer::new(Settings::new(["secret"], false, 1024));
//! let response = layer.layer(upstream).oneshot(Request::new(())).await?;
//! assert_eq!(response.into_body().collect().await?.to_bytes(), r#"{"name":"Ada"}"#);
//! # Ok(())
//! # }
//! ```
//!
//! [`LocalReply`]: crate::context::LocalReply

mod future;
mod strip;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue, IF_RANGE, RANGE};
use http::{Method, Request, Response};
use http_body::Body;
use tower::{Layer, Service};

pub use self::future::ResponseFuture;

/// What is taken out of which answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    names: Box<[Box<str>]>,
    recursively: bool,
    max_bytes: usize,
}

/// Puts [`RemoveJsonAttributes`] around a service.
#[derive(Clone, Debug)]
pub struct RemoveJsonAttributesLayer {
    settings: Arc<Settings>,
}

/// Takes attributes out of JSON answers. See the [module](self).
#[derive(Clone, Debug)]
pub struct RemoveJsonAttributes<S> {
    settings: Arc<Settings>,
    inner: S,
}

// === impl Settings ===

impl Settings {
    /// Removes the attributes called `names` from the object that an answer is, or with `recursively` from every object
    /// within it. Bodies of up to `max_bytes` bytes are looked into.
    pub fn new(names: impl IntoIterator<Item = impl Into<Box<str>>>, recursively: bool, max_bytes: usize) -> Self {
        Self { names: names.into_iter().map(Into::into).collect(), recursively, max_bytes }
    }
}

// === impl RemoveJsonAttributesLayer ===

impl RemoveJsonAttributesLayer {
    /// Removes what `settings` say.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings: Arc::new(settings) }
    }
}

impl<S> Layer<S> for RemoveJsonAttributesLayer {
    type Service = RemoveJsonAttributes<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RemoveJsonAttributes { settings: Arc::clone(&self.settings), inner }
    }
}

// === impl RemoveJsonAttributes ===

impl<S, B, R> Service<Request<B>> for RemoveJsonAttributes<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body + From<Bytes>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let asked = Asked { is_head: request.method() == Method::HEAD, accept: accept(request.headers()) };
        let headers = request.headers_mut();
        headers.remove(RANGE);
        headers.remove(IF_RANGE);
        // A full map goes without: an answer that is encoded nevertheless does not pass.
        let _ = headers.try_insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        ResponseFuture::new(self.inner.call(request), Arc::clone(&self.settings), asked)
    }
}

/// What an answer in place of the upstream's needs to know of the request.
#[derive(Debug)]
struct Asked {
    is_head: bool,
    accept: HeaderMap,
}

/// The `Accept` fields alone: they say in which shape the client wants to be told of a failure.
fn accept(headers: &HeaderMap) -> HeaderMap {
    let name = http::header::ACCEPT;
    headers.get_all(&name).iter().map(|value| (name.clone(), value.clone())).collect()
}
