//! Evaluation of a request: access lists, plan, checks, verdict.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};

use super::Limit;
use super::access::{AccessControl, Listed};
use super::check_set::{CheckSet, Stages};
use super::enforcement::Stage;
use super::event::{VerdictEvent, VerdictKind};
use super::limiter::Limiter;
use super::limits::OnLimit;
use super::report::Report;
use super::rule_set::RuleSet;
use super::settlement::PacingDelay;
use crate::context::{Degraded, Rerouted};
use crate::headers::RateLimitHeaders;
use crate::key_resolver::KeyBuf;
use crate::refusal::Refusal;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::plan::PlanLookup;
use tollgate_limiter::store::{Check, Decision, MAX_CHECKS};
use tollgate_limiter::verdict::{Outcome, Verdict};

/// Next step for a request.
pub(super) enum Step {
    Act(Action),
    /// Waits for the name of the request's plan.
    AwaitPlan(Pin<Box<dyn Future<Output = Option<Arc<str>>> + Send>>),
    /// Waits for the store.
    AwaitVerdict(Stages, Pin<Box<dyn Future<Output = Verdict> + Send>>),
    /// Waits for the slot of a paced request.
    AwaitSlot(Action, Pin<Box<dyn Future<Output = ()> + Send>>),
}

/// Action for a request that has waited.
pub struct Evaluated(pub(super) Action);

/// Action that ends the evaluation of a request.
pub(super) enum Action {
    Refuse(Response<Bytes>),
    /// Calls the inner service; `None` if the response needs no change.
    Forward(Option<Report>),
    /// Calls the overflow service, since the request was denied (`on-limit`).
    Overflow(Report),
}

impl Action {
    /// Returns true if the request waits for its slot.
    #[inline]
    pub(super) fn is_delayed(&self) -> bool {
        let Self::Forward(Some(Report { extra: Some(extra), .. })) = self else { return false };
        extra.delay.is_some()
    }

    fn take(&mut self) -> Self {
        mem::replace(self, Self::Forward(None))
    }

    /// Takes the delay of the request.
    pub(super) fn take_delay(&mut self) -> Option<PacingDelay> {
        let Self::Forward(Some(Report { extra: Some(extra), .. })) = self else { return None };
        extra.delay.take()
    }
}

impl Limiter {
    /// Takes the request's tokens, or starts waiting for its plan or for the store.
    #[inline]
    pub(super) fn start<B>(self: &Arc<Self>, request: &Request<B>) -> Step {
        if let Some(access) = &self.access
            && let Some(action) = self.check_access(access, request)
        {
            return Step::Act(action);
        }
        match self.plans.as_ref().map(|plans| plans.lookup(&self.key_resolver, request)) {
            None => self.check(0, request),
            Some(PlanLookup::Ready(plan)) => self.check_planned(plan.as_deref(), request),
            Some(PlanLookup::Pending(plan)) => Step::AwaitPlan(plan),
        }
    }

    /// Decides requests of listed clients. A client on both lists is blocked.
    #[cold]
    fn check_access<B>(&self, access: &AccessControl, request: &Request<B>) -> Option<Action> {
        let (kind, action) = match access.listed(request)? {
            Listed::Blocked if access.enforced => {
                (VerdictKind::Blocked, self.refuse(access.blocked.to_response(request), None, request))
            }
            Listed::Blocked => (VerdictKind::Observed, Action::Forward(None)),
            Listed::Exempt => (VerdictKind::Exempt, Action::Forward(None)),
        };
        if let Some(hook) = &self.on_verdict {
            hook(&VerdictEvent { rule: None, index: None, key: None, kind, source: None });
        }
        Some(action)
    }

    /// Checks the rules of `plan`.
    fn check_planned<B>(self: &Arc<Self>, plan: Option<&str>, request: &Request<B>) -> Step {
        self.check(self.plans.as_ref().map_or(0, |plans| plans.set(plan)), request)
    }

    /// Checks the rules of a set. A request without the key id of an enforced rule is refused.
    #[inline]
    fn check<B>(self: &Arc<Self>, position: usize, request: &Request<B>) -> Step {
        let rules = &self.sets[position];
        let set = u16::try_from(position).unwrap_or_default();
        let mut stages = Stages::of(set);
        let ([limit], true) = (&*rules.limits, rules.is_plain) else {
            return self.check_several(rules, stages, request);
        };
        let mut buf = KeyBuf::new();
        let Some(id) = limit.key_resolver.resolve(request, &mut buf) else {
            let refusal = self.missing_key_refusal(limit, request);
            return Step::Act(refusal.unwrap_or(Action::Forward(None)));
        };
        let key = BucketKey { scope: &limit.scope, id };
        let check = [Check { key, rule: &limit.rule, cost: limit.cost.tokens }];
        match limit.enforcement.stage_for(id) {
            Some(Stage::Enforced) => {
                stages.enforced.count = 1;
                self.decide(stages, &check, &[], request)
            }
            Some(Stage::Observed) => {
                stages.observed.count = 1;
                self.decide(stages, &[], &check, request)
            }
            None => Step::Act(Action::Forward(None)),
        }
    }

