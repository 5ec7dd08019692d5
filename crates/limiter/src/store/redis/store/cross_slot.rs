//! Decisions under rules with keys in different slots of a cluster, which no single call can decide.
//!
//! Slots are called in their order, with one call for the rules of each slot. While all rules allow, the calls take the
//! cost of the request. Once a rule denies, the remaining calls only look, and the cost taken so far is returned. So of
//! requests that compete for the last tokens of equal rules, the first to reach the first slot is admitted, as it would
//! be by one call.
//!
//! Such a decision costs one round trip for each slot, within one deadline. A denied request's tokens are returned one
//! round trip later, [`RedisSettings::timeout`] at most. Until then other requests see them taken and may be denied.
//! The return is tried once, and Redis ignores it if it is late. If it fails, or the process ends before it, a key has less
//! by the cost of one request until the rule refills it. More than the rules admit never passes.
//!
//! [`RedisSettings::timeout`]: crate::store::redis::RedisSettings::timeout

use std::collections::BTreeMap;
use std::sync::Arc;

use super::RedisStore;
use crate::store::fallback::Fallback;
use crate::store::redis::client::Request;
use crate::store::redis::command;
use crate::store::redis::hash_slot::HashSlot;
use crate::store::{Check, Decision, OwnedCheck};
use crate::verdict::{Outcome, RuleVerdict, Source, Verdict};

/// Indices of checks, by the slots of their keys.
type ChecksBySlot = BTreeMap<HashSlot, Vec<usize>>;

/// Costs that were taken; returned on drop.
struct TakenCosts<'a> {
    store: &'a RedisStore,
    checks: &'a [OwnedCheck],
    /// Index of each check, and the time at which its cost was counted.
    taken: Vec<(usize, u64)>,
}

impl RedisStore {
    /// Slots of `checks` in a cluster, if there are several.
    pub(super) fn slots(&self, checks: &[Check<'_>]) -> Option<ChecksBySlot> {
        if checks.len() < 2 || !self.client.topology().is_cluster() {
            return None;
        }
        let mut slots = ChecksBySlot::new();
        for (index, check) in checks.iter().enumerate() {
            slots.entry(self.slot(check)).or_default().push(index);
        }
        (slots.len() > 1).then_some(slots)
    }

    /// Decides `checks` slot by slot.
    pub(super) fn decide_cross_slot(&self, checks: &[Check<'_>], slots: ChecksBySlot, fallback: Fallback) -> Decision {
        // If one node is unreachable, nothing is taken from the others.
        let Ok(requests) = self.client.requests(slots.keys().copied()) else {
            return Decision::Ready(fallback.decide());
        };
        let requests: Vec<(Request, Vec<usize>)> = requests.into_iter().zip(slots.into_values()).collect();
        let (store, checks): (_, Vec<OwnedCheck>) = (self.clone(), checks.iter().map(OwnedCheck::of).collect());
        Decision::Pending(Box::pin(async move {
            match store.call_slots(&checks, requests).await {
                Some(verdict) => verdict,
                None => fallback.decide(),
            }
        }))
    }

    async fn call_slots(&self, checks: &[OwnedCheck], requests: Vec<(Request, Vec<usize>)>) -> Option<Verdict> {
        let mut rule_verdicts: Vec<Option<RuleVerdict>> = vec![None; checks.len()];
        let mut costs = TakenCosts { store: self, checks, taken: Vec::new() };
        let mut admitted = true;
        for (mut request, indices) in requests {
            let of_slot: Vec<_> = indices.iter().map(|&index| checks[index].check()).collect();
            let call = if admitted {
                command::decide(&of_slot, &[], &self.options)
            } else {
                command::look(&of_slot, &self.options)
            };
            let replies =
                request.decide(Arc::new(call), |reply| command::rule_verdicts(reply, of_slot.len())).await.ok()?;
            let allowed = replies.iter().all(|rule_verdict| rule_verdict.outcome == Outcome::Allowed);
            for (&index, rule_verdict) in indices.iter().zip(replies) {
                if admitted && allowed {
                    costs.taken.push((index, rule_verdict.counted_at_us));
                }
                rule_verdicts[index] = Some(rule_verdict);
            }
            admitted &= allowed;
        }
        if admitted {
            costs.taken.clear();
        }
        for &(index, _) in &costs.taken {
            if let (Some(rule_verdict), check) = (&mut rule_verdicts[index], &checks[index]) {
                rule_verdict.remaining = rule_verdict.remaining.saturating_add(check.cost).min(check.rule.capacity());
            }
        }
        let capacities = checks.iter().map(|check| check.rule.capacity());
        Verdict::combine(rule_verdicts.into_iter().collect::<Option<_>>()?, capacities, Source::Redis)
    }
}

impl Drop for TakenCosts<'_> {
    fn drop(&mut self) {
        for &(index, counted_at_us) in &self.taken {
            self.store.return_cost(self.checks[index].check(), counted_at_us, counted_at_us);
        }
    }
}
