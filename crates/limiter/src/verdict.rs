//! Verdicts: the results of rate limit checks.

use std::sync::Arc;
use std::time::Duration;

use super::rule::Rule;

/// Decision about one request.
///
/// If several rules were checked, the fields describe the most restrictive one: among denying rules the one with the
/// longest wait, otherwise the one with the smallest fraction remaining.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Allowed or denied, with the retry delay.
    pub outcome: Outcome,
    /// Whole tokens remaining after this decision. `None` if the request was not counted because the store failed.
    pub remaining: Option<u64>,
    /// Time until the full capacity is available again.
    pub reset_after: Duration,
    /// Time for which an allowed request must wait for its turn; zero for every rule except a leaky bucket.
    pub delay: Duration,
    /// Component that decided.
    pub source: Source,
    /// Index of the rule that the fields describe, among the checked rules.
    pub rule: usize,
    /// Verdict of each rule, in the order of the checks. Empty for a single rule and for uncounted requests.
    pub per_rule: Box<[RuleVerdict]>,
    /// Time of the decision in microseconds on the store's clock, or of the turn of a leaky bucket; an argument of
    /// [`Store::settle`](super::store::Store::settle).
    pub counted_at_us: u64,
    /// Position among the decisions of the same microsecond. Decisions in memory that share a key are in the order of
    /// [`decided_at_us`](Self::decided_at_us) and this position. Redis reports 0.
    pub order: u32,
    /// Rules that decided in place of those of the checks; `None` if the store replaced none.
    pub replaced: Option<Box<ReplacedRules>>,
    /// Verdict of the observed rules; `None` if there are none, or if the enforced ones deny the request.
    pub observed: Option<Box<Self>>,
}

/// Rules that decided in place of those of the checks, by the position of the check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplacedRules(pub Vec<Option<Arc<Rule>>>);

/// Verdict of a single rule, without its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleVerdict {
    /// Allowed or denied, with the retry delay.
    pub outcome: Outcome,
    /// Whole tokens remaining.
    pub remaining: u64,
    /// Time until the full capacity is available again.
    pub reset_after: Duration,
    /// Time for which an allowed request must wait for its turn.
    pub delay: Duration,
    /// Time of the decision in microseconds, or of the turn of a leaky bucket.
    pub counted_at_us: u64,
}

/// Outcome of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Allowed; the tokens are consumed.
    Allowed,
    /// Denied; the request would be allowed after `retry_after` if no other request consumes tokens before.
    Denied {
        /// Exact time until an equal request is allowed.
        retry_after: Duration,
    },
    /// Denied forever: the cost exceeds the capacity of the rule.
    NeverAdmitted,
    /// Denied without a count: status 503, not 429. The store is unreachable (`on-store-failure: deny`), or, with the
    /// source [`Redis`](Source::Redis), other requests held the lock of the key for too long.
    StoreUnavailable {
        /// Suggested time until a retry.
        retry_after: Duration,
    },
}

crate::labelled! {
    /// Component that made a decision.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Source {
        /// The in-memory store.
        Memory = "memory",
        /// Redis.
        Redis = "redis",
        /// The denial cache, from an earlier denial by Redis that is still valid.
        DenialCache = "denial-cache",
        /// The fallback (`on-store-failure`), because Redis did not reply in time.
        Fallback = "fallback",
    }
}

// === impl RuleVerdict ===

impl RuleVerdict {
    /// Returns a verdict of `source` with these values.
    #[must_use]
    #[inline]
    pub fn into_verdict(self, source: Source) -> Verdict {
        Verdict {
            outcome: self.outcome,
            remaining: Some(self.remaining),
            reset_after: self.reset_after,
            delay: self.delay,
            source,
            rule: 0,
            per_rule: Box::default(),
            counted_at_us: self.counted_at_us,
            order: 0,
            replaced: None,
            observed: None,
        }
    }

    /// Returns a sort key: denials above allowances, by their wait; allowances by the consumed fraction of `capacity`.
    fn restrictiveness(&self, capacity: u64) -> (u8, Duration, u128) {
        match self.outcome {
            Outcome::NeverAdmitted => (2, Duration::ZERO, 0),
            Outcome::Denied { retry_after } | Outcome::StoreUnavailable { retry_after } => (1, retry_after, 0),
            Outcome::Allowed => {
                let spent = u128::from(capacity.saturating_sub(self.remaining)) << 64;
                (0, Duration::ZERO, spent / u128::from(capacity.max(1)))
            }
        }
    }
}

