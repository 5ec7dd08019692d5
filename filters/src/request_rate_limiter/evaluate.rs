//! Evaluation of a request: access lists, plan, checks, verdict.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};

use super::check_set::{CheckSet, Stages};
use super::limiter::Limiter;
use super::report::Report;
use super::settings::OnLimit;
use crate::context::{Degraded, Rerouted};
use crate::headers::RateLimitHeaders;
use tollgate_limiter::plan::PlanLookup;
use tollgate_limiter::store::{Check, Decision};
use tollgate_limiter::verdict::{Outcome, Verdict};

/// Next step for a request.
pub(super) enum Step {
    Act(Action),
    /// Waits for the name of the request's plan.
    AwaitPlan(Pin<Box<dyn Future<Output = Option<Arc<str>>> + Send>>),
    /// Waits for the store.
    AwaitVerdict(Stages, Pin<Box<dyn Future<Output = Verdict> + Send>>),
}

/// Action that ends the evaluation of a request.
pub(super) enum Action {
    Refuse(Response<Bytes>),
    /// Calls the inner service; `None` if the response needs no change.
    Forward(Option<Report>),
    /// Calls the overflow service, since the request was denied (`on-limit`).
    Overflow(Report),
}

impl Limiter {
    /// Takes the request's tokens, or starts waiting for its plan or for the store.
    #[inline]
    pub(super) fn start<B>(self: &Arc<Self>, request: &Request<B>) -> Step {
        if let Some(access) = &self.access
            && let Some(action) = access.decide(self, request)
        {
            return Step::Act(action);
        }
        match self.plans.as_ref().map(|plans| plans.lookup(&self.key_resolver, request)) {
            None => self.check(0, request),
            Some(PlanLookup::Ready(plan)) => self.check_planned(plan.as_deref(), request),
            Some(PlanLookup::Pending(plan)) => Step::AwaitPlan(plan),
        }
    }

    /// Checks the rules of `plan`.
    pub(super) fn check_planned<B>(self: &Arc<Self>, plan: Option<&str>, request: &Request<B>) -> Step {
        self.check(self.plans.as_ref().map_or(0, |plans| plans.set(plan)), request)
    }

    /// Waits for the plan, the verdict and the slot of a request.
    pub(super) async fn resume(self: Arc<Self>, mut step: Step, request: Request<()>) -> (Action, Request<()>) {
        let mut action = loop {
            step = match step {
                Step::AwaitPlan(plan) => self.check_planned(plan.await.as_deref(), &request),
                Step::AwaitVerdict(stages, verdict) => {
                    let verdict = verdict.await;
                    self.notify_awaited(&stages, &verdict, &request);
                    Step::Act(self.conclude(stages, verdict, &request))
                }
                Step::Act(action) => break action,
            };
        };
        if let Some(delay) = action.take_delay() {
            delay.elapse().await;
        }
        (action, request)
    }

    /// Calls the store.
    #[inline]
    pub(super) fn decide<B>(
        self: &Arc<Self>,
        stages: Stages,
        enforced: &[Check<'_>],
        observed: &[Check<'_>],
        request: &Request<B>,
    ) -> Step {
        let decision = match (enforced, observed) {
            ([], []) => return Step::Act(Action::Forward(None)),
            ([], observed) => self.store.decide(observed, &[]),
            (enforced, observed) => self.store.decide(enforced, observed),
        };
        match decision {
            Decision::Ready(verdict) => {
                self.notify_ready(&stages, &verdict, [enforced, observed]);
                Step::Act(self.conclude(stages, verdict, request))
            }
            Decision::Pending(verdict) => Step::AwaitVerdict(stages, verdict),
        }
    }

    /// Acts on the verdict of the store: refuses the request if an enforced rule does.
    #[inline]
    pub(super) fn conclude<B>(self: &Arc<Self>, stages: Stages, mut verdict: Verdict, request: &Request<B>) -> Action {
        let Stages { enforced, observed } = stages;
        let mut report = Report::default();
        if enforced.rules().is_empty() {
            self.report_observed(&mut report, &observed, &verdict);
            return Action::Forward(report.or_none());
        }
        if let Some(verdict) = verdict.observed.take() {
            self.report_observed(&mut report, &observed, &verdict);
        }
        match verdict.outcome {
            Outcome::Allowed => {
                self.report_allowed(&mut report, enforced, verdict);
                Action::Forward(report.or_none())
            }
            Outcome::StoreUnavailable { .. } => Action::Refuse(self.unavailable_response(&enforced, &verdict, request)),
            Outcome::Denied { .. } | Outcome::NeverAdmitted => self.deny(enforced, verdict, request),
        }
    }

    fn unavailable_response<B>(
        &self,
        check_set: &CheckSet,
        verdict: &Verdict,
        request: &Request<B>,
    ) -> Response<Bytes> {
        let mut response = self.unavailable.to_response(request);
        RateLimitHeaders::set_retry_after(verdict, response.headers_mut());
        self.rules_of(check_set).headers.append_checked(verdict, check_set.checked_rules(), response.headers_mut());
        Degraded::mark(verdict, &mut response);
        response
    }

    fn deny<B>(&self, check_set: CheckSet, verdict: Verdict, request: &Request<B>) -> Action {
        match &self.on_limit {
            OnLimit::Forward(_) if request.extensions().get::<Rerouted>().is_none() => {
                Action::Overflow(Report { verdict: Some((check_set, verdict)), ..Report::default() })
            }
            OnLimit::Forward(_) | OnLimit::Refuse => {
                Action::Refuse(self.rules_of(&check_set).deny(&verdict, check_set.checked_rules(), request))
            }
        }
    }
}
