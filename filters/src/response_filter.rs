//! Layers that edit responses, with values of their requests.
//!
//! ```
//! use http::{HeaderValue, Request, Response};
//! use tollgate_filters::response_filter::{ResponseFilterLayer, ResponseMapper};
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
//! let response = ResponseFilterLayer(NoStore).layer(upstream).oneshot(Request::new(())).await?;
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
use tower::{Layer, Service};

/// A change to a response that [`MapResponse`] makes.
pub trait ResponseMapper {
    /// Changes `response`.
    fn apply<R>(self, response: &mut Response<R>);
}

/// Filter of responses. A [`ResponseMapper`] that needs no value of the request is one.
pub trait ResponseFilter {
    /// Change to one response.
    type Mapper: ResponseMapper;

    /// Returns the change to the response to `request`; `None` if the response stays as it is.
    fn mapper<B>(&self, request: &mut Request<B>) -> Option<Self::Mapper>;
}

/// Wraps services in [`FilteredResponses`]. Each service has a clone of the filter.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponseFilterLayer<F>(pub F);

/// Edits the responses of the inner service.
#[derive(Clone, Copy, Debug)]
pub struct FilteredResponses<F, S> {
    filter: F,
    inner: S,
}

pin_project! {
    /// Resolves to the inner service's response after a change.
    #[derive(Debug)]
    pub struct MapResponse<F, M> {
        #[pin]
        inner: F,
        mapper: Option<M>,
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
        Self(Arc::new(filter))
    }
}

impl<F: Clone, S> Layer<S> for ResponseFilterLayer<F> {
    type Service = FilteredResponses<F, S>;

    fn layer(&self, inner: S) -> Self::Service {
        FilteredResponses { filter: self.0.clone(), inner }
    }
}

// === impl FilteredResponses ===

impl<F, S, B, R> Service<Request<B>> for FilteredResponses<F, S>
where
    S: Service<Request<B>, Response = Response<R>>,
    F: ResponseFilter,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = MapResponse<S::Future, F::Mapper>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let mapper = self.filter.mapper(&mut request);
        MapResponse::new(self.inner.call(request), mapper)
    }
}

// === impl MapResponse ===

impl<F, M> MapResponse<F, M> {
    pub(crate) fn new(inner: F, mapper: impl Into<Option<M>>) -> Self {
        Self { inner, mapper: mapper.into() }
    }
}

impl<F, M, R, E> Future for MapResponse<F, M>
where
    F: Future<Output = Result<Response<R>, E>>,
    M: ResponseMapper,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = ready!(this.inner.poll(cx))?;
        if let Some(mapper) = this.mapper.take() {
            mapper.apply(&mut response);
        }
        Poll::Ready(Ok(response))
    }
}
