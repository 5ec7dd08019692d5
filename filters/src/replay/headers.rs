//! Which headers of an answer that is dropped are forgotten, and which stay.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, HeaderName, Request, Response};
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use crate::context::LocalReply;
use crate::fault::Fault;

/// What filters added to answers that were dropped; in the extensions of the request that is run again. Whoever takes it
/// adds it to the answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carried(Arc<Mutex<HeaderMap>>);

/// The names of the fields that an answer came with, before any filter saw it; a response extension.
#[derive(Clone, Debug)]
struct ReceivedNames(Arc<[HeaderName]>);

/// Puts a [`Received`] around a service.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceivedLayer;

/// Notes which headers the inner service's answers come with, and gives them those that earlier attempts left. Stand it
/// innermost in a stack with a [`Retry`](crate::retry) or a [`CircuitBreaker`](crate::circuit_breaker): without it nothing
/// of an answer that they drop stays.
#[derive(Clone, Debug)]
pub struct Received<S>(S);

pin_project! {
    /// Resolves to the inner service's response.
    pub struct ResponseFuture<F> {
        #[pin]
        inner: F,
        carried: Option<Carried>,
    }
}

/// What filters added to `response`, which is about to be dropped: nothing where they made it themselves, or nobody noted
/// what it came with.
pub(crate) fn left_over<R>(response: &mut Response<R>) -> HeaderMap {
    let extensions = response.extensions_mut();
    let fault = extensions.get::<Fault>().is_some();
    let is_local = extensions.get::<LocalReply>().is_some();
    let received = extensions.remove::<ReceivedNames>();
    if is_local && !fault {
        return HeaderMap::new();
    }
    let names = match &received {
        Some(ReceivedNames(names)) => &**names,
        None if fault => &[],
        None => return HeaderMap::new(),
    };
    let mut left = std::mem::take(response.headers_mut());
    for name in names {
        left.remove(name);
    }
    left
}

/// Notes that `response` came with the headers that it has now.
pub(crate) fn mark_received<R>(response: &mut Response<R>) {
    let names = response.headers().keys().cloned().collect();
    response.extensions_mut().insert(ReceivedNames(names));
}

// === impl Carried ===

impl Carried {
    pub(crate) fn new(left: HeaderMap) -> Self {
        Self(Arc::new(Mutex::new(left)))
    }

    /// Puts what nobody took yet before the headers of `response`, whose values come after.
    pub(crate) fn unload<R>(&self, response: &mut Response<R>) {
        let carried = std::mem::take(&mut *self.0.lock());
        if carried.is_empty() {
            return;
        }
        let own = std::mem::replace(response.headers_mut(), carried);
        let mut last = None;
        for (name, value) in own {
            last = name.or(last);
            // A map that is full goes without.
            let _ = last.as_ref().map(|name| response.headers_mut().try_append(name, value));
        }
    }
}

// === impl ReceivedLayer ===

impl<S> Layer<S> for ReceivedLayer {
    type Service = Received<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Received(inner)
    }
}

// === impl Received ===

impl<S, B, R> Service<Request<B>> for Received<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let carried = request.extensions_mut().remove::<Carried>();
        ResponseFuture { inner: self.0.call(request), carried }
    }
}

// === impl ResponseFuture ===

impl<F, R, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = ready!(this.inner.poll(cx))?;
        mark_received(&mut response);
        if let Some(carried) = this.carried.take() {
            carried.unload(&mut response);
        }
        Poll::Ready(Ok(response))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use http::HeaderValue;

    use super::*;

    fn response(headers: &[(&'static str, &'static str)]) -> Response<()> {
        let mut response = Response::new(());
        for (name, value) in headers {
            response.headers_mut().append(*name, HeaderValue::from_static(value));
        }
        response
    }

    #[test]
    fn what_the_upstream_said_is_forgotten_and_what_filters_added_stays() {
        let mut dropped = response(&[("x-up", "1"), ("x-both", "1")]);
        mark_received(&mut dropped);
        dropped.headers_mut().append("x-both", HeaderValue::from_static("2"));
        dropped.headers_mut().append("x-own", HeaderValue::from_static("3"));
        let left = left_over(&mut dropped);
        assert_eq!(left.len(), 1, "{left:?}");
        let mut answer = response(&[("x-own", "4"), ("x-own", "5"), ("x-up", "6")]);
        let carried = Carried::new(left);
        carried.unload(&mut answer);
        carried.unload(&mut answer);
        assert_eq!(answer.headers().get_all("x-own").iter().collect::<Vec<_>>(), ["3", "4", "5"]);
        assert_eq!(answer.headers()["x-up"], "6");
    }

    #[test]
    fn of_an_answer_that_filters_made_nothing_stays_and_of_a_fault_everything() {
        let mut denial = response(&[("x-own", "1")]);
        denial.extensions_mut().insert(LocalReply { reason: "rate-limited" });
        assert!(left_over(&mut denial).is_empty());
        let mut fault = response(&[("x-own", "1")]);
        fault.extensions_mut().insert(LocalReply { reason: "upstream-broken" });
        fault.extensions_mut().insert(Fault::ConnectionClosed);
        assert_eq!(left_over(&mut fault)["x-own"], "1");
        assert!(left_over(&mut response(&[("x-up", "1")])).is_empty(), "nobody knows whose it is");
    }
}
