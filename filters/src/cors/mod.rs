//! Cross-origin requests (CORS), as in Spring.
//!
//! A preflight gets a 200 without a body. A request that its policy does not allow gets a 403, preflight or not. Other
//! requests are forwarded, and their responses get the policy's headers: always `Vary`, since the response depends on the
//! origin, and `Access-Control-*` for an allowed origin.
//!
//! Same-origin requests are always forwarded. So are requests from the same host with another scheme if the policy does
//! not list their origin: a proxy may have terminated TLS without reporting it, and browsers enforce the policy anyway.
//! Responses of this layer carry [`LocalReply`] with the reason `cors-preflight` or `cors-refused`.
//!
//! [`CorsLayer`] belongs outermost. If filters between it and the upstream must see the headers, as for Spring's
//! `DedupeResponseHeader`, add [`PolicyHeadersLayer`] innermost. It puts the policy's headers before the upstream's, or
//! in their place; the outer layer then adds them only to responses made in between.
//!
//! ```
//! use std::sync::Arc;
//!
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use tollgate_filters::cors::{CorsLayer, Policy, Settings, SinglePolicy};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let upstream = service_fn(|_: Request<()>| async {
//!     Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
//! });
//! let policy = Policy::new(&Settings { allowed_origins: vec!["https://a.example".into()], ..Settings::default() })?;
//! let layer = CorsLayer::new(SinglePolicy(Arc::new(policy)));
//! for (origin, status) in [("https://a.example", 200), ("https://b.example", 403)] {
//!     let request = Request::builder().header("origin", origin).body(())?;
//!     assert_eq!(layer.layer(upstream).oneshot(request).await?.status(), status);
//! }
//! # Ok(())
//! # }
//! ```

mod headers;
mod origin;
mod policy;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use http::header::HeaderMap;
use http::{Request, Response, StatusCode};
use tower::Service;

pub(crate) use self::headers::PolicyHeadersAdded;
pub use self::headers::{AddPolicyHeaders, PolicyHeadersLayer, UpstreamHeaders};
pub use self::policy::{Policy, PolicyError, Refusal, Settings, Verdict};

use self::headers::{AllowedHeaders, prepend};
use crate::context::LocalReply;
use crate::filter::{Filter, FilterLayer};
use crate::refusal_body::ReplyBody;
use crate::request_filter::RespondOr;
use crate::response_filter::{MapResponse, ResponseMapper};

/// Selects the policy of a request.
pub trait PolicySource {
    /// Returns the policy for `request`. If it is `None`, the request is forwarded unchanged.
    fn policy<B>(&self, request: &Request<B>) -> Option<&Policy>;

    /// Returns the scheme that the client used for `request`.
    fn scheme<'r, B>(&self, request: &'r Request<B>) -> &'r str {
        request.uri().scheme_str().unwrap_or("http")
    }
}

/// One policy for all requests.
#[derive(Clone, Debug)]
pub struct SinglePolicy(pub Arc<Policy>);

/// Applies CORS policies. See the [module](self).
pub type CorsLayer<P> = FilterLayer<Cors<P>>;

/// Filter that applies the policies of `P`.
#[derive(Clone, Debug)]
pub struct Cors<P> {
    policies: P,
}

/// Adds the policy's headers, unless [`PolicyHeadersLayer`] has added them.
#[derive(Debug)]
pub struct AddUnlessPresent(Arc<HeaderMap>);

// === impl SinglePolicy ===

impl PolicySource for SinglePolicy {
    fn policy<B>(&self, _: &Request<B>) -> Option<&Policy> {
        Some(&self.0)
    }
}

// === impl CorsLayer ===

impl<P> CorsLayer<P> {
    /// Creates a layer that applies `policies`.
    pub fn new(policies: P) -> Self {
        Self(Cors { policies })
    }
}

// === impl Cors ===

impl<P, S, B, R> Filter<S, B> for Cors<P>
where
    P: PolicySource,
    S: Service<Request<B>, Response = Response<R>>,
    R: ReplyBody,
{
    type Body = B;
    type Response = Response<R>;
    type Future = RespondOr<MapResponse<S::Future, Option<AddUnlessPresent>>, Response<R>>;

    fn call(&self, mut request: Request<B>, inner: &mut S) -> Self::Future {
        // A request that was allowed before, and is now routed again, has its headers already.
        let policy = self.policies.policy(&request).filter(|_| request.extensions().get::<AllowedHeaders>().is_none());
        let verdict = policy.map(|policy| policy.evaluate(&request, self.policies.scheme(&request)));
        match verdict {
            None => RespondOr::forward(MapResponse::new(inner.call(request), None)),
            Some(Verdict::Allowed(headers)) => {
                request.extensions_mut().insert(AllowedHeaders(Arc::clone(&headers)));
                RespondOr::forward(MapResponse::new(inner.call(request), Some(AddUnlessPresent(headers))))
            }
            Some(Verdict::Preflight(headers)) => {
                RespondOr::respond(LocalReply::empty(StatusCode::OK, "cors-preflight", headers))
            }
            Some(Verdict::Denied(_, headers)) => {
                let headers = Arc::unwrap_or_clone(headers);
                RespondOr::respond(LocalReply::empty(StatusCode::FORBIDDEN, "cors-refused", headers))
            }
        }
    }
}

// === impl AddUnlessPresent ===

impl ResponseMapper for AddUnlessPresent {
    fn apply<R>(self, response: &mut Response<R>) {
        if response.extensions().get::<PolicyHeadersAdded>().is_none() {
            prepend(&self.0, response.headers_mut());
        }
    }
}