    fn check_several<B>(self: &Arc<Self>, rules: &RuleSet, mut stages: Stages, request: &Request<B>) -> Step {
        let mut bufs: [KeyBuf; MAX_CHECKS] = std::array::from_fn(|_| KeyBuf::new());
        let [mut enforced, mut observed] = [Vec::new(), Vec::new()];
        for ((index, limit), buf) in (0_u8..).zip(&rules.limits).zip(&mut bufs) {
            if !limit.applies(request) {
                continue;
            }
            let Some(id) = limit.key_resolver.resolve(request, buf) else {
                match self.missing_key_refusal(limit, request) {
                    Some(refusal) => return Step::Act(refusal),
                    None => continue,
                }
            };
            let (check_set, checks) = match limit.enforcement.stage_for(id) {
                Some(Stage::Enforced) => (&mut stages.enforced, &mut enforced),
                Some(Stage::Observed) => (&mut stages.observed, &mut observed),
                None => continue,
            };
            if checks.is_empty() {
                checks.reserve_exact(rules.limits.len());
            }
            checks.push(check_set.push(index, limit, rules.varies, id, request));
        }
        self.decide(stages, &enforced, &observed, request)
    }

    /// Returns the refusal of a request that lacks a rule's key id, or `None` if the rule lets it pass.
    fn missing_key_refusal<B>(&self, limit: &Limit, request: &Request<B>) -> Option<Action> {
        if !limit.enforcement.denies_any() {
            return None;
        }
        let is_ambiguous = limit.key_resolver.is_ambiguous(request);
        let reply = if is_ambiguous { &self.ambiguous_key } else { self.empty_key.as_ref()? };
        Some(self.refuse(reply.to_response(request), None, request))
    }

    /// Refuses a request with `response`; `decided` is the verdict, if there is one.
    #[inline]
    fn refuse<B>(
        &self,
        mut response: Response<Bytes>,
        decided: Option<(&CheckSet, &Verdict)>,
        request: &Request<B>,
    ) -> Action {
        let decided = || {
            decided.map(|(check_set, verdict)| {
                let rule = check_set.rules().get(verdict.rule).map(|at| usize::from(*at));
                let limit = rule.and_then(|at| self.rules_of(check_set).limits.get(at));
                (verdict.outcome, limit.map(|limit| &limit.name))
            })
        };
        Refusal::describe(self.error_format, decided, request, &mut response);
        Action::Refuse(response)
    }

    /// Calls the store.
    #[inline]
    fn decide<B>(
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
    fn conclude<B>(self: &Arc<Self>, stages: Stages, mut verdict: Verdict, request: &Request<B>) -> Action {
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
            Outcome::StoreUnavailable { .. } => {
                let response = self.unavailable_response(&enforced, &verdict, request);
                self.refuse(response, Some((&enforced, &verdict)), request)
            }
            Outcome::Denied { .. } | Outcome::NeverAdmitted => self.deny(enforced, verdict, request),
        }
    }

    /// Waits for the plan, the verdict and the slot of a request.
    pub(super) fn poll_action<B>(
        self: &Arc<Self>,
        step: &mut Step,
        request: &Request<B>,
        cx: &mut Context<'_>,
    ) -> Poll<Action> {
        loop {
            *step = match step {
                Step::AwaitPlan(plan) => {
                    let plan = ready!(plan.as_mut().poll(cx));
                    self.check_planned(plan.as_deref(), request)
                }
                Step::AwaitVerdict(stages, verdict) => {
                    let verdict = ready!(verdict.as_mut().poll(cx));
                    self.notify_awaited(stages, &verdict, request);
                    Step::Act(self.conclude(mem::take(stages), verdict, request))
                }
                Step::AwaitSlot(action, slot) => {
                    ready!(slot.as_mut().poll(cx));
                    Step::Act(action.take())
                }
                Step::Act(action) => match action.take_delay() {
                    Some(delay) => Step::AwaitSlot(action.take(), Box::pin(delay.elapse())),
                    None => return Poll::Ready(action.take()),
                },
            };
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
                Action::Overflow(Report { verdict: Some(Box::new((check_set, verdict))), ..Report::default() })
            }
            OnLimit::Forward(_) | OnLimit::Refuse => {
                let response = self.rules_of(&check_set).deny(&verdict, check_set.checked_rules(), request);
                self.refuse(response, Some((&check_set, &verdict)), request)
            }
        }
    }
}

crate::opaque_debug!(Evaluated);
