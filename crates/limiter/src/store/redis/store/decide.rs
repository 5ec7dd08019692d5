//! Decisions: the first step that can decide does so, in this order.
//!
//! | Step | Where | Cost |
//! |---|---|---|
//! | lease | [`leases`](crate::store::redis::hot_keys) | no call |
//! | denial cache | [`denials`](crate::store::redis::hot_keys) | no call |
//! | coalescing | [`coalescing`](crate::store::redis::hot_keys) | a share of the call for equal requests |
//! | a call | here, or [`cross_slot`](super::cross_slot) for keys in different slots of a cluster | one call for each slot |
//!
//! The call itself may be sent in one batch with others ([`connection`](crate::store::redis::connection)).
//!
//! One call decides the enforced rules first, and then the observed ones if the request is allowed, as two calls would. It
//! is used only where it saves a call and changes nothing else. Two calls remain:
//!
//! - for keys in different slots of a cluster;
//! - with leases, which either list may have;
//! - while equal requests are in flight, since these share their calls;
//! - while a denial of the observed rules is cached, since the second call costs nothing then.
//!
//! The cache keeps a denial under the list of rules that denied. So a denial of observed rules is never found for a list
//! that has enforced rules too.

use std::sync::Arc;

use redis::Value;
use tokio::time::timeout_at;

use super::RedisStore;
use crate::store::fallback::Fallback;
use crate::store::redis::client::Request;
use crate::store::redis::command;
use crate::store::redis::hot_keys::{CheckSet, Fingerprint, Join, LeaderGuard, LeaseLookup, LeaseTerms};
use crate::store::redis::stats::Operation;
use crate::store::{Check, Decision};
use crate::verdict::{RuleVerdict, Source, Verdict};

/// One list of checks, as far as it is needed after the call.
struct Stage {
    fingerprint: Fingerprint,
    /// Cost and capacity of each check.
    numbers: Box<[(u64, u64)]>,
    fallback: Fallback,
}

/// Enforced checks of a call, and observed ones if it decides them too.
struct Stages {
    enforced: Stage,
    /// Boxed, since few limiters have them.
    observed: Option<Box<Stage>>,
}

