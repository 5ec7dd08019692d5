//! Evaluation of a request: access lists, plan, enforced rules, observed rules.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};

use super::check_set::{CheckResult, CheckSet};
use super::enforcement::Stage;
use super::limiter::Limiter;
use super::outcome::{Action, PendingStages, PendingVerdict, Report};
use super::settings::OnLimit;
use crate::context::{Degraded, Rerouted};
use crate::headers::RateLimitHeaders;
use tollgate_limiter::plan::PlanLookup;
use tollgate_limiter::verdict::{Outcome, Source, StagedVerdict, Verdict};

impl Limiter {
    /// Takes the request's tokens, or starts waiting for the store.
    pub(super) fn verify<B, R: From<Bytes>>(self: &Arc<Self>, request: &Request<B>) -> Action<R> {
        if let Some(access) = &self.access
            && let Some(action) = self.check_access(access, request)
        {
            return action;
        }
        match &self.plans {
            None => self.verify_under(0, request),
            Some(plans) => match self.plan(plans, request) {
                PlanLookup::Ready(plan) => self.verify_under(plans.set(plan.as_deref()), request),
                PlanLookup::Pending(plan) => Action::AwaitPlan(plan),
            },
        }
    }

    /// Continues [`verify`](Self::verify) with the request's plan.
    pub(super) fn verify_planned<B, R: From<Bytes>>(
        self: &Arc<Self>,
        plan: Option<&str>,
        request: &Request<B>,
    ) -> Action<R> {
        self.verify_under(self.plans.as_ref().map_or(0, |plans| plans.set(plan)), request)
    }

    /// Continues [`verify`](Self::verify) with the store's verdict.
    pub(super) fn resume<B, R: From<Bytes>>(
        self: &Arc<Self>,
        pending: &mut PendingVerdict,
        verdict: Verdict,
        request: &Request<B>,
    ) -> Action<R> {
        let (check_set, report) = (std::mem::take(&mut pending.check_set), pending.report.take());
        self.notify_awaited(&check_set, pending.stage, &verdict, request);
        self.conclude(check_set, pending.stage, verdict, report, request)
    }

    /// Continues [`verify`](Self::verify) with the store's verdicts on enforced and observed rules.
    pub(super) fn resume_stages<B, R: From<Bytes>>(
        self: &Arc<Self>,
        check_sets: &mut [CheckSet; 2],
        verdict: StagedVerdict,
        request: &Request<B>,
    ) -> Action<R> {
        let [enforced, observed] = std::mem::take(check_sets);
        self.notify_awaited(&enforced, Stage::Enforced, &verdict.enforced, request);
        if let Some(verdict) = &verdict.observed {
            self.notify_awaited(&observed, Stage::Observed, verdict, request);
        }
        self.conclude_stages([enforced, observed], verdict, request)
    }

    #[inline]
    fn verify_under<B, R: From<Bytes>>(self: &Arc<Self>, at: usize, request: &Request<B>) -> Action<R> {
        let set = &self.sets[at];
        match self.check(at, request) {
            // Most requests: allowed, with no observed rule and no cost to settle.
            CheckResult::Ready(check_set, Stage::Enforced, verdict)
                if verdict.is_allowed() && !set.observes && !set.varies =>
            {
                let reports = set.headers.included() || verdict.source == Source::Fallback;
                Action::Forward(reports.then(|| Report { verdict: Some((check_set, verdict)), extra: None }))
            }
            result => self.handle(result, None, request),
        }
    }

    fn handle<B, R: From<Bytes>>(
        self: &Arc<Self>,
        result: CheckResult<R>,
        report: Option<Box<Report>>,
        request: &Request<B>,
    ) -> Action<R> {
        match result {
            CheckResult::MissingKey(response) => Action::Refuse(response),
            CheckResult::NoChecks => forward(report),
            CheckResult::Ready(check_set, stage, verdict) => self.conclude(check_set, stage, verdict, report, request),
            CheckResult::Pending(check_set, stage, verdict) => {
                Action::AwaitVerdict(PendingVerdict { verdict, check_set, stage, report })
            }
            CheckResult::StagesReady(ready) => {
                let (check_sets, verdict) = *ready;
                self.conclude_stages(check_sets, verdict, request)
            }
            CheckResult::StagesPending(check_sets, verdict) => {
                Action::AwaitStages(PendingStages { verdict, check_sets })
            }
        }
    }

    /// Acts on the verdict of one stage. If the enforced rules allow the request, checks the observed rules, then forwards
    /// it.
    fn conclude<B, R: From<Bytes>>(
        self: &Arc<Self>,
        check_set: CheckSet,
        stage: Stage,
        verdict: Verdict,
        report: Option<Box<Report>>,
        request: &Request<B>,
    ) -> Action<R> {
        let set = usize::from(check_set.set);
        match self.judge(check_set, stage, verdict, report, request) {
            ControlFlow::Break(action) => action,
            ControlFlow::Continue(report) if stage == Stage::Enforced && self.sets[set].observes => {
                self.handle(self.check_observed(set, request), report, request)
            }
            ControlFlow::Continue(report) => forward(report),
        }
    }

