//! Stores that are observed: one reports its decisions for the access log, and calls of the other, and of a source of plans,
//! are spans of sampled requests.

use std::sync::Arc;

use crate::http::facts::{CheckedRule, StoreDecision, report};
use crate::instrumentation::traces::request::{RequestTrace, current, is_current_sampled};
use tollgate_config::NamedLimit;
use tollgate_limiter::plan::{PlanLookup, PlanSource};
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::{Check, Decision, Store};
use tollgate_limiter::verdict::Verdict;

/// Store of one limiter. It reports each decision to the facts of the request.
struct RecordedStore {
    store: Arc<dyn Store>,
    /// Rules of each plan.
    plans: Vec<Vec<LabelledRule>>,
}

/// Rule with its label in logs. Rules of several plans may share a scope, and be equal: their neighbors tell them apart.
struct LabelledRule {
    scope: Arc<str>,
    rule: Rule,
    label: Arc<str>,
}

/// Returns `store` with a report of each decision under `rules`.
pub(super) fn recorded(store: Arc<dyn Store>, rules: &[NamedLimit<'_>]) -> Arc<dyn Store> {
    let rule = |named_limit: &NamedLimit<'_>| LabelledRule {
        scope: Arc::clone(&named_limit.scope),
        rule: named_limit.limit.rule.clone(),
        label: Arc::clone(&named_limit.label),
    };
    let plans = rules.chunk_by(|one, next| one.plan == next.plan).map(|plan| plan.iter().map(rule).collect());
    Arc::new(RecordedStore { store, plans: plans.collect() })
}

/// Returns `checks` with the labels of the rules of `plan`, in whose order they are; `None` if they are others.
fn labelled(checks: &[Check<'_>], plan: &[LabelledRule]) -> Option<Vec<CheckedRule>> {
    let mut rules = plan.iter();
    let label = |check: &Check<'_>| {
        let rule = rules.find(|rule| *rule.scope == *check.key.scope && rule.rule == *check.rule)?;
        Some(CheckedRule { rule: Arc::clone(&rule.label), key: check.key.id.into() })
    };
    checks.iter().map(label).collect()
}

impl RecordedStore {
    /// Returns a copy of the checks of both stages if the request is recorded.
    fn labelled(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Option<[Vec<CheckedRule>; 2]> {
        let mut checked = None;
        report(|_| {
            let of_plan = |plan: &Vec<LabelledRule>| Some([labelled(enforced, plan)?, labelled(observed, plan)?]);
            checked = self.plans.iter().find_map(of_plan);
        });
        checked
    }
}

impl Store for RecordedStore {
    fn decide(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Decision {
        let decision = self.store.decide(enforced, observed);
        let Some(checked) = self.labelled(enforced, observed) else { return decision };
        decision.map(|verdict| {
            record(checked, &verdict);
            verdict
        })
    }

    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        self.store.settle(check, more, counted_at_us);
    }
}

/// Records the decision of each stage: first the enforced rules, then the observed ones.
fn record([enforced, observed]: [Vec<CheckedRule>; 2], verdict: &Verdict) {
    report(|facts| {
        facts.limiter.decisions.push(decision(enforced, verdict));
        if let Some(verdict) = &verdict.observed {
            facts.limiter.decisions.push(decision(observed, verdict));
        }
    });
}

fn decision(checks: Vec<CheckedRule>, verdict: &Verdict) -> StoreDecision {
    StoreDecision {
        checks,
        strictest: verdict.rule,
        remaining: verdict.remaining,
        decided_us: verdict.decided_at_us(),
        order: verdict.order,
    }
}

/// Store or plan source of one limiter, with the names that its span has.
pub(super) struct Traced<S> {
    inner: S,
    route: Arc<str>,
    /// Scope of the limiter.
    scope: Arc<str>,
}

impl<S> Traced<S> {
    /// Wraps the store or plan source of the limiter `scope`.
    pub(super) fn new(inner: S, route: &Arc<str>, scope: Arc<str>) -> Arc<Self> {
        Arc::new(Self { inner, route: Arc::clone(route), scope })
    }

    /// Starts or continues the span of the limiter.
    fn started(&self, trace: &RequestTrace) {
        trace.limiter_started(&self.route, &self.scope);
    }
}

impl Traced<Arc<dyn Store>> {
    // A call of its own, so that other requests need no room for it on the stack.
    #[cold]
    #[inline(never)]
    fn traced_decision(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Decision {
        let Some(trace) = current() else { return self.inner.decide(enforced, observed) };
        self.started(&trace);
        self.inner.decide(enforced, observed).map(move |verdict| {
            trace.limiter_decided();
            verdict
        })
    }
}

impl Store for Traced<Arc<dyn Store>> {
    fn decide(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Decision {
        match is_current_sampled() {
            true => self.traced_decision(enforced, observed),
            false => self.inner.decide(enforced, observed),
        }
    }

    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        self.inner.settle(check, more, counted_at_us);
    }
}

impl PlanSource for Traced<Arc<dyn PlanSource>> {
    fn plan(&self, id: &[u8]) -> PlanLookup {
        let Some(trace) = current() else { return self.inner.plan(id) };
        match self.inner.plan(id) {
            PlanLookup::Ready(plan) => PlanLookup::Ready(plan),
            PlanLookup::Pending(pending) => {
                self.started(&trace);
                PlanLookup::Pending(Box::pin(async move {
                    let plan = pending.await;
                    trace.limiter_decided();
                    plan
                }))
            }
        }
    }
}