impl RedisStore {
    /// Returns true if one call decides both lists.
    pub(super) fn decides_together(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> bool {
        let is_enforced = |check: &Check<'_>| enforced.iter().any(|other| other.key == check.key);
        let can_share = !enforced.is_empty() && !observed.is_empty() && !observed.iter().any(is_enforced);
        let is_leased = || self.lease_terms(enforced).or_else(|| self.lease_terms(observed)).is_some();
        if !can_share || is_leased() || self.slots(&[enforced, observed].concat()).is_some() {
            return false;
        }
        let (fingerprint, now_us) = (self.fingerprint(observed), self.hot_keys.now_us(&self.options));
        self.denials.find(fingerprint, observed, now_us).is_none()
    }

    /// Decides both lists: `observed` only if the same call can. A reply may be late for the turn that it assigns.
    pub(super) fn decide_once(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Decision {
        let Some(first) = enforced.first() else { return Decision::Ready(self.fallback(enforced).decide()) };
        if let Some(slots) = self.slots(enforced) {
            return self.decide_cross_slot(enforced, slots, self.fallback(enforced));
        }
        let (fingerprint, sent_us) = (self.fingerprint(enforced), self.hot_keys.now_us(&self.options));
        let terms = self.lease_terms(enforced);
        let take = |terms| self.hot_keys.leases.count_and_take(fingerprint, enforced, terms, sent_us);
        let is_hot = match terms.map(take) {
            Some(LeaseLookup::Hit(verdict)) => return Decision::Ready(verdict),
            Some(LeaseLookup::Miss { is_hot }) => is_hot,
            None => false,
        };
        if let Some(verdict) = self.denials.deny(fingerprint, enforced, sent_us) {
            return Decision::Ready(verdict);
        }
        let stages = Stages {
            enforced: self.stage(enforced, fingerprint),
            observed: (!observed.is_empty()).then(|| Box::new(self.stage(observed, self.fingerprint(observed)))),
        };
        let Ok(request) = self.client.request(Operation::Decide, || self.slot(first)) else {
            return Decision::Ready(stages.fall_back());
        };
        if !(is_hot || self.coalesce && command::can_coalesce(enforced)) {
            return self.call(request, None, [enforced, observed], stages, sent_us);
        }
        let check_set = || CheckSet::new(fingerprint, enforced, &self.options, &self.denials, terms);
        match self.hot_keys.join(fingerprint, request, is_hot, check_set) {
            Join::Leader(request, guard) => self.call(request, guard, [enforced, observed], stages, sent_us),
            Join::Follower(reply, deadline) => {
                let verdict = async move {
                    match timeout_at(deadline, reply).await {
                        Ok(Ok(Ok(verdict))) => verdict,
                        // Late, failed, or dropped: the shared call has counted it.
                        _ => stages.enforced.fallback.decide(),
                    }
                };
                Decision::Pending(Box::pin(verdict)).then_observed(self, observed)
            }
        }
    }

    /// Decides with a call of its own. `guard` lets equal requests follow meanwhile.
    fn call(
        &self,
        mut request: Request,
        guard: Option<LeaderGuard>,
        [enforced, observed]: [&[Check<'_>]; 2],
        stages: Stages,
        sent_us: u64,
    ) -> Decision {
        let sent = self.denials.sending(command::decide(enforced, observed, &self.options), sent_us);
        let (hot_keys, options, denials) = (self.hot_keys.clone(), self.options.clone(), self.denials.clone());
        Decision::Pending(Box::pin(async move {
            let verdict = request.decide(Arc::clone(&sent.call), |reply| stages.verdict(reply)).await;
            drop(guard);
            let Ok(verdict) = verdict else { return stages.fall_back() };
            let (stage, denial) = stages.last(&verdict);
            let costs = stage.numbers.iter().map(|(cost, _)| *cost);
            denials.record(stage.fingerprint, denial, costs, &sent, || hot_keys.now_us(&options));
            verdict
        }))
    }

    /// Terms under which the request may be leased; `None`: it may not.
    fn lease_terms(&self, checks: &[Check<'_>]) -> Option<LeaseTerms> {
        let duration_us = u64::try_from(self.lease?.as_micros()).ok()?;
        let can_lease = checks.iter().all(|check| Self::supports_lease(check.rule)) && command::can_coalesce(checks);
        can_lease.then(|| LeaseTerms { duration_us, gateways: self.gateways.get().get().into() })
    }

    fn fingerprint(&self, checks: &[Check<'_>]) -> Fingerprint {
        self.hot_keys.fingerprint(checks, &self.options)
    }

    fn fallback(&self, checks: &[Check<'_>]) -> Fallback {
        Fallback::new(self.on_store_failure, &self.local, checks, self.gateways.get())
    }

    fn stage(&self, checks: &[Check<'_>], fingerprint: Fingerprint) -> Stage {
        let numbers = checks.iter().map(|check| (check.cost, check.rule.capacity())).collect();
        Stage { fingerprint, numbers, fallback: self.fallback(checks) }
    }
}

impl Stages {
    /// Decides without Redis.
    fn fall_back(self) -> Verdict {
        let verdict = self.enforced.fallback.decide();
        match self.observed {
            Some(observed) if verdict.is_allowed() => verdict.with_observed(observed.fallback.decide()),
            _ => verdict,
        }
    }

    /// Verdict of a reply; `None`: the reply is invalid.
    fn verdict(&self, reply: &Value) -> Option<Verdict> {
        let (enforced, observed) = (&self.enforced, self.observed.as_deref());
        let rules = enforced.numbers.len();
        let mut rule_verdicts =
            command::rule_verdicts(reply, rules + observed.map_or(0, |observed| observed.numbers.len()))?;
        let of_observed = rule_verdicts.split_off(rules);
        let verdict = enforced.verdict(rule_verdicts)?;
        match observed {
            Some(observed) if verdict.is_allowed() => Some(verdict.with_observed(observed.verdict(of_observed)?)),
            _ => Some(verdict),
        }
    }

    /// The stage that can have denied: if the enforced rules allow, only the observed ones.
    fn last<'s>(&'s self, verdict: &'s Verdict) -> (&'s Stage, &'s Verdict) {
        match (&self.observed, &verdict.observed) {
            (Some(stage), Some(verdict)) => (stage, verdict),
            _ => (&self.enforced, verdict),
        }
    }
}

impl Stage {
    fn verdict(&self, rule_verdicts: Vec<RuleVerdict>) -> Option<Verdict> {
        Verdict::combine(rule_verdicts, self.numbers.iter().map(|(_, capacity)| *capacity), Source::Redis)
    }
}