// === impl Verdict ===

impl Verdict {
    /// Returns true if the request is allowed.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self.outcome, Outcome::Allowed)
    }

    /// Returns true if the rule of the check at `position` denies the request, if one does.
    #[must_use]
    #[inline]
    pub fn denies(&self, position: usize) -> bool {
        self.per_rule.get(position).map_or(position == self.rule, |verdict| verdict.outcome != Outcome::Allowed)
    }

    /// Returns the time of the decision in microseconds on the store's clock; 0 if the request was not counted. Only a
    /// leaky bucket counts requests later, at their turn.
    #[must_use]
    pub fn decided_at_us(&self) -> u64 {
        let delay = self.per_rule.get(self.rule).map_or(self.delay, |rule| rule.delay);
        self.counted_at_us.saturating_sub(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX))
    }

    /// Returns the rule that decided in place of that of the check at `position`.
    #[inline]
    #[must_use]
    pub fn replaced_rule(&self, position: usize) -> Option<&Arc<Rule>> {
        self.replaced.as_ref()?.0.get(position)?.as_ref()
    }

    /// Returns this verdict of the enforced rules with that of the observed ones.
    #[must_use]
    pub fn with_observed(self, observed: Self) -> Self {
        Self { observed: Some(Box::new(observed)), ..self }
    }

    /// Combines the verdicts of all checked rules. `capacities` are the largest admitted costs, in the same order.
    #[must_use]
    pub fn combine(verdicts: Vec<RuleVerdict>, capacities: impl Iterator<Item = u64>, source: Source) -> Option<Self> {
        let strictest = verdicts.iter().zip(capacities).enumerate().max_by(|(a, (x, cx)), (b, (y, cy))| {
            // Of equally restrictive rules, the first.
            x.restrictiveness(*cx).cmp(&y.restrictiveness(*cy)).then(b.cmp(a))
        });
        let (rule, (strictest, _)) = strictest?;
        let verdict = strictest.into_verdict(source);
        let delays = verdicts.iter().map(|verdict| verdict.delay).filter(|_| verdict.is_allowed());
        let delay = delays.max().unwrap_or_default();
        let per_rule = if verdicts.len() > 1 { verdicts.into() } else { Box::default() };
        Some(Self { rule, delay, per_rule, ..verdict })
    }

    /// Returns the verdict of an uncounted request, with the source [`Fallback`](Source::Fallback).
    #[must_use]
    pub fn uncounted(outcome: Outcome) -> Self {
        Self {
            outcome,
            remaining: None,
            reset_after: Duration::ZERO,
            delay: Duration::ZERO,
            source: Source::Fallback,
            rule: 0,
            per_rule: Box::default(),
            counted_at_us: 0,
            order: 0,
            replaced: None,
            observed: None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn verdict(outcome: Outcome, remaining: u64) -> RuleVerdict {
        RuleVerdict { outcome, remaining, reset_after: Duration::ZERO, delay: Duration::ZERO, counted_at_us: 0 }
    }

    fn denied(secs: u64) -> Outcome {
        Outcome::Denied { retry_after: Duration::from_secs(secs) }
    }

    #[test]
    fn the_most_restrictive_rule_determines_the_verdict() {
        let strictest = |verdicts: &[RuleVerdict], capacities: &[u64]| {
            Verdict::combine(verdicts.to_vec(), capacities.iter().copied(), Source::Memory).unwrap().rule
        };
        let allowed = |left| verdict(Outcome::Allowed, left);
        assert_eq!(strictest(&[allowed(5), allowed(60)], &[10, 100]), 0, "half is left against six tenths");
        assert_eq!(strictest(&[allowed(5), allowed(40)], &[10, 100]), 1);
        assert_eq!(strictest(&[allowed(1), allowed(1)], &[2, 2]), 0, "the first of equals");
        assert_eq!(strictest(&[allowed(0), verdict(denied(1), 3)], &[10, 10]), 1);
        assert_eq!(strictest(&[verdict(denied(9), 0), verdict(denied(1), 0)], &[10, 10]), 0);
        assert_eq!(strictest(&[verdict(denied(9), 0), verdict(Outcome::NeverAdmitted, 0)], &[10, 10]), 1);
        assert!(Verdict::combine(Vec::new(), std::iter::empty(), Source::Memory).is_none());
    }
}
