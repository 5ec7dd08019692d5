//! Response future of the limiter.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower::Service;

use super::evaluate::{Action, Step};
use super::limiter::Limiter;
use super::report::Report;

pin_project! {
    /// Future of the inner service's response or of a refusal.
    ///
    /// Dropping it while the store decides cancels the call; tokens that the store took by then are spent.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        pub(super) state: State<S, B>,
    }
}

pin_project! {
    #[project = StateProj]
    pub(super) enum State<S, B>
    where
        S: Service<Request<B>>,
    {
        Refused { response: Option<S::Response> },
        Forwarded { #[pin] inner: S::Future, report: Option<(Arc<Limiter>, Report)> },
        Waiting { evaluation: Evaluation, held: Option<HeldRequest<S, B>> },
    }
}

/// Evaluation of a request that waits, see [`Limiter::resume`].
type Evaluation = Pin<Box<dyn Future<Output = (Action, Request<()>)> + Send>>;

/// Body of a request that waits, and the services to call then.
pub(super) struct HeldRequest<S, B> {
    body: B,
    inner: S,
    overflow: Option<S>,
    limiter: Arc<Limiter>,
}

impl<S, B, R> State<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes>,
{
    /// Executes `action` with a ready `inner`.
    pub(super) fn acting(
        action: Action,
        inner: &mut S,
        overflow: Option<&mut S>,
        mut request: Request<B>,
        limiter: &Arc<Limiter>,
    ) -> Self {
        match (action, overflow) {
            (Action::Refuse(response), _) => Self::Refused { response: Some(response.map(R::from)) },
            (Action::Forward(mut report), _) => {
                if let Some(report) = &mut report {
                    report.insert_request_meter(&mut request);
                }
                let report = report.map(|report| (Arc::clone(limiter), report));
                Self::Forwarded { inner: inner.call(request), report }
            }
            (Action::Overflow(report), Some(overflow)) => {
                limiter.reroute(&mut request);
                Self::Forwarded { inner: overflow.call(request), report: Some((Arc::clone(limiter), report)) }
            }
            (Action::Overflow(report), None) => {
                Self::Refused { response: Some(limiter.denial(&report, &request).map(R::from)) }
            }
        }
    }

    /// Continues with `step` of the evaluation.
    pub(super) fn waiting(
        step: Step,
        inner: S,
        overflow: Option<S>,
        request: Request<B>,
        limiter: Arc<Limiter>,
    ) -> Self {
        let (parts, body) = request.into_parts();
        let evaluation = Box::pin(Arc::clone(&limiter).resume(step, Request::from_parts(parts, ())));
        Self::Waiting { evaluation, held: Some(HeldRequest { body, inner, overflow, limiter }) }
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
                        None => Poll::Pending, // polled after completion
                    };
                }
                StateProj::Forwarded { inner, report } => {
                    let mut response = ready!(inner.poll(cx))?;
                    if let Some((limiter, report)) = report.take() {
                        limiter.apply_report(report, &mut response);
                    }
                    return Poll::Ready(Ok(response));
                }
                StateProj::Waiting { evaluation, held } => {
                    let (action, head) = ready!(evaluation.as_mut().poll(cx));
                    let Some(held) = held.take() else { return Poll::Pending };
                    let HeldRequest { body, mut inner, mut overflow, limiter } = held;
                    State::acting(action, &mut inner, overflow.as_mut(), head.map(|()| body), &limiter)
                }
            };
            state.set(next);
        }
    }
}
