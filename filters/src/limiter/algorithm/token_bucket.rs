//! The token bucket, exact in whole numbers.
//!
//! Tokens are counted in millionths. At `replenish_rate` tokens a second exactly `replenish_rate` millionths flow in
//! each microsecond, so no decision ever rounds: 3 requests in 1 s are 3,000,000 in 1,000,000 s.
//! Spring Cloud Gateway's `RedisRateLimiter` counts whole seconds and lets `burst + rate` requests pass within
//! milliseconds of a second's edge; this one never admits more than `burst + rate * T` in any stretch of `T` seconds.
//!
//! Kept is not the level but the moment at which the bucket is full again (as GCRA keeps its theoretical arrival time),
//! so that whoever sweeps buckets may drop one by that moment alone: a full bucket and no bucket are the same thing.

use std::time::Duration;

use crate::limiter::rule::TokenBucket;
use crate::limiter::verdict::{Outcome, Source, Verdict};

/// Millionths in a token.
const UNITS: u64 = 1_000_000;

/// What is remembered of a bucket that is not full.
///
/// Its deficit at `now_us` is `(full_at_us - now_us) * rate - rem` millionths of a token, and 0 from `full_at_us` on.
/// The rate is the one under which the tokens were spent: a rule that changes keeps what was spent, token for token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// When it is full again: microseconds, rounded up to a whole one.
    pub full_at_us: u64,
    /// Tokens a second that flow into it.
    pub rate: u32,
    /// Millionths of a token that rounding `full_at_us` up added; less than `rate`.
    pub rem: u32,
}

/// A verdict that does not say yet who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Allowed, denied for now or for ever.
    pub outcome: Outcome,
    /// Whole tokens left.
    pub remaining: u32,
    /// Time until the bucket is full.
    pub reset_after: Duration,
}

/// Decides one request that takes `cost` tokens at `now_us` (microseconds of any clock, always the same one).
///
/// `state` is what the last decision returned; `None` is a bucket that nobody touched: a full one. Returns the answer
/// and the state to keep, `None` when there is nothing to change: a denial takes nothing. A bucket that owes more than
/// a whole burst (the burst shrank, or the clock was set back) counts as empty from now on.
#[must_use]
pub fn decide(rule: &TokenBucket, state: Option<Bucket>, now_us: u64, cost: u32) -> (Answer, Option<Bucket>) {
    let capacity = u64::from(rule.burst_capacity()) * UNITS;
    let rate = rule.replenish_rate().get();
    let owed = state.map_or(0, |bucket| bucket.deficit(now_us));
    let deficit = owed.min(capacity);
    let level = capacity - deficit;
    let need = u64::from(cost) * UNITS;

    if need <= level {
        let (bucket, full_in_us) = Bucket::owing(deficit + need, rate, now_us);
        let answer = Answer {
            outcome: Outcome::Allowed,
            remaining: whole_tokens(level - need),
            reset_after: Duration::from_micros(full_in_us),
        };
        return (answer, (need > 0).then_some(bucket));
    }
    let (empty, full_in_us) = Bucket::owing(deficit, rate, now_us);
    let outcome = if need > capacity {
        Outcome::NeverAdmitted
    } else {
        Outcome::Denied { retry_after: Duration::from_micros((need - level).div_ceil(u64::from(rate))) }
    };
    let answer = Answer { outcome, remaining: whole_tokens(level), reset_after: Duration::from_micros(full_in_us) };
    (answer, (owed > capacity).then_some(empty))
}

impl Bucket {
    /// Whether it may be forgotten: it is full.
    #[must_use]
    pub fn is_full(&self, now_us: u64) -> bool {
        self.full_at_us <= now_us
    }

    /// Millionths of a token that it lacks at `now_us`; saturates where a clock jumped far back.
    #[inline]
    fn deficit(&self, now_us: u64) -> u64 {
        let full_in_us = self.full_at_us.saturating_sub(now_us);
        full_in_us.saturating_mul(u64::from(self.rate)).saturating_sub(u64::from(self.rem))
    }

    /// The bucket that lacks `deficit` millionths at `now_us`, and the microseconds until it is full.
    #[inline]
    fn owing(deficit: u64, rate: u32, now_us: u64) -> (Self, u64) {
        let full_in_us = deficit.div_ceil(u64::from(rate));
        let rem = full_in_us * u64::from(rate) - deficit;
        debug_assert!(rem < u64::from(rate) || full_in_us == 0, "the remainder is less than a microsecond's flow");
        (Self { full_at_us: now_us.saturating_add(full_in_us), rate, rem: rem as u32 }, full_in_us)
    }
}

/// Whole tokens in `units`, which never hold more than a `u32` of them: a burst is one.
#[inline]
fn whole_tokens(units: u64) -> u32 {
    (units / UNITS) as u32
}

// === impl Answer ===

impl Answer {
    /// The verdict that `source` gives with it.
    #[must_use]
    pub fn by(self, source: Source) -> Verdict {
        Verdict { outcome: self.outcome, remaining: Some(self.remaining), reset_after: self.reset_after, source }
    }
}

#[cfg(test)]
mod tests;
