//! Cache of denials.
//!
//! A denial tells how long it takes until the request could pass. Until then equal requests are denied without a call.
//! Only returned tokens can end a denial earlier (see [`invalidation`](crate::store::redis::invalidation)). No clocks of
//! two machines are compared: the time counts from when the call was sent. Redis decided later, so a cached denial never
//! outlives the real one.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::fingerprint::{Fingerprint, FingerprintMap};
use crate::rule::Rule;
use crate::store::Check;
use crate::store::redis::command::ScriptCall;
use crate::store::redis::invalidation::{Epoch, Invalidations, WatchedKeys};
use crate::store::redis::micros;
use crate::store::redis::stats::RedisStats;
use crate::verdict::{Outcome, Source, Verdict};

/// Longest time for which a denial is cached. It bounds the error where this gateway receives no notices of returned
/// tokens: the connection uses RESP2, the user may not subscribe, or another gateway limits the key by another rule.
const MAX_AGE_US: u64 = 1_000_000;

/// Half of the most denials in a cache. When the young half is full, the old half is dropped; its denials have mostly
/// expired.
const HALF: usize = 5_000;

/// A denial and its validity.
#[derive(Clone, Debug)]
struct CachedDenial {
    verdict: Verdict,
    costs: Box<[u64]>,
    /// Arrival of the reply, from which the verdict's `retry-after` counts.
    since_us: u64,
    until_us: u64,
    keys: WatchedKeys,
}

/// Call that was sent, for what is cached of its reply.
pub(crate) struct SentCall {
    pub(crate) call: Arc<ScriptCall>,
    pub(crate) sent_us: u64,
    epoch: Epoch,
}

/// Denials by keys and rules: one each, for the cost that was denied last. The default caches nothing.
#[derive(Default)]
pub(crate) struct DenialCache {
    denials: Mutex<Denials>,
    invalidations: Arc<Invalidations>,
    stats: Arc<RedisStats>,
}

#[derive(Default)]
struct Denials {
    /// Most denials in each half; 0: none is cached.
    half: usize,
    young: FingerprintMap<CachedDenial>,
    old: FingerprintMap<CachedDenial>,
}

impl CachedDenial {
    /// Caches `verdict` of a call sent at `sent_us`, with its keys since then. `None`: it is no denial, or is over already.
    fn of(verdict: &Verdict, costs: Box<[u64]>, keys: WatchedKeys, sent_us: u64, now_us: u64) -> Option<Self> {
        let until_us = sent_us.saturating_add(lasts_us(verdict)?.min(MAX_AGE_US));
        let is_valid = now_us < until_us;
        is_valid.then(|| Self { verdict: verdict.clone(), costs, since_us: now_us, until_us, keys })
    }

    /// Verdict at `now_us` on a request of the same or a higher cost; `None`: only Redis can decide.
    fn verdict(&self, checks: &[Check<'_>], now_us: u64) -> Option<Verdict> {
        // An earlier time: a test set its clock back.
        if !(self.since_us..self.until_us).contains(&now_us) || self.costs.len() != checks.len() {
            return None;
        }
        let passed = Duration::from_micros(now_us - self.since_us);
        let mut verdict = Verdict {
            outcome: after(self.verdict.outcome, passed),
            reset_after: self.verdict.reset_after.saturating_sub(passed),
            source: Source::DenialCache,
            ..self.verdict.clone()
        };
        for rule_verdict in &mut verdict.per_rule {
            rule_verdict.outcome = after(rule_verdict.outcome, passed);
            rule_verdict.reset_after = rule_verdict.reset_after.saturating_sub(passed);
        }
        if checks.iter().map(|check| check.cost).eq(self.costs.iter().copied()) {
            return Some(verdict);
        }
        // Among several rules it is unknown which one would deny the longest.
        let ([check], [cost], Outcome::Denied { retry_after }) = (checks, &*self.costs, verdict.outcome) else {
            return None;
        };
        let more = extra_wait(check.rule, check.cost.checked_sub(*cost)?)?;
        verdict.outcome = match check.cost {
            cost if cost > check.rule.capacity() => Outcome::NeverAdmitted,
            _ => Outcome::Denied { retry_after: retry_after.saturating_add(more) },
        };
        Some(verdict)
    }
}

impl DenialCache {
    pub(super) fn new(invalidations: Arc<Invalidations>, stats: Arc<RedisStats>) -> Self {
        Self { denials: Mutex::new(Denials { half: HALF, ..Denials::default() }), invalidations, stats }
    }

