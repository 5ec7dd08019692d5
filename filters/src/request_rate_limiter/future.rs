//! The way of one request through the limiter.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower::Service;

use super::limiter::{Answer, Limiter, Pending, PendingPlan, Report};
use super::turn::{Held, Turn, Wait};

pin_project! {
    /// Resolves to the inner service's response or to a refusal. Dropping it while a store is being asked gives the
    /// question up; tokens that the store took by then are spent.
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
        Passing { #[pin] inner: S::Future, report: Option<(Arc<Limiter>, Report)> },
    }
}

/// Boxed, so that futures which never wait stay small.
struct Waiting<S, B> {
    awaited: Awaited,
    inner: S,
    overflow: Option<S>,
    request: Request<B>,
    limiter: Arc<Limiter>,
}

/// What a request waits for.
pub(super) enum Awaited {
    Plan(PendingPlan),
    Verdict(Pending),
}

/// What came of it.
enum Known {
    Plan(Option<Arc<str>>),
    Verdict(tollgate_limiter::verdict::Verdict),
}

// === impl ResponseFuture ===

impl<S, B, R> ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: From<Bytes>,
{
    /// Does what `answer` says with a ready `inner`, of which only a request that waits keeps a clone.
    pub(super) fn new(
        answer: Answer<R>,
        inner: &mut S,
        overflow: &mut Option<S>,
        request: Request<B>,
        limiter: &Arc<Limiter>,
    ) -> Self {
        // The clone may not be ready; the one that is goes with the request.
        let take = |inner: &mut S| {
            let clone = inner.clone();
            std::mem::replace(inner, clone)
        };
        let state = match act(answer, inner, overflow.as_mut(), request, limiter) {
            Next::State(state) => state,
            Next::Pace(wait, report, request) => {
                let (inner, limiter) = (take(inner), Arc::clone(limiter));
                State::Pacing { turn: Box::new(Turn::new(wait, Held { inner, request, report, limiter })) }
            }
            Next::Wait(awaited, request) => {
                let inner = take(inner);
                let overflow = overflow.clone();
                let limiter = Arc::clone(limiter);
                State::Waiting { waiting: Some(Box::new(Waiting { awaited, inner, overflow, request, limiter })) }
            }
        };
        Self { state }
    }
}

/// What follows from an answer.
enum Next<S, B>
where
    S: Service<Request<B>>,
{
    State(State<S, B>),
    Wait(Awaited, Request<B>),
    Pace(Wait, Option<Report>, Request<B>),
}

/// Does what `answer` says, as far as there is nothing to wait for.
fn act<S, B, R>(
    answer: Answer<R>,
    inner: &mut S,
    overflow: Option<&mut S>,
    mut request: Request<B>,
    limiter: &Arc<Limiter>,
) -> Next<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes>,
{
    Next::State(match answer {
        Answer::Refused(response) => State::Refused { response: Some(response) },
        Answer::Passed(mut report) => {
            let extra = report.as_mut().and_then(|report| report.extra.as_mut());
            if let Some(wait) = extra.and_then(|extra| extra.wait.take()) {
                return Next::Pace(wait, report, request);
            }
            Limiter::send_off(report.as_mut(), &mut request);
            let report = report.map(|report| (Arc::clone(limiter), report));
            State::Passing { inner: inner.call(request), report }
        }
        Answer::Elsewhere(report) => match overflow {
            Some(overflow) => {
                limiter.turn(&mut request);
                State::Passing { inner: overflow.call(request), report: Some((Arc::clone(limiter), report)) }
            }
            None => State::Refused { response: Some(limiter.denied(&report, &request)) },
        },
        Answer::Choosing(plan) => return Next::Wait(Awaited::Plan(plan), request),
        Answer::Pending(pending) => return Next::Wait(Awaited::Verdict(pending), request),
    })
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
                    if let Some((limiter, report)) = report.take() {
                        limiter.report(report, &mut response);
                    }
                    return Poll::Ready(Ok(response));
                }
                StateProj::Waiting { waiting } => {
                    let Some(asked) = waiting.as_mut() else { return Poll::Pending };
                    let known = ready!(asked.awaited.poll(cx));
                    let Some(asked) = waiting.take() else { return Poll::Pending };
                    asked.resume(known)
                }
                StateProj::Pacing { turn } => {
                    let Some(held) = ready!(turn.poll(cx)) else { return Poll::Pending };
                    let Held { mut inner, mut request, mut report, limiter } = held;
                    Limiter::send_off(report.as_mut(), &mut request);
                    State::Passing { inner: inner.call(request), report: report.map(|report| (limiter, report)) }
                }
            };
            state.set(next);
        }
    }
}

impl Awaited {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Known> {
        match self {
            Self::Plan(plan) => plan.as_mut().poll(cx).map(Known::Plan),
            Self::Verdict(pending) => pending.verdict.as_mut().poll(cx).map(Known::Verdict),
        }
    }
}

impl<S, B, R> Waiting<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes>,
{
    fn resume(self, known: Known) -> State<S, B> {
        let Self { awaited, mut inner, mut overflow, request, limiter } = self;
        let answer = match (awaited, known) {
            (Awaited::Verdict(pending), Known::Verdict(verdict)) => limiter.resume(pending, verdict, &request),
            (_, Known::Plan(plan)) => limiter.verify_planned(plan.as_deref(), &request),
            // A plan gives no verdict.
            (Awaited::Plan(_), Known::Verdict(_)) => limiter.verify_planned(None, &request),
        };
        match act(answer, &mut inner, overflow.as_mut(), request, &limiter) {
            Next::State(state) => state,
            Next::Pace(wait, report, request) => {
                State::Pacing { turn: Box::new(Turn::new(wait, Held { inner, request, report, limiter })) }
            }
            Next::Wait(awaited, request) => {
                State::Waiting { waiting: Some(Box::new(Self { awaited, inner, overflow, request, limiter })) }
            }
        }
    }
}
