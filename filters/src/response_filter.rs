//! Layers that edit responses, with values of their requests.
//!
//! ```
//! use http::{HeaderValue, Request, Response};
//! use tollgate_filters::filter::FilterLayer;
//! use tollgate_filters::response_filter::{OnResponse, ResponseMapper};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! #[derive(Clone)]
//! struct NoStore;
//!
//! impl ResponseMapper for NoStore {
//!     fn apply<R>(self, response: &mut Response<R>) {
//!         response.headers_mut().insert("cache-control", HeaderValue::from_static("no-store"));
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let upstream = service_fn(|_: Request<()>| async { Ok::<_, std::convert::Infallible>(Response::new(())) });
//! let response = FilterLayer(OnResponse(NoStore)).layer(upstream).oneshot(Request::new(())).await?;
//! assert_eq!(response.headers()["cache-control"], "no-store");
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower::Service;

use crate::filter::{Filter, FilterLayer};

/// A change to a response with any body.
pub trait ResponseMapper {
    /// Changes `response`.
    fn apply<R>(self, response: &mut Response<R>);
}

/// A change to a response with the body `R` that [`MapResponse`] makes: a [`ResponseMapper`], or one that replaces the body.
pub trait ResponseChange<R> {
    /// Body after the change.
    type Body;

    /// Returns the changed response.
    fn change(self, response: Response<R>) -> Response<Self::Body>;
}

/// Filter of responses. A [`ResponseMapper`] that needs no value of the request is one.
pub trait ResponseFilter {
    /// Change to one response.
    type Mapper: ResponseMapper;

    /// Returns the change to the response to `request`; `None` if the response stays as it is.
    fn mapper<B>(&self, request: &mut Request<B>) -> Option<Self::Mapper>;
}

/// Wraps services in a [`ResponseFilter`].
pub type ResponseFilterLayer<F> = FilterLayer<OnResponse<F>>;

/// Forwards requests, and changes the responses as a [`ResponseFilter`] says.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnResponse<F>(pub F);

pin_project! {
    /// Resolves to the inner service's response after a change.
    #[derive(Debug)]
    pub struct MapResponse<F, C> {
        #[pin]
        inner: F,
        change: Option<C>,
    }
}

// === impl ResponseMapper ===

impl<M: ResponseMapper, R> ResponseChange<R> for Option<M> {
    type Body = R;

    fn change(self, mut response: Response<R>) -> Response<R> {
        if let Some(mapper) = self {
            mapper.apply(&mut response);
        }
        response
    }
}

// === impl ResponseFilter ===

impl<M: ResponseMapper + Clone> ResponseFilter for M {
    type Mapper = M;

    fn mapper<B>(&self, _: &mut Request<B>) -> Option<M> {
        Some(self.clone())
    }
}

// === impl ResponseFilterLayer ===

impl<F> ResponseFilterLayer<Arc<F>> {
    /// Creates a layer whose services share `filter`.
    #[must_use]
    pub fn new(filter: F) -> Self {
        Self(OnResponse(Arc::new(filter)))
    }
}

// === impl OnResponse ===

impl<F, S, B, R> Filter<S, B> for OnResponse<F>
where
    S: Service<Request<B>, Response = Response<R>>,
    F: ResponseFilter,
{
    type Body = B;
    type Response = Response<R>;
    type Future = MapResponse<S::Future, Option<F::Mapper>>;

    fn call(&self, mut request: Request<B>, inner: &mut S) -> Self::Future {
        let mapper = self.0.mapper(&mut request);
        MapResponse::new(inner.call(request), mapper)
    }
}

// === impl MapResponse ===

impl<F, C> MapResponse<F, C> {
    pub(crate) fn new(inner: F, change: C) -> Self {
        Self { inner, change: Some(change) }
    }
}

impl<F, C, R, E> Future for MapResponse<F, C>
where
    F: Future<Output = Result<Response<R>, E>>,
    C: ResponseChange<R>,
{
    type Output = Result<Response<C::Body>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.inner.poll(cx))?;
        let Some(change) = this.change.take() else { return Poll::Pending }; // polled after completion
        Poll::Ready(Ok(change.change(response)))
    }
}
