//! The headers of a policy on their way to the upstream's answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::HeaderMap;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

/// The headers that a request's answer gets; put into its extensions by [`Cors`](super::Cors).
#[derive(Clone, Debug)]
pub(super) struct GrantedHeaders(pub(super) Arc<HeaderMap>);

/// On an answer that has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted;

/// Puts [`Grant`] around the innermost service.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrantLayer;

/// Puts the headers of the policy that a request was let through by before those of the upstream's answer.
#[derive(Clone, Debug)]
pub struct Grant<S> {
    inner: S,
}

pin_project! {
    /// Resolves to the inner service's response with the policy's headers.
    pub struct GrantFuture<F> {
        #[pin]
        inner: F,
        headers: Option<GrantedHeaders>,
    }
}

impl<S> Layer<S> for GrantLayer {
    type Service = Grant<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Grant { inner }
    }
}

impl<S, B, R> Service<Request<B>> for Grant<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = GrantFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let headers = request.extensions().get::<GrantedHeaders>().cloned();
        GrantFuture { inner: self.inner.call(request), headers }
    }
}

impl<F, R, E> Future for GrantFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = ready!(this.inner.poll(cx))?;
        if let Some(GrantedHeaders(headers)) = this.headers.take() {
            add(&headers, response.headers_mut());
            response.extensions_mut().insert(Granted);
        }
        Poll::Ready(Ok(response))
    }
}

/// Puts `granted` before what `headers` has under the same names. A value of `Vary` stands once.
pub(super) fn add(granted: &HeaderMap, headers: &mut HeaderMap) {
    for name in granted.keys() {
        let before: Vec<_> = headers.get_all(name).iter().cloned().collect();
        headers.remove(name);
        for value in granted.get_all(name) {
            let _ = headers.try_append(name, value.clone());
        }
        for value in before {
            let is_there = name == http::header::VARY && granted.get_all(name).iter().any(|one| *one == value);
            if !is_there {
                let _ = headers.try_append(name, value);
            }
        }
    }
}