    /// Acts on the verdicts of both stages: forwards the request if the enforced rules allow it.
    fn conclude_stages<B, R: From<Bytes>>(
        self: &Arc<Self>,
        [enforced, observed]: [CheckSet; 2],
        verdict: StagedVerdict,
        request: &Request<B>,
    ) -> Action<R> {
        let report = match self.judge(enforced, Stage::Enforced, verdict.enforced, None, request) {
            ControlFlow::Break(action) => return action,
            ControlFlow::Continue(report) => report,
        };
        let Some(verdict) = verdict.observed else { return forward(report) };
        match self.judge(observed, Stage::Observed, verdict, report, request) {
            ControlFlow::Break(action) => action,
            ControlFlow::Continue(report) => forward(report),
        }
    }

    /// Returns the report of a request that continues, or the action that ends the evaluation: a refusal or the overflow
    /// service.
    fn judge<B, R: From<Bytes>>(
        self: &Arc<Self>,
        check_set: CheckSet,
        stage: Stage,
        verdict: Verdict,
        report: Option<Box<Report>>,
        request: &Request<B>,
    ) -> ControlFlow<Action<R>, Option<Box<Report>>> {
        ControlFlow::Continue(match (verdict.outcome, stage) {
            (Outcome::Allowed, _) => self.allowed_report(check_set, stage, verdict, report),
            (Outcome::StoreUnavailable { .. }, Stage::Enforced) => {
                return ControlFlow::Break(Action::Refuse(self.unavailable_response(&check_set, &verdict, request)));
            }
            (Outcome::Denied { .. } | Outcome::NeverAdmitted, Stage::Enforced) => {
                return ControlFlow::Break(self.deny(check_set, verdict, request));
            }
            (Outcome::StoreUnavailable { .. }, Stage::Observed) => report,
            (Outcome::Denied { .. } | Outcome::NeverAdmitted, Stage::Observed) => {
                Some(self.would_deny_report(&check_set, &verdict, report))
            }
        })
    }

    /// Adds an allowed check to the report. Returns `None` if there is nothing to report or to settle.
    fn allowed_report(
        self: &Arc<Self>,
        check_set: CheckSet,
        stage: Stage,
        verdict: Verdict,
        report: Option<Box<Report>>,
    ) -> Option<Box<Report>> {
        let set = &self.sets[usize::from(check_set.set)];
        let reports = set.headers.included() || verdict.source == Source::Fallback;
        let reservations = self.reservations(&check_set, &verdict);
        // An observed rule delays no request.
        let delay = self.pacing_delay(&check_set, &verdict).filter(|_| stage == Stage::Enforced);
        if !reports && reservations.is_empty() && delay.is_none() && report.is_none() {
            return None;
        }
        let mut report = report.unwrap_or_default();
        if !reservations.is_empty() || delay.is_some() {
            let extra = report.extra.get_or_insert_default();
            extra.reservations.extend(reservations);
            extra.delay = extra.delay.take().or(delay);
        }
        if stage == Stage::Enforced && reports {
            report.verdict = Some((check_set, verdict));
        }
        Some(report)
    }

    fn would_deny_report(&self, check_set: &CheckSet, verdict: &Verdict, report: Option<Box<Report>>) -> Box<Report> {
        let set = &self.sets[usize::from(check_set.set)];
        let violated = set.violated(verdict, check_set.rules());
        let names: Vec<&str> = violated.map(|at| &*set.limits[at].name).collect();
        tracing::debug!(rules = names.join(","), "request over observed limit");
        let mut report = report.unwrap_or_default();
        if self.would_deny_header {
            report.extra.get_or_insert_default().would_deny = Some(names.join(", ").into());
        }
        report
    }

    fn unavailable_response<B, R: From<Bytes>>(
        &self,
        check_set: &CheckSet,
        verdict: &Verdict,
        request: &Request<B>,
    ) -> Response<R> {
        let set = &self.sets[usize::from(check_set.set)];
        let mut response = self.unavailable.to_response(request);
        RateLimitHeaders::set_retry_after(verdict, response.headers_mut());
        set.headers.append_checked(verdict, check_set.checked_rules(), response.headers_mut());
        Degraded::mark(verdict, &mut response);
        response
    }

    fn deny<B, R: From<Bytes>>(&self, check_set: CheckSet, verdict: Verdict, request: &Request<B>) -> Action<R> {
        match &self.on_limit {
            OnLimit::Forward(_) if request.extensions().get::<Rerouted>().is_none() => {
                Action::Overflow(Report { verdict: Some((check_set, verdict)), ..Report::default() })
            }
            OnLimit::Forward(_) | OnLimit::Refuse => {
                let set = &self.sets[usize::from(check_set.set)];
                Action::Refuse(set.deny(&verdict, check_set.checked_rules(), request))
            }
        }
    }
}

fn forward<R>(report: Option<Box<Report>>) -> Action<R> {
    Action::Forward(report.map(|report| *report))
}
