//! Enforced and observed rules in one call.
//!
//! The call decides as two calls would: first the enforced rules, then the observed ones if the request is allowed. It is
//! used only where it saves a call and changes nothing else. Two calls remain:
//!
//! - for keys in different slots of a cluster;
//! - with leases, which either list may have;
//! - while equal requests are in flight, since these share their calls;
//! - while a denial of the observed rules is cached, since the second call costs nothing then.
//!
//! The cache keeps a denial under the list of rules that denied. So a denial of observed rules is never found for a list
//! that has enforced rules too.

use super::RedisStore;
use crate::store::fallback::Fallback;
use crate::store::redis::command;
use crate::store::redis::hot_keys::Fingerprint;
use crate::store::redis::stats::Operation;
use crate::store::{Check, Decision};
use crate::verdict::{RuleVerdict, Source, Verdict};

/// Parts of one list of checks that are needed after the call.
struct Stage {
    fingerprint: Fingerprint,
    /// Cost and capacity of each check.
    numbers: Vec<(u64, u64)>,
}

impl RedisStore {
    /// Decides both lists in one call; `None` if two calls are better.
    pub(super) fn stage(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Option<Decision> {
        let first = enforced.first().filter(|_| can_stage(enforced, observed))?;
        let is_leased = self.lease_terms(enforced).or_else(|| self.lease_terms(observed)).is_some();
        if is_leased || self.slots(&[enforced, observed].concat()).is_some() {
            return None;
        }
        let stages = [self.stage_of(enforced), self.stage_of(observed)];
        let sent_us = self.hot_keys.now_us(&self.options);
        if self.denial_cache {
            if let Some(enforced) = self.hot_keys.cached_denial(stages[0].fingerprint, enforced, sent_us) {
                return Some(Decision::Ready(enforced));
            }
            if self.hot_keys.find_denial(stages[1].fingerprint, observed, sent_us).is_some() {
                return None;
            }
        }
        let guard = match self.coalesce && command::can_coalesce(enforced) {
            true => Some(self.hot_keys.lead(stages[0].fingerprint)?),
            false => None,
        };
        let fallback = |checks| Fallback::new(self.on_store_failure, &self.local, checks, self.gateways.get());
        let fallbacks = [fallback(enforced), fallback(observed)];
        let fall_back = |[enforced, observed]: [Fallback; 2]| {
            let verdict = enforced.decide();
            if verdict.is_allowed() { verdict.with_observed(observed.decide()) } else { verdict }
        };
        let Ok(request) = self.client.request(Operation::Decide, || self.slot(first)) else {
            return Some(Decision::Ready(fall_back(fallbacks)));
        };
        let call = command::decide_staged(enforced, observed, &self.options);
        let generations = self.denial_cache.then(|| self.hot_keys.generations(call.keys.iter()));
        let store = self.clone();
        Some(Decision::Pending(Box::pin(async move {
            let read = |reply: &_| {
                let [enforced, observed] = &stages;
                let mut answers = command::answers(reply, enforced.numbers.len() + observed.numbers.len())?;
                let of_observed = answers.split_off(enforced.numbers.len());
                let enforced = enforced.verdict(answers)?;
                if !enforced.is_allowed() {
                    return Some(enforced);
                }
                Some(enforced.with_observed(observed.verdict(of_observed)?))
            };
            let verdict = request.decide(call, read).await;
            drop(guard);
            let Ok(verdict) = verdict else { return fall_back(fallbacks) };
            if let Some(generations) = generations {
                let times = [sent_us, store.hot_keys.now_us(&store.options)];
                let [enforced, observed] = &stages;
                // If the enforced rules allow, only the observed ones can have denied.
                let (stage, verdict) =
                    verdict.observed.as_ref().map_or((enforced, &verdict), |verdict| (observed, &**verdict));
                let costs: Vec<u64> = stage.numbers.iter().map(|(cost, _)| *cost).collect();
                store.hot_keys.cache_denial(stage.fingerprint, verdict, &costs, generations, times);
            }
            verdict
        })))
    }

    fn stage_of(&self, checks: &[Check<'_>]) -> Stage {
        let numbers = checks.iter().map(|check| (check.cost, check.rule.capacity())).collect();
        Stage { fingerprint: self.hot_keys.fingerprint(checks, &self.options), numbers }
    }
}

/// Returns true if one call may decide both lists: none is empty, and no key is in both.
fn can_stage(enforced: &[Check<'_>], observed: &[Check<'_>]) -> bool {
    let is_enforced = |check: &Check<'_>| enforced.iter().any(|other| other.key == check.key);
    !enforced.is_empty() && !observed.is_empty() && !observed.iter().any(is_enforced)
}

impl Stage {
    fn verdict(&self, answers: Vec<RuleVerdict>) -> Option<Verdict> {
        Verdict::combine(answers, self.numbers.iter().map(|(_, capacity)| *capacity), Source::Redis)
    }
}
