//! Refuses requests without a key id. With a key resolver for verified tokens, it is the gateway's filter `RequireToken`.
//!
//! A request whose [`KeyResolver`] finds no key id gets the status of its [`Settings`]; a 401 asks for a token with `WWW-Authenticate: Bearer`.
//! Clients that ask for JSON get an RFC 9457 problem, others a line of text. The response carries [`LocalReply`] with the
//! reason `empty-key`. All other requests are forwarded, and nothing is counted.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use http_body_util::Full;
//! use tollgate_filters::key_resolver::KeyResolver;
//! use tollgate_filters::require_key::{RequireKeyLayer, Settings};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let layer = RequireKeyLayer::new(Settings::new(KeyResolver::parse("header:X-User")?, StatusCode::UNAUTHORIZED));
//! let upstream = service_fn(|_: Request<()>| async {
//!     Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
//! });
//! let with = Request::builder().header("x-user", "ada").body(())?;
//! assert_eq!(layer.layer(upstream).oneshot(with).await?.status(), StatusCode::OK);
//! assert_eq!(layer.layer(upstream).oneshot(Request::new(())).await?.status(), StatusCode::UNAUTHORIZED);
//! # Ok(())
//! # }
//! ```
//!
//! [`LocalReply`]: crate::context::LocalReply

use std::sync::Arc;

use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, Request, Response, StatusCode};

use crate::key_resolver::{KeyBuf, KeyResolver};
use crate::refusal_body::ReplyBody;
use crate::reply::Reply;
use crate::request_filter::{RequestFilter, RequestFilterLayer};

/// The key that a request must have, and the refusal without it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Resolver that must find a key id.
    pub key_resolver: KeyResolver,
    /// Status of requests without one.
    pub status: StatusCode,
    refusal: Reply,
}

/// Refuses requests without a key. See the [module](self).
pub type RequireKeyLayer = RequestFilterLayer<Arc<Settings>>;

// === impl Settings ===

impl Settings {
    /// Requires a key id of `key_resolver`; without one the response has `status`.
    #[must_use]
    pub fn new(key_resolver: KeyResolver, status: StatusCode) -> Self {
        Self { key_resolver, status, refusal: Reply::problem(status, "empty-key", "about:blank", None, "") }
    }
}

impl<R: ReplyBody> RequestFilter<Response<R>> for Arc<Settings> {
    fn filter<B>(&self, request: &mut Request<B>) -> Option<Response<R>> {
        if self.key_resolver.resolve(request, &mut KeyBuf::new()).is_some() {
            return None;
        }
        let mut response = self.refusal.to_response(request);
        // A 401 must name a scheme (RFC 9110 §15.5.2).
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        Some(response)
    }
}
