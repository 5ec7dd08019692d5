//! Reference models of the algorithms, and the comparison of verdicts with them.
//!
//! A model defines the cost that fits at a time. Retry delays are not computed but tried: the request fits after the delay,
//! and not a microsecond earlier.

use std::time::Duration;

use tollgate_limiter::rule::Rule;
use tollgate_limiter::verdict::{Outcome, RuleVerdict, Verdict};

use super::rng::Rng;
use super::trace::Amount;

/// Algorithm with its random rules and its model.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// Name, for failure messages.
    pub(crate) name: &'static str,
    /// Returns a random rule from few numbers, so that boundaries often coincide.
    pub(crate) rule: fn(&mut Rng) -> Rule,
    /// Returns the model of a new key.
    pub(crate) key: fn() -> Box<dyn Model>,
    /// Returns the largest cost admitted for one key within `time` µs, both ends included.
    pub(crate) bound: fn(&Rule, time: u64) -> u128,
}

/// Model of one key. Times are µs since 1970.
pub(crate) trait Model: Send {
    /// Applies `rule` and `now` to the state: a changed rule, or a clock that was set back, takes effect. Must precede the
    /// other calls.
    fn seen(&mut self, rule: &Rule, now: u64);

    /// Returns the remaining tokens.
    fn left(&self, rule: &Rule, now: u64) -> u64;

    /// Returns true if a request of `cost` fits.
    fn fits(&self, rule: &Rule, now: u64, cost: u64) -> bool {
        cost <= self.left(rule, now)
    }

    /// Returns true if a request that does not fit can never fit.
    fn never(&self, rule: &Rule, cost: u64) -> bool {
        cost > rule.capacity()
    }

    /// Returns the wait of an admitted request for its turn.
    fn delay(&self, _rule: &Rule, _now: u64, _cost: u64) -> u64 {
        0
    }

    /// Notes a request that was denied.
    fn denied(&mut self, _rule: &Rule, _now: u64) {}

    /// Consumes a cost that fits.
    fn take(&mut self, rule: &Rule, now: u64, cost: u64);

    /// Consumes up to `more` tokens, or returns tokens consumed at `taken_at` that still count.
    fn settle(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64);

    /// Applies a correction to the state as it is found.
    fn corrected(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        self.seen(rule, now);
        self.settle(rule, now, more, taken_at);
    }

    /// Applies the operation of an operator to a quota.
    fn grant(&mut self, rule: &Rule, _now: u64, _amount: Amount) {
        panic!("{rule:?} has no grants");
    }

    /// Returns the time until which a consumed token counts; 0 if there is none.
    fn spent_until(&self, rule: &Rule) -> u64;

    /// Returns the time from which the key may be dropped.
    fn rests_at(&self, rule: &Rule) -> u64 {
        self.spent_until(rule)
    }

    fn boxed(&self) -> Box<dyn Model>;
}

/// Result of one rule in a decision.
pub(crate) struct Trial {
    pub(crate) fits: bool,
    /// Key before the decision.
    found: Box<dyn Model>,
    /// Key after consuming the cost, if it fits.
    taken: Box<dyn Model>,
    delay: u64,
}

impl Trial {
    pub(crate) fn new(key: &dyn Model, rule: &Rule, now: u64, cost: u64) -> Self {
        let mut found = key.boxed();
        found.seen(rule, now);
        let fits = found.fits(rule, now, cost);
        if !fits {
            found.denied(rule, now);
        }
        let delay = if fits { found.delay(rule, now, cost) } else { 0 };
        let mut taken = found.boxed();
        if fits {
            taken.take(rule, now, cost);
        }
        Self { fits, found, taken, delay }
    }

    /// Compares `verdict` with the model, for a request that was `admitted` or not.
    pub(crate) fn check(
        &self,
        rule: &Rule,
        now: u64,
        cost: u64,
        admitted: bool,
        verdict: &RuleVerdict,
    ) -> Result<(), String> {
        let never = !self.fits && self.found.never(rule, cost);
        match verdict.outcome {
            Outcome::Allowed if self.fits => {}
            Outcome::NeverAdmitted if never => {}
            Outcome::Denied { retry_after } if !self.fits && !never => {
                let wait = micros(retry_after);
                let fits_after = |wait: u64| {
                    let mut later = self.found.boxed();
                    later.seen(rule, now + wait);
                    later.fits(rule, now + wait, cost)
                };
                if wait == 0 || !fits_after(wait) {
                    return Err(format!("after {wait} µs it does not fit yet"));
                }
                if fits_after(wait - 1) {
                    return Err(format!("it fits earlier than after {wait} µs"));
                }
            }
            other => return Err(format!("{other:?}, but fits: {}, never: {never}", self.fits)),
        }
        let left = if admitted && self.fits { &self.taken } else { &self.found }.left(rule, now);
        if verdict.remaining != left {
            return Err(format!("{} remain, not {left}", verdict.remaining));
        }
        // If another rule denies, the reset is that of an admitted request.
        let reset = self.taken.spent_until(rule).saturating_sub(now);
        if micros(verdict.reset_after) != reset {
            return Err(format!("reset after {} µs, not {reset}", verdict.reset_after.as_micros()));
        }
        if micros(verdict.delay) != self.delay {
            return Err(format!("a turn after {} µs, not {}", verdict.delay.as_micros(), self.delay));
        }
        Ok(())
    }

    /// Returns the new state of the key; `None` if it is unchanged.
    pub(crate) fn kept(self, admitted: bool) -> Option<Box<dyn Model>> {
        match (self.fits, admitted) {
            (true, true) => Some(self.taken),
            (true, false) => None,
            (false, _) => Some(self.found),
        }
    }
}

/// Returns the index of the most restrictive verdict: see `Verdict`.
pub(crate) fn nearest(answers: &[(RuleVerdict, u64)]) -> usize {
    let nearer = |(a, of_a): &(RuleVerdict, u64), (b, of_b): &(RuleVerdict, u64)| {
        let rank = |outcome: Outcome| match outcome {
            Outcome::Allowed => (0, Duration::ZERO),
            Outcome::Denied { retry_after } | Outcome::StoreUnavailable { retry_after } => (1, retry_after),
            Outcome::NeverAdmitted => (2, Duration::ZERO),
        };
        let part = |verdict: &RuleVerdict, of: u64| match verdict.outcome {
            Outcome::Allowed => (u128::from(of.saturating_sub(verdict.remaining)), u128::from(of.max(1))),
            _ => (0, 1),
        };
        let ((spent_a, of_a), (spent_b, of_b)) = (part(a, *of_a), part(b, *of_b));
        (rank(a.outcome), spent_a * of_b) > (rank(b.outcome), spent_b * of_a)
    };
    (1..answers.len()).fold(0, |best, at| if nearer(&answers[at], &answers[best]) { at } else { best })
}

/// Returns the verdict of each rule.
pub(crate) fn per_rule(verdict: &Verdict) -> Vec<RuleVerdict> {
    if !verdict.per_rule.is_empty() {
        return verdict.per_rule.to_vec();
    }
    vec![RuleVerdict {
        outcome: verdict.outcome,
        remaining: verdict.remaining.unwrap(),
        reset_after: verdict.reset_after,
        delay: verdict.delay,
        counted_at_us: verdict.counted_at_us,
    }]
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}
