//! Refuses requests without a key id. With a key resolver for verified tokens, it is the gateway's filter `RequireToken`.
//!
//! A request whose [`KeyResolver`] finds no key id gets [`Settings::status`], by default 401 with `WWW-Authenticate: Bearer`.
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
//! let layer = RequireKeyLayer::new(Settings::new(KeyResolver::parse("header:X-User")?));
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

use bytes::Bytes;
use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, Request, Response, StatusCode};

use crate::key_resolver::{KeyBuf, KeyResolver};
use crate::reply::Reply;
use crate::request_filter::{FilteredRequests, RequestFilter, RequestFilterLayer, RespondOr};

/// The key that a request must have, and the status without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Resolver that must find a key id.
    pub key_resolver: KeyResolver,
    /// Status of requests without one.
    pub status: StatusCode,
}

/// Wraps services in [`RequireKey`].
pub type RequireKeyLayer = RequestFilterLayer<Arc<Guard>>;

/// Refuses requests without a key. See the [module](self).
pub type RequireKey<S> = FilteredRequests<Arc<Guard>, S>;

/// Resolver and prepared refusal.
#[derive(Debug)]
pub struct Guard {
    key_resolver: KeyResolver,
    refusal: Reply,
    asks_for_token: bool,
}

/// Resolves to the inner service's response or to a refusal.
pub type ResponseFuture<F, R> = RespondOr<F, Response<R>>;

// === impl Settings ===

impl Settings {
    /// Requires a key id of `key_resolver`; without one the response is a 401.
    #[must_use]
    pub fn new(key_resolver: KeyResolver) -> Self {
        Self { key_resolver, status: StatusCode::UNAUTHORIZED }
    }
}

// === impl RequireKeyLayer ===

impl RequireKeyLayer {
    /// Creates a layer that refuses requests as `settings` say.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let guard = Guard {
            refusal: Reply::problem(settings.status, "empty-key", "about:blank", None, ""),
            // A 401 must name a scheme (RFC 9110 §15.5.2).
            asks_for_token: settings.status == StatusCode::UNAUTHORIZED,
            key_resolver: settings.key_resolver,
        };
        Self(Arc::new(guard))
    }
}

// === impl Guard ===

impl<R: From<Bytes>> RequestFilter<Response<R>> for Arc<Guard> {
    fn filter<B>(&self, request: &mut Request<B>) -> Option<Response<R>> {
        if self.key_resolver.resolve(request, &mut KeyBuf::new()).is_some() {
            return None;
        }
        let mut response = self.refusal.to_response(request);
        if self.asks_for_token {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        Some(response)
    }
}
