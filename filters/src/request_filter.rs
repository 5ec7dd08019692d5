//! Layers that edit requests, or respond to them in place of the inner service.
//!
//! ```
//! use http::{Method, Request, Response, StatusCode};
//! use tollgate_filters::filter::FilterLayer;
//! use tollgate_filters::request_filter::{OnRequest, RequestFilter};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! #[derive(Clone)]
//! struct RefuseTrace;
//!
//! impl<R: Default> RequestFilter<Response<R>> for RefuseTrace {
//!     fn filter<B>(&self, request: &mut Request<B>) -> Option<Response<R>> {
//!         let mut refusal = Response::new(R::default());
//!         *refusal.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
//!         (request.method() == Method::TRACE).then_some(refusal)
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let upstream = service_fn(|_: Request<()>| async { Ok::<_, std::convert::Infallible>(Response::new(())) });
//! let request = Request::builder().method(Method::TRACE).body(())?;
//! let response = FilterLayer(OnRequest(RefuseTrace)).layer(upstream).oneshot(request).await?;
//! assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Request;
use pin_project_lite::pin_project;
use tower::Service;

use crate::filter::{Filter, FilterLayer};

/// Filter of requests, for services with responses of type `P`.
pub trait RequestFilter<P> {
    /// Edits `request`. Returns the response if the request is not forwarded.
    fn filter<B>(&self, request: &mut Request<B>) -> Option<P>;
}

/// Wraps services in a [`RequestFilter`].
pub type RequestFilterLayer<F> = FilterLayer<OnRequest<F>>;

/// Forwards the requests that a [`RequestFilter`] lets through.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnRequest<F>(pub F);

pin_project! {
    /// Resolves to a response of the layer itself, or to that of the inner service.
    #[derive(Debug)]
    pub struct RespondOr<F, P> {
        #[pin]
        state: State<F, P>,
    }
}

pin_project! {
    #[project = StateProj]
    #[derive(Debug)]
    enum State<F, P> {
        Respond { response: Option<P> },
        Forward { #[pin] inner: F },
    }
}

// === impl RequestFilterLayer ===

impl<F> RequestFilterLayer<Arc<F>> {
    /// Creates a layer whose services share `filter`.
    #[must_use]
    pub fn new(filter: F) -> Self {
        Self(OnRequest(Arc::new(filter)))
    }
}

// === impl OnRequest ===

impl<F, S, B> Filter<S, B> for OnRequest<F>
where
    S: Service<Request<B>>,
    F: RequestFilter<S::Response>,
{
    type Body = B;
    type Response = S::Response;
    type Future = RespondOr<S::Future, S::Response>;

    fn call(&self, mut request: Request<B>, inner: &mut S) -> Self::Future {
        match self.0.filter(&mut request) {
            Some(response) => RespondOr::respond(response),
            None => RespondOr::forward(inner.call(request)),
        }
    }
}

// === impl RespondOr ===

impl<F, P> RespondOr<F, P> {
    /// Resolves to `response`.
    pub(crate) fn respond(response: P) -> Self {
        Self { state: State::Respond { response: Some(response) } }
    }

    /// Resolves to the response of `inner`.
    pub(crate) fn forward(inner: F) -> Self {
        Self { state: State::Forward { inner } }
    }
}

impl<F, P, E> Future for RespondOr<F, P>
where
    F: Future<Output = Result<P, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Forward { inner } => inner.poll(cx),
            StateProj::Respond { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                None => Poll::Pending, // polled after completion
            },
        }
    }
}
