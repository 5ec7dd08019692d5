//! Forwarding of requests by the limiter, at once or after the store has decided.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use tower::Service;

use super::evaluate::{Action, Evaluated, Step};
use super::limiter::Limiter;
use super::report::Report;
use crate::response_filter::{MapResponse, ResponseMapper};
use crate::wait::HeldRequest;

/// Future of the inner service's response with the limiter's report.
type ReportedFuture<F> = MapResponse<F, Option<PendingReport>>;

/// Report for the response of a forwarded request.
pub struct PendingReport(Arc<Limiter>, Report);

/// Services of the limiter.
#[derive(Clone, Debug)]
pub(super) struct Services<S> {
    pub(super) inner: S,
    /// Service for denied requests (`on-limit`).
    pub(super) overflow: Option<S>,
}

/// Request that waits, and the services to call then. If it is dropped, tokens that the store took by then are spent.
pub struct WaitingRequest<S, B> {
    pub(super) step: Step,
    pub(super) request: Request<B>,
    pub(super) services: Services<S>,
    pub(super) limiter: Arc<Limiter>,
}

impl<S> Services<S> {
    /// Calls the service that `action` names, which is ready, or returns the refusal. Inlined, so that the request is not moved.
    #[inline(always)]
    pub(super) fn act<B, R>(
        &mut self,
        action: Action,
        mut request: Request<B>,
        limiter: &Arc<Limiter>,
    ) -> ControlFlow<Response<R>, ReportedFuture<S::Future>>
    where
        S: Service<Request<B>, Response = Response<R>>,
        R: From<Bytes>,
    {
        match (action, &mut self.overflow) {
            (Action::Refuse(response), _) => ControlFlow::Break(response.map(R::from)),
            (Action::Forward(mut report), _) => {
                if let Some(report) = &mut report {
                    report.insert_request_meter(&mut request);
                }
                let report = report.map(|report| PendingReport(Arc::clone(limiter), report));
                ControlFlow::Continue(MapResponse::new(self.inner.call(request), report))
            }
            (Action::Overflow(report), Some(overflow)) => {
                limiter.reroute(&mut request);
                let report = PendingReport(Arc::clone(limiter), report);
                ControlFlow::Continue(MapResponse::new(overflow.call(request), Some(report)))
            }
            (Action::Overflow(report), None) => ControlFlow::Break(limiter.denial(&report, &request).map(R::from)),
        }
    }
}

impl<S, B, R> HeldRequest for WaitingRequest<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes>,
{
    type Outcome = Evaluated;
    type Response = Response<R>;
    type Future = ReportedFuture<S::Future>;

    fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Evaluated> {
        self.limiter.poll_action(&mut self.step, &self.request, cx).map(Evaluated)
    }

    fn resume(mut self: Box<Self>, Evaluated(action): Evaluated) -> ControlFlow<Response<R>, Self::Future> {
        self.services.act(action, self.request, &self.limiter)
    }
}

impl ResponseMapper for PendingReport {
    fn apply<R>(self, response: &mut Response<R>) {
        let Self(limiter, report) = self;
        limiter.apply_report(report, response);
    }
}

crate::opaque_debug!(PendingReport, WaitingRequest<S, B>);