    /// Denies `checks` at `now_us` if a cached denial applies to them, and counts that.
    pub(crate) fn deny(&self, fingerprint: Fingerprint, checks: &[Check<'_>], now_us: u64) -> Option<Verdict> {
        let verdict = self.find(fingerprint, checks, now_us)?;
        self.stats.denial_cache_hits.increment();
        Some(verdict)
    }

    /// Verdict of a cached denial that applies to `checks`.
    pub(crate) fn find(&self, fingerprint: Fingerprint, checks: &[Check<'_>], now_us: u64) -> Option<Verdict> {
        let denials = self.denials.lock();
        let (denial, verdict) = denials.find(fingerprint, checks, now_us)?;
        self.invalidations.is_current(&denial.keys).then_some(verdict)
    }

    /// Describes a call that is about to be sent, at `sent_us`.
    pub(crate) fn sending(&self, call: ScriptCall, sent_us: u64) -> SentCall {
        SentCall { call: Arc::new(call), sent_us, epoch: self.invalidations.epoch() }
    }

    /// Caches `verdict`, the reply to `sent`, if it is a denial. `costs` are those of its rules.
    pub(crate) fn record(
        &self,
        fingerprint: Fingerprint,
        verdict: &Verdict,
        costs: impl Iterator<Item = u64>,
        sent: &SentCall,
        now_us: impl FnOnce() -> u64,
    ) {
        if lasts_us(verdict).is_none() {
            return;
        }
        let keys = self.invalidations.watch(sent.call.keys.iter(), sent.epoch);
        if let Some(denial) = CachedDenial::of(verdict, costs.collect(), keys, sent.sent_us, now_us())
            && self.invalidations.is_current(&denial.keys)
        {
            self.denials.lock().insert(fingerprint, denial);
        }
    }
}

impl Denials {
    fn find(&self, fingerprint: Fingerprint, checks: &[Check<'_>], now_us: u64) -> Option<(&CachedDenial, Verdict)> {
        let denials = [self.young.get(&fingerprint.rules), self.old.get(&fingerprint.rules)];
        denials.into_iter().flatten().find_map(|denial| Some((denial, denial.verdict(checks, now_us)?)))
    }

    fn insert(&mut self, fingerprint: Fingerprint, denial: CachedDenial) {
        if self.young.len() >= self.half {
            self.old = std::mem::take(&mut self.young);
        }
        if self.half > 0 {
            self.young.insert(fingerprint.rules, denial);
        }
    }
}

/// Time for which `verdict` lasts, if it is a denial.
fn lasts_us(verdict: &Verdict) -> Option<u64> {
    match verdict.outcome {
        Outcome::Denied { retry_after } => Some(micros(retry_after)),
        Outcome::NeverAdmitted => Some(MAX_AGE_US),
        Outcome::Allowed | Outcome::StoreUnavailable { .. } => None,
    }
}

/// Outcome after `passed`. A rule that denied for a shorter time than another one may allow by then.
fn after(outcome: Outcome, passed: Duration) -> Outcome {
    match outcome {
        Outcome::Denied { retry_after } if retry_after <= passed => Outcome::Allowed,
        Outcome::Denied { retry_after } => Outcome::Denied { retry_after: retry_after - passed },
        other => other,
    }
}

/// Additional wait of a request that costs `more`, at most a tick of the rule too long. `None`: it depends on when other
/// requests were counted, or when steps begin.
fn extra_wait(rule: &Rule, more: u64) -> Option<Duration> {
    match rule {
        rule if rule.refills_in_steps() => None,
        Rule::TokenBucket(bucket) | Rule::Gcra(bucket) => Some(Duration::from_micros(bucket.flow().us_for(more))),
        // All of it returns in one moment.
        Rule::FixedWindow(_) => Some(Duration::ZERO),
        Rule::Quota(quota) => quota.reset().is_some().then_some(Duration::ZERO),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
