//! What an algorithm's definition says, and whether an answer keeps to it.
//!
//! A model answers only whether a cost fits at a time, and how much does. That a promised wait is the right one is not
//! computed but tried: the request fits that much later, and not a microsecond earlier.

use std::time::Duration;

use tollgate_limiter::rule::Rule;
use tollgate_limiter::verdict::{Outcome, RuleVerdict};

use super::rng::Rng;

/// One algorithm: how its rules are made up and what a key's model is.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// Its name, for whom a trace fails.
    pub(crate) name: &'static str,
    /// A rule, of few numbers, so that they coincide often.
    pub(crate) rule: fn(&mut Rng) -> Rule,
    /// A key that nobody asked for.
    pub(crate) key: fn() -> Box<dyn Model>,
    /// The most that may be admitted of one key within `time` µs, both ends included.
    pub(crate) bound: fn(&Rule, time: u64) -> u128,
}

/// What was spent under one key, by the definition of the algorithm. Times are µs since 1970.
pub(crate) trait Model: Send {
    /// Takes notice that the key was asked for under `rule`: a changed rule, or a clock that was set back, counts from
    /// now on. Whoever asks the questions below has done so before.
    fn seen(&mut self, rule: &Rule, now: u64);

    /// How much more fits.
    fn left(&self, rule: &Rule, now: u64) -> u64;

    /// Whether a request fits that costs so much.
    fn fits(&self, rule: &Rule, now: u64, cost: u64) -> bool {
        cost <= self.left(rule, now)
    }

    /// Whether a request that does not fit never will.
    fn never(&self, rule: &Rule, cost: u64) -> bool {
        cost > rule.capacity()
    }

    /// How long an admitted request waits for its turn.
    fn delay(&self, _rule: &Rule, _now: u64, _cost: u64) -> u64 {
        0
    }

    /// Takes what fits.
    fn take(&mut self, rule: &Rule, now: u64, cost: u64);

    /// Takes `more`, as much as fits, or gives back what was taken at `taken_at`, as far as it still counts.
    fn settle(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64);

    /// Until when something of what was spent counts; 0 if nothing was spent.
    fn spent_until(&self, rule: &Rule) -> u64;

    /// From when on the key may be forgotten.
    fn rests_at(&self, rule: &Rule) -> u64 {
        self.spent_until(rule)
    }

    fn boxed(&self) -> Box<dyn Model>;
}

/// One rule's part in a decision, and what it leaves.
pub(crate) struct Trial {
    pub(crate) fits: bool,
    /// The key as it was found.
    found: Box<dyn Model>,
    /// The same with the cost taken, if it fits.
    taken: Box<dyn Model>,
    delay: u64,
}

impl Trial {
    pub(crate) fn new(key: &dyn Model, rule: &Rule, now: u64, cost: u64) -> Self {
        let mut found = key.boxed();
        found.seen(rule, now);
        let fits = found.fits(rule, now, cost);
        let delay = if fits { found.delay(rule, now, cost) } else { 0 };
        let mut taken = found.boxed();
        if fits {
            taken.take(rule, now, cost);
        }
        Self { fits, found, taken, delay }
    }

    /// Whether `answer` says what the definition does, if the whole request was `admitted` or not.
    pub(crate) fn check(
        &self,
        rule: &Rule,
        now: u64,
        cost: u64,
        admitted: bool,
        answer: &RuleVerdict,
    ) -> Result<(), String> {
        let never = !self.fits && self.found.never(rule, cost);
        match answer.outcome {
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
        if answer.remaining != left {
            return Err(format!("{} remain, not {left}", answer.remaining));
        }
        // Where another rule denies, this is when it would be reset if the request were admitted.
        let reset = self.taken.spent_until(rule).saturating_sub(now);
        if micros(answer.reset_after) != reset {
            return Err(format!("reset after {} µs, not {reset}", answer.reset_after.as_micros()));
        }
        if micros(answer.delay) != self.delay {
            return Err(format!("a turn after {} µs, not {}", answer.delay.as_micros(), self.delay));
        }
        Ok(())
    }

    /// What is kept of the key; `None` if it stays as it was.
    pub(crate) fn kept(self, admitted: bool) -> Option<Box<dyn Model>> {
        match (self.fits, admitted) {
            (true, true) => Some(self.taken),
            (true, false) => None,
            (false, _) => Some(self.found),
        }
    }
}

/// Which of the answers stands nearest to denying: see `Verdict`.
pub(crate) fn nearest(answers: &[(RuleVerdict, u64)]) -> usize {
    let nearer = |(a, of_a): &(RuleVerdict, u64), (b, of_b): &(RuleVerdict, u64)| {
        let rank = |outcome: Outcome| match outcome {
            Outcome::Allowed => (0, Duration::ZERO),
            Outcome::Denied { retry_after } | Outcome::StoreUnavailable { retry_after } => (1, retry_after),
            Outcome::NeverAdmitted => (2, Duration::ZERO),
        };
        let part = |answer: &RuleVerdict, of: u64| match answer.outcome {
            Outcome::Allowed => (u128::from(of.saturating_sub(answer.remaining)), u128::from(of.max(1))),
            _ => (0, 1),
        };
        let ((spent_a, of_a), (spent_b, of_b)) = (part(a, *of_a), part(b, *of_b));
        (rank(a.outcome), spent_a * of_b) > (rank(b.outcome), spent_b * of_a)
    };
    (1..answers.len()).fold(0, |best, at| if nearer(&answers[at], &answers[best]) { at } else { best })
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}
