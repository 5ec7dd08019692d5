//! The way of one request through the limiter.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower::Service;

use super::limiter::Limiter;
use super::turn::{Held, Turn};
use crate::limiter::verdict::Verdict;

type PendingVerdict = Pin<Box<dyn Future<Output = Verdict> + Send>>;

pin_project! {
    /// Resolves to the inner service's response or to a refusal. Dropping it while a store is being asked gives the
    /// question up; tokens that the store took by then are spent. Dropping it while it waits for its turn gives that back.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, B>
    where
        S: Service<Request<B>>,
    {
        Refused { response: Option<S::Response> },
        Waiting { waiting: Option<Box<Waiting<S, B>>> },
        Pacing { turn: Box<Turn<S, B>> },
        Passing { #[pin] inner: S::Future, report: Option<(Arc<Limiter>, Verdict)> },
    }
}

/// Boxed, so that futures which never wait stay small.
struct Waiting<S, B> {
    verdict: PendingVerdict,
    service: S,
    request: Request<B>,
    limiter: Arc<Limiter>,
}

// === impl ResponseFuture ===

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn refused(response: S::Response) -> Self {
        Self { state: State::Refused { response: Some(response) } }
    }

    pub(super) fn passing(inner: S::Future, report: Option<(Arc<Limiter>, Verdict)>) -> Self {
        Self { state: State::Passing { inner, report } }
    }

    pub(super) fn pacing(service: S, request: Request<B>, limiter: Arc<Limiter>, verdict: Verdict) -> Self {
        Self { state: State::pacing(service, request, limiter, verdict) }
    }

    pub(super) fn waiting(verdict: PendingVerdict, service: S, request: Request<B>, limiter: Arc<Limiter>) -> Self {
        Self { state: State::Waiting { waiting: Some(Box::new(Waiting { verdict, service, request, limiter })) } }
    }
}

impl<S, B> State<S, B>
where
    S: Service<Request<B>>,
{
    #[cold]
    fn pacing(service: S, request: Request<B>, limiter: Arc<Limiter>, verdict: Verdict) -> Self {
        Self::Pacing { turn: Box::new(Turn::new(Held { service, request, limiter, verdict })) }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes>,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProj::Refused { response } => {
                    return match response.take() {
                        Some(response) => Poll::Ready(Ok(response)),
                        None => Poll::Pending, // polled after it was done
                    };
                }
                StateProj::Passing { inner, report } => {
                    let mut response = ready!(inner.poll(cx))?;
                    if let Some((limiter, verdict)) = report.take() {
                        limiter.report(&verdict, &mut response);
                    }
                    return Poll::Ready(Ok(response));
                }
                StateProj::Waiting { waiting } => {
                    let Some(asked) = waiting.as_mut() else { return Poll::Pending };
                    let verdict = ready!(asked.verdict.as_mut().poll(cx));
                    let Some(asked) = waiting.take() else { return Poll::Pending };
                    let Waiting { mut service, request, limiter, .. } = *asked;
                    match limiter.refusal(&verdict, &request) {
                        Some(response) => State::Refused { response: Some(response) },
                        None if !verdict.delay.is_zero() => State::pacing(service, request, limiter, verdict),
                        None => {
                            let inner = service.call(request);
                            let report = limiter.reports().then_some((limiter, verdict));
                            State::Passing { inner, report }
                        }
                    }
                }
                StateProj::Pacing { turn } => {
                    let Some(held) = ready!(turn.poll(cx)) else { return Poll::Pending };
                    let Held { mut service, request, limiter, verdict } = held;
                    let inner = service.call(request);
                    let report = limiter.reports().then_some((limiter, verdict));
                    State::Passing { inner, report }
                }
            };
            state.set(next);
        }
    }
}
