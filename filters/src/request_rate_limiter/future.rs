//! Response future of the limiter.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower::Service;

use super::limiter::Limiter;
use super::outcome::{Action, PacingDelay, PendingStages, PendingVerdict, PlanFuture, Report};
use super::pacing::{HeldRequest, PacedRequest};

pin_project! {
    /// Future of the inner service's response or of a refusal.
    ///
    /// Dropping it while the store decides cancels the call; tokens that the store took by then are spent.
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
        Pacing { paced: Box<PacedRequest<S, B>> },
        Passing { #[pin] inner: S::Future, report: Option<(Arc<Limiter>, Report)> },
    }
}

/// Request that waits for a plan or a verdict. Boxed, so that futures that never wait stay small.
struct Waiting<S, B> {
    awaited: Awaited,
    inner: S,
    overflow: Option<S>,
    request: Request<B>,
    limiter: Arc<Limiter>,
}

/// Future that a request waits for.
pub(super) enum Awaited {
    Plan(PlanFuture),
    Verdict(PendingVerdict),
    Stages(PendingStages),
}

// === impl ResponseFuture ===

impl<S, B, R> ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: From<Bytes>,
{
    /// Executes `action` with a ready `inner`. Only a request that waits keeps a clone of it.
    pub(super) fn new(
        action: Action<R>,
        inner: &mut S,
        overflow: &mut Option<S>,
        request: Request<B>,
        limiter: &Arc<Limiter>,
    ) -> Self {
        // The clone may not be ready, so the request takes the ready service.
        let take = |inner: &mut S| {
            let clone = inner.clone();
            std::mem::replace(inner, clone)
        };
        let state = match execute(action, inner, overflow.as_mut(), request, limiter) {
            Next::State(state) => state,
            Next::Pace(delay, report, request) => {
                let (inner, limiter) = (take(inner), Arc::clone(limiter));
                State::pacing(delay, HeldRequest { inner, request, report, limiter })
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

impl<S, B> State<S, B>
where
    S: Service<Request<B>>,
{
    fn pacing(delay: PacingDelay, held: HeldRequest<S, B>) -> Self {
        Self::Pacing { paced: Box::new(PacedRequest::new(delay, held)) }
    }
}

/// Next state, or the future that the request waits for.
enum Next<S, B>
where
    S: Service<Request<B>>,
{
    State(State<S, B>),
    Wait(Awaited, Request<B>),
    Pace(PacingDelay, Option<Report>, Request<B>),
}

/// Executes `action` as far as possible without waiting.
fn execute<S, B, R>(
    action: Action<R>,
    inner: &mut S,
    overflow: Option<&mut S>,
    mut request: Request<B>,
    limiter: &Arc<Limiter>,
) -> Next<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes>,
{
    Next::State(match action {
        Action::Refuse(response) => State::Refused { response: Some(response) },
        Action::Forward(mut report) => {
            let extra = report.as_mut().and_then(|report| report.extra.as_mut());
            if let Some(delay) = extra.and_then(|extra| extra.delay.take()) {
                return Next::Pace(delay, report, request);
            }
            Limiter::insert_request_meter(report.as_mut(), &mut request);
            let report = report.map(|report| (Arc::clone(limiter), report));
            State::Passing { inner: inner.call(request), report }
        }
        Action::Overflow(report) => match overflow {
            Some(overflow) => {
                limiter.reroute(&mut request);
                State::Passing { inner: overflow.call(request), report: Some((Arc::clone(limiter), report)) }
            }
            None => State::Refused { response: Some(limiter.denial(&report, &request)) },
        },
        Action::AwaitPlan(plan) => return Next::Wait(Awaited::Plan(plan), request),
        Action::AwaitVerdict(pending) => return Next::Wait(Awaited::Verdict(pending), request),
        Action::AwaitStages(pending) => return Next::Wait(Awaited::Stages(pending), request),
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
                        None => Poll::Pending, // polled after completion
                    };
                }
                StateProj::Passing { inner, report } => {
                    let mut response = ready!(inner.poll(cx))?;
                    if let Some((limiter, report)) = report.take() {
                        limiter.apply_report(report, &mut response);
                    }
                    return Poll::Ready(Ok(response));
                }
                StateProj::Waiting { waiting } => {
                    let Some(request) = waiting.as_mut() else { return Poll::Pending };
                    let action = ready!(request.poll_action(cx));
                    let Some(request) = waiting.take() else { return Poll::Pending };
                    request.resume(action)
                }
                StateProj::Pacing { paced } => {
                    let Some(held) = ready!(paced.poll(cx)) else { return Poll::Pending };
                    let HeldRequest { mut inner, mut request, mut report, limiter } = held;
                    Limiter::insert_request_meter(report.as_mut(), &mut request);
                    State::Passing { inner: inner.call(request), report: report.map(|report| (limiter, report)) }
                }
            };
            state.set(next);
        }
    }
}

impl<S, B, R> Waiting<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes>,
{
    /// Waits for the plan or the verdict, and returns the next action.
    fn poll_action(&mut self, cx: &mut Context<'_>) -> Poll<Action<R>> {
        Poll::Ready(match &mut self.awaited {
            Awaited::Plan(plan) => {
                let plan = ready!(plan.as_mut().poll(cx));
                self.limiter.verify_planned(plan.as_deref(), &self.request)
            }
            Awaited::Verdict(pending) => {
                let verdict = ready!(pending.verdict.as_mut().poll(cx));
                self.limiter.resume(pending, verdict, &self.request)
            }
            Awaited::Stages(pending) => {
                let verdict = ready!(pending.verdict.as_mut().poll(cx));
                self.limiter.resume_stages(&mut pending.check_sets, verdict, &self.request)
            }
        })
    }

    /// Executes the action that followed the wait.
    fn resume(self, action: Action<R>) -> State<S, B> {
        let Self { mut inner, mut overflow, request, limiter, .. } = self;
        match execute(action, &mut inner, overflow.as_mut(), request, &limiter) {
            Next::State(state) => state,
            Next::Pace(delay, report, request) => State::pacing(delay, HeldRequest { inner, request, report, limiter }),
            Next::Wait(awaited, request) => {
                State::Waiting { waiting: Some(Box::new(Self { awaited, inner, overflow, request, limiter })) }
            }
        }
    }
}
