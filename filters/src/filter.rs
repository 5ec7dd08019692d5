//! Layer and service of filters that need more than [`request_filter`](crate::request_filter) and
//! [`response_filter`](crate::response_filter) offer.

use std::future::Future;
use std::task::{Context, Poll};

use http::Request;
use tower::{Layer, Service};

/// Filter of requests with the body `B` in front of the inner service `S`.
pub trait Filter<S, B>
where
    S: Service<Request<Self::Body>>,
{
    /// Body of forwarded requests.
    type Body;
    /// Response of the filter.
    type Response;
    /// Future of the response.
    type Future: Future<Output = Result<Self::Response, S::Error>>;

    /// Forwards `request` to `inner`, which is ready, or responds to it.
    fn call(&self, request: Request<B>, inner: &mut S) -> Self::Future;
}

/// Wraps services in [`Filtered`]. Each service has a clone of the filter.
#[derive(Clone, Copy, Debug, Default)]
pub struct FilterLayer<F>(pub F);

/// Inner service behind a filter.
#[derive(Clone, Copy, Debug)]
pub struct Filtered<F, S> {
    filter: F,
    inner: S,
}

impl<F: Clone, S> Layer<S> for FilterLayer<F> {
    type Service = Filtered<F, S>;

    fn layer(&self, inner: S) -> Self::Service {
        Filtered { filter: self.0.clone(), inner }
    }
}

impl<F, S, B> Service<Request<B>> for Filtered<F, S>
where
    F: Filter<S, B>,
    S: Service<Request<F::Body>>,
{
    type Response = F::Response;
    type Error = S::Error;
    type Future = F::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.filter.call(request, &mut self.inner)
    }
}
