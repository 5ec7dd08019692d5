//! Removes attributes from JSON responses: Spring Cloud Gateway's `RemoveJsonAttributesResponseBody`.
//!
//! The layer edits responses with `Content-Type: application/json`, and with types that end in `+json`, such as
//! `application/problem+json`. Parameters of the type are ignored. It collects the body up to a limit, removes the attributes, and sets the
//! new length. The removed attributes may be confidential, so a response that cannot be edited is replaced: by a 500 for
//! invalid JSON, a body above the limit or a content coding, by a 502 for an incomplete body. The replacement carries
//! [`LocalReply`] with the reason `response-body`.
//!
//! To get a complete body without a content coding, the layer removes `Range` and `If-Range` from the request, which a
//! server may ignore (RFC 9110 §14.2), and sets `Accept-Encoding` to `identity`. Response headers that describe the
//! original bytes are removed (digests, `Accept-Ranges`) or weakened (`ETag`, RFC 9110 §8.8.1); trailers are dropped.
//! Local responses of filters or of the gateway are unchanged.
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
mod members;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use http::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue, IF_RANGE, RANGE};
use http::{Method, Request, Response};
use http_body::Body;
use tower::Service;

pub use self::future::ResponseFuture;
use crate::filter::{Filter, FilterLayer};
use crate::refusal_body::ReplyBody;

/// The attributes to remove, and the size limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    names: Box<[Box<str>]>,
    recursively: bool,
    max_bytes: usize,
}

/// Removes attributes from JSON responses. See the [module](self).
pub type RemoveJsonAttributesLayer = FilterLayer<RemoveJsonAttributes>;

/// Filter that removes attributes.
#[derive(Clone, Debug)]
pub struct RemoveJsonAttributes {
    settings: Arc<Settings>,
}

// === impl Settings ===

impl Settings {
    /// Removes the attributes `names` from the top-level object, or from all nested objects if `recursively` is true.
    /// `max_bytes` limits the size of bodies.
    pub fn new(names: impl IntoIterator<Item = impl Into<Box<str>>>, recursively: bool, max_bytes: usize) -> Self {
        Self { names: names.into_iter().map(Into::into).collect(), recursively, max_bytes }
    }
}

// === impl RemoveJsonAttributesLayer ===

impl RemoveJsonAttributesLayer {
    /// Creates a layer that removes attributes as `settings` say.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self(RemoveJsonAttributes { settings: Arc::new(settings) })
    }
}

// === impl RemoveJsonAttributes ===

impl<S, B, R> Filter<S, B> for RemoveJsonAttributes
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body + ReplyBody,
{
    type Body = B;
    type Response = Response<R>;
    type Future = ResponseFuture<S::Future, R>;

    fn call(&self, mut request: Request<B>, inner: &mut S) -> Self::Future {
        let request_info = RequestInfo { is_head: request.method() == Method::HEAD, accept: accept(request.headers()) };
        let headers = request.headers_mut();
        headers.remove(RANGE);
        headers.remove(IF_RANGE);
        // A full map does not get the header. A response with a content coding is rejected anyway.
        let _ = headers.try_insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        ResponseFuture::new(inner.call(request), Arc::clone(&self.settings), request_info)
    }
}

/// Values of the request that a replacement response depends on.
#[derive(Debug)]
struct RequestInfo {
    is_head: bool,
    accept: HeaderMap,
}

/// Returns the `Accept` fields, which decide the format of an error response.
fn accept(headers: &HeaderMap) -> HeaderMap {
    let name = http::header::ACCEPT;
    headers.get_all(&name).iter().map(|value| (name.clone(), value.clone())).collect()
}
