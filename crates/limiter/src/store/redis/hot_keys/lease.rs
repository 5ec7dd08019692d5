//! One lease: requests taken from Redis in advance.
//!
//! Leased requests count as taken in Redis, so that no other gateway admits them. A window must still not admit more than
//! without leases: a full bucket loses tokens that flow in. `spare` tokens that had stayed in Redis would be lost from the
//! moment the bucket was full. So at any time at most as many may be used, or returned, as flow in until the bucket is
//! full again by Redis' count (`reset_after`). That moment counts from when the call was sent, which is never too late;
//! tokens that others take meanwhile only postpone it. Each lease has its own moment: a later lease's is later by all that
//! it took. Spare requests of a window end with the window.

use std::time::Duration;

use crate::rule::{Flow, Rule};
use crate::store::redis::command::LeaseTimes;
use crate::store::redis::micros;
use crate::verdict::RuleVerdict;

/// Requests that one call took beyond those that waited.
#[derive(Clone, Debug)]
pub(super) struct Lease {
    spare: u64,
    since_us: u64,
    until_us: u64,
    limits: Box<[RuleLimit]>,
}

/// Bound that one rule sets to a lease.
#[derive(Clone, Debug)]
struct RuleLimit {
    /// Refill of a bucket; `None`: a window, which ends in one moment.
    flow: Option<Flow>,
    /// Time at which the bucket is full, or the window over.
    over_at_us: u64,
    cost: u64,
    rule_verdict: RuleVerdict,
}

impl Lease {
    /// Creates a lease of `spare` requests. `rules` are the rules and costs of a request; `rule_verdicts` is the reply to a call
    /// sent at `sent_us`. The lease lasts `duration_us` from then on.
    pub(super) fn new<'r>(
        rules: impl Iterator<Item = (&'r Rule, u64)>,
        rule_verdicts: &[RuleVerdict],
        spare: u64,
        sent_us: u64,
        duration_us: u64,
    ) -> Self {
        let limit = |((rule, cost), rule_verdict): ((&Rule, u64), &RuleVerdict)| RuleLimit {
            flow: match rule {
                Rule::TokenBucket(bucket) | Rule::Gcra(bucket) => Some(*bucket.flow()),
                _ => None,
            },
            over_at_us: sent_us.saturating_add(micros(rule_verdict.reset_after)),
            cost: cost.max(1),
            rule_verdict: *rule_verdict,
        };
        let limits = rules.zip(rule_verdicts).map(limit).collect();
        Self { spare, since_us: sent_us, until_us: sent_us.saturating_add(duration_us), limits }
    }

    /// Returns the time at which the lease ends.
    pub(super) fn until_us(&self) -> u64 {
        self.until_us
    }

    /// Returns the number of requests that may be used, or returned, at `now_us`.
    fn available(&self, now_us: u64) -> u64 {
        self.limits.iter().map(|limit| limit.available(now_us)).fold(self.spare, u64::min)
    }

    /// Uses one request. The verdicts report the requests left in the lease: others may have taken any part of those left
    /// in Redis, so that is the least that is left.
    pub(super) fn take(&mut self, now_us: u64) -> Option<Vec<RuleVerdict>> {
        // An earlier time: a test set its clock back.
        if !(self.since_us..self.until_us).contains(&now_us) {
            return None;
        }
        let requests_left = self.available(now_us).checked_sub(1)?;
        // Tokens beyond the bucket's size are lost.
        self.spare = requests_left;
        let rule_verdict = |limit: &RuleLimit| RuleVerdict {
            remaining: requests_left.saturating_mul(limit.cost),
            reset_after: Duration::from_micros(limit.over_at_us.saturating_sub(now_us)),
            ..limit.rule_verdict
        };
        Some(self.limits.iter().map(rule_verdict).collect())
    }

    /// Ends the lease. Returns how many requests to return if Redis receives them by `by_us`, and the times of the lease on
    /// Redis' clock: it granted the lease after the call was sent, so no less time is left there.
    pub(super) fn end(&mut self, by_us: u64) -> (u64, LeaseTimes) {
        let requests_left = self.available(by_us);
        self.spare = 0;
        let granted_us = self.limits.first().map_or(0, |limit| limit.rule_verdict.counted_at_us);
        (
            requests_left,
            LeaseTimes { granted_us, due_us: granted_us.saturating_add(by_us.saturating_sub(self.since_us)) },
        )
    }
}

impl RuleLimit {
    fn available(&self, now_us: u64) -> u64 {
        let until_over_us = self.over_at_us.saturating_sub(now_us);
        match &self.flow {
            // One tick less: the bucket is full within that tick, not at its end.
            Some(flow) => flow.tokens_in(until_over_us.saturating_sub(flow.tick_us)) / self.cost,
            None if until_over_us > 0 => u64::MAX,
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests;
