//! Store that reports its decisions for the access log.

use std::sync::Arc;

use tollgate_limiter::store::{Check, Decision, Store};
use tollgate_limiter::verdict::Verdict;

use crate::http::facts::limiter::{CheckedRule, StoreDecision};
use crate::http::facts::report;

/// Store of one limiter. It reports each decision to the facts of the request.
struct RecordedStore {
    store: Arc<dyn Store>,
    /// Scope and name of each rule.
    rules: Vec<(Arc<str>, Arc<str>)>,
}

/// Returns `store` with a report of each decision. `rules` are the scopes of the rules with their names.
pub(super) fn recorded(store: Arc<dyn Store>, rules: Vec<(Arc<str>, Arc<str>)>) -> Arc<dyn Store> {
    Arc::new(RecordedStore { store, rules })
}

impl RecordedStore {
    fn checked(&self, check: &Check<'_>) -> CheckedRule {
        let known = self.rules.iter().find(|(scope, _)| **scope == *check.key.scope);
        let rule = known.map_or_else(|| check.key.scope.into(), |(_, name)| Arc::clone(name));
        CheckedRule { rule, key: check.key.id.into() }
    }
}

impl Store for RecordedStore {
    fn decide(&self, checks: &[Check<'_>]) -> Decision {
        match self.store.decide(checks) {
            Decision::Ready(verdict) => {
                let checked = || checks.iter().map(|check| self.checked(check)).collect();
                report(|facts| facts.limiter.decisions.push(decision(checked(), &verdict)));
                Decision::Ready(verdict)
            }
            Decision::Pending(pending) => {
                let mut checked = None;
                report(|_| checked = Some(checks.iter().map(|check| self.checked(check)).collect()));
                let Some(checked) = checked else { return Decision::Pending(pending) };
                Decision::Pending(Box::pin(async move {
                    let verdict = pending.await;
                    report(|facts| facts.limiter.decisions.push(decision(checked, &verdict)));
                    verdict
                }))
            }
        }
    }

    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        self.store.settle(check, more, counted_at_us);
    }
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
