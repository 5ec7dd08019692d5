//! Requests that are paid for and not made yet.
//!
//! What is held here counts as taken in Redis, so nobody else admits it, and no window may hold more than it would have
//! without: a full bucket lets flow over what nobody takes. `spare` tokens that stayed in it would have been lost from
//! when it was full on, so at any time at most as many may be spent, or given back, as flow in until the bucket is full
//! again as Redis counts it (`reset_after`). That moment is reckoned from when the question was sent, which is never
//! too late, and what others take meanwhile only puts it off. With several leases each holds to its own moment: the
//! later one's is later by all that it took. A window's spare ends with the window.

use std::time::Duration;

use crate::rule::{Flow, Rule};
use crate::verdict::RuleVerdict;

/// What one call brought more than there were requests.
#[derive(Clone, Debug)]
pub(super) struct Lease {
    spare: u64,
    since_us: u64,
    until_us: u64,
    terms: Box<[Term]>,
}

/// What one rule says of it.
#[derive(Clone, Debug)]
struct Term {
    /// `None`: a window, which is over in one moment.
    flow: Option<Flow>,
    /// When nothing is taken any more: the bucket is full, the window over.
    over_at_us: u64,
    cost: u64,
    answer: RuleVerdict,
}

/// Whether a rule's tokens can be held outside of Redis.
pub(in super::super) fn is_leasable(rule: &Rule) -> bool {
    matches!(rule, Rule::TokenBucket(_) | Rule::Gcra(_) | Rule::FixedWindow(_))
}

impl Lease {
    /// `spare` requests under rules that each cost so much, as Redis answered to a call that was sent at `sent_us`; for
    /// `lasts_us` from then on.
    pub(super) fn new<'r>(
        rules: impl Iterator<Item = (&'r Rule, u64)>,
        answers: &[RuleVerdict],
        spare: u64,
        sent_us: u64,
        lasts_us: u64,
    ) -> Self {
        let term = |((rule, cost), answer): ((&Rule, u64), &RuleVerdict)| Term {
            flow: match rule {
                Rule::TokenBucket(bucket) | Rule::Gcra(bucket) => Some(*bucket.flow()),
                _ => None,
            },
            over_at_us: sent_us.saturating_add(micros(answer.reset_after)),
            cost: cost.max(1),
            answer: *answer,
        };
        let terms = rules.zip(answers).map(term).collect();
        Self { spare, since_us: sent_us, until_us: sent_us.saturating_add(lasts_us), terms }
    }

    /// When it ends.
    pub(super) fn until_us(&self) -> u64 {
        self.until_us
    }

    /// How many of them may be made, or given back, at `now_us`.
    fn left(&self, now_us: u64) -> u64 {
        self.terms.iter().map(|term| term.left(now_us)).fold(self.spare, u64::min)
    }

    /// Makes one of them. The answers say how many are left here: of what is left in Redis others may have taken any
    /// part meanwhile, so that is the least that is left.
    pub(super) fn spend(&mut self, now_us: u64) -> Option<Vec<RuleVerdict>> {
        // A time before it: a test's clock was set back.
        if !(self.since_us..self.until_us).contains(&now_us) {
            return None;
        }
        let left = self.left(now_us).checked_sub(1)?;
        // What flowed over until now is lost.
        self.spare = left;
        let answer = |term: &Term| RuleVerdict {
            remaining: left.saturating_mul(term.cost),
            reset_after: Duration::from_micros(term.over_at_us.saturating_sub(now_us)),
            ..term.answer
        };
        Some(self.terms.iter().map(answer).collect())
    }

    /// Ends it. Returns how many are given back if Redis hears of it by `by_us`, and when they were counted under each
    /// rule.
    pub(super) fn end(&mut self, by_us: u64) -> (u64, Vec<u64>) {
        let left = self.left(by_us);
        self.spare = 0;
        (left, self.terms.iter().map(|term| term.answer.counted_at_us).collect())
    }
}

impl Term {
    fn left(&self, now_us: u64) -> u64 {
        let until_over_us = self.over_at_us.saturating_sub(now_us);
        match &self.flow {
            // A tick less: the bucket is full within that tick, not at its end.
            Some(flow) => flow.tokens_in(until_over_us.saturating_sub(flow.tick_us)) / self.cost,
            None if until_over_us > 0 => u64::MAX,
            None => 0,
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
