//! Cross-origin requests (CORS), as Spring answers them.
//!
//! A preflight is answered here, 200 without a body; what its policy does not allow is answered 403, preflight or not.
//! Everything else goes on, and its answer gets the policy's headers: `Vary` always, since the answer depends on the
//! origin, and `Access-Control-*` for an origin that is allowed. Requests of the same origin are no cross-origin ones. One
//! from the same host whose scheme alone differs is let through where the policy does not know its origin: whoever ends
//! TLS before us need not have said so, and the browser has its own opinion anyway. Answers of this layer carry
//! [`LocalReply`] with the reason `cors-preflight` or `cors-refused`.
//!
//! [`CorsLayer`] stands outermost. Where filters between it and the upstream are to see the headers, as Spring's
//! `DedupeResponseHeader` wants to, [`GrantLayer`] stands innermost: it puts them before those of the upstream, and
//! the outer layer then only adds them to answers that were made in between.
//!
//! ```
//! use std::sync::Arc;
//!
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use tollgate_filters::cors::{CorsLayer, Everywhere, Policy, Settings};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let upstream = service_fn(|_: Request<()>| async {
//!     Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
//! });
//! let policy = Policy::new(&Settings { allowed_origins: vec!["https://a.example".into()], ..Settings::default() })?;
//! let layer = CorsLayer::new(Everywhere(Arc::new(policy)));
//! for (origin, status) in [("https://a.example", 200), ("https://b.example", 403)] {
//!     let request = Request::builder().header("origin", origin).body(())?;
//!     assert_eq!(layer.layer(upstream).oneshot(request).await?.status(), status);
//! }
//! # Ok(())
//! # }
//! ```

mod grant;
mod origin;
mod policy;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

pub(crate) use self::grant::Granted;
pub use self::grant::{Grant, GrantFuture, GrantLayer};
pub use self::policy::{Policy, PolicyError, Settings, Verdict};

use self::grant::{GrantedHeaders, add};
use crate::context::LocalReply;

/// Which policy holds for which request.
pub trait Policies {
    /// The policy for `request`; `None`: it goes on as it is.
    fn policy<B>(&self, request: &Request<B>) -> Option<&Policy>;

    /// By which scheme the client sent `request`.
    fn scheme<'r, B>(&self, request: &'r Request<B>) -> &'r str {
        request.uri().scheme_str().unwrap_or("http")
    }
}

/// One policy for every request.
#[derive(Clone, Debug)]
pub struct Everywhere(pub Arc<Policy>);

/// Puts [`Cors`] before a service.
#[derive(Clone, Debug)]
pub struct CorsLayer<P> {
    policies: P,
}

/// Answers preflights, refuses what is not allowed. See the [module](self).
#[derive(Clone, Debug)]
pub struct Cors<P, S> {
    policies: P,
    inner: S,
}

pin_project! {
    /// Resolves to the inner service's response with the policy's headers, or to an answer of the policy's own.
    pub struct ResponseFuture<F, R> {
        #[pin]
        state: State<F, R>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, R> {
        Answered { response: Option<Response<R>> },
        Passing { #[pin] inner: F, headers: Option<Arc<HeaderMap>> },
    }
}

// === impl Everywhere ===

impl Policies for Everywhere {
    fn policy<B>(&self, _: &Request<B>) -> Option<&Policy> {
        Some(&self.0)
    }
}

// === impl CorsLayer ===

impl<P> CorsLayer<P> {
    /// Holds requests to `policies`.
    pub fn new(policies: P) -> Self {
        Self { policies }
    }
}

impl<P: Clone, S> Layer<S> for CorsLayer<P> {
    type Service = Cors<P, S>;

    fn layer(&self, inner: S) -> Self::Service {
        Cors { policies: self.policies.clone(), inner }
    }
}

// === impl Cors ===

impl<P, S, B, R> Service<Request<B>> for Cors<P, S>
where
    P: Policies,
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // A request that was let through before, and is now routed anew, has its headers.
        let policy = self.policies.policy(&request).filter(|_| request.extensions().get::<GrantedHeaders>().is_none());
        let verdict = policy.map(|policy| policy.judge(&request, self.policies.scheme(&request)));
        let state = match verdict {
            None => State::Passing { inner: self.inner.call(request), headers: None },
            Some(Verdict::Passes(headers)) => {
                request.extensions_mut().insert(GrantedHeaders(Arc::clone(&headers)));
                State::Passing { inner: self.inner.call(request), headers: Some(headers) }
            }
            Some(Verdict::Preflight(headers)) => {
                State::Answered { response: Some(answer(StatusCode::OK, "cors-preflight", headers)) }
            }
            Some(Verdict::Refused(headers)) => {
                let headers = Arc::unwrap_or_clone(headers);
                State::Answered { response: Some(answer(StatusCode::FORBIDDEN, "cors-refused", headers)) }
            }
        };
        ResponseFuture { state }
    }
}

/// An answer without a body.
fn answer<R: From<Bytes>>(status: StatusCode, reason: &'static str, headers: HeaderMap) -> Response<R> {
    let mut response = Response::new(R::from(Bytes::new()));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    response.extensions_mut().insert(LocalReply { reason });
    response
}

// === impl ResponseFuture ===

impl<F, R, E> Future for ResponseFuture<F, R>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Passing { inner, headers } => {
                let mut response = ready!(inner.poll(cx))?;
                if let Some(headers) = headers.take()
                    && response.extensions().get::<Granted>().is_none()
                {
                    add(&headers, response.headers_mut());
                }
                Poll::Ready(Ok(response))
            }
            StateProj::Answered { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                None => Poll::Pending, // polled after it was done
            },
        }
    }
}
