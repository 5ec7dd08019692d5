//! The token bucket, exact in whole numbers; also what GCRA decides.
//!
//! Tokens are counted in units of which a whole number flows in each microsecond (see the rule's flow), so that no
//! decision ever rounds: 3 requests in 1 s are 3,000,000 units in 1,000,000 s.
//! Spring Cloud Gateway's `RedisRateLimiter` counts whole seconds and lets `burst + rate` requests pass within
//! milliseconds of a second's edge; this one never admits more than `burst + rate * T` in any stretch of `T` seconds.
//!
//! Kept is not the level but the moment at which the bucket is full again, as GCRA keeps its theoretical arrival time,
//! so that whoever sweeps buckets may drop one by that moment alone: a full bucket and no bucket are the same thing.

use super::{Algorithm, Answer, Moment, State};
use crate::rule::{Flow, TokenBucket};

/// What is remembered of a bucket that is not full.
///
/// Its deficit at a time `t` is `(full_at - t) * per_tick - rem` units, and 0 from `full_at` on, under the flow by which
/// the tokens were spent: a rule that changes keeps what was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// When it is full again: microseconds, rounded up to a whole tick.
    pub(crate) full_at_us: u64,
    /// The number of the flow into it.
    pub(crate) flow: u32,
    /// Units that rounding `full_at_us` up added; less than flow in a tick.
    pub(crate) rem: u32,
}

impl Algorithm for TokenBucket {
    type State = Bucket;
    type Change = Bucket;

    /// A denial writes when the bucket owes more than a whole burst (the burst shrank, or the clock was set back: it
    /// counts as empty from now on), or when it was spent under another flow (the new one holds from now on).
    #[inline(always)]
    fn decide(&self, state: Option<&Bucket>, now: Moment, cost: u64) -> (Answer, Option<Bucket>) {
        let flow = self.flow();
        let (owed, is_stale) = state.map_or((0, false), |bucket| bucket.owed(flow, now.now_us));
        let deficit = owed.min(self.capacity());
        let level = self.capacity() - deficit;
        // No more than the burst, or the product might be too large.
        let need = cost.min(self.burst_capacity() + 1).saturating_mul(flow.units);
        if need <= level {
            let bucket = Bucket::owing(deficit + need, flow, now.now_us);
            let reset_after_us = bucket.full_at_us.saturating_sub(now.now_us);
            let answer = Answer::allowed(flow.whole_tokens(level - need), reset_after_us, now);
            return (answer, (need > 0 || is_stale || owed > self.capacity()).then_some(bucket));
        }
        let empty = Bucket::owing(deficit, flow, now.now_us);
        let retry_after_us = (need <= self.capacity()).then(|| flow.wait_us(need - level, now.now_us));
        let reset_after_us = empty.full_at_us.saturating_sub(now.now_us);
        let answer = Answer::denied(flow.whole_tokens(level), retry_after_us, reset_after_us, now);
        (answer, (owed > self.capacity() || is_stale).then_some(empty))
    }

    fn settle(&self, state: Option<&Bucket>, now: Moment, more: i64, _: u64) -> Option<Bucket> {
        let flow = self.flow();
        let (owed, is_stale) = state.map_or((0, false), |bucket| bucket.owed(flow, now.now_us));
        let is_stale = is_stale || owed > self.capacity();
        let owed = owed.min(self.capacity());
        let units = more.unsigned_abs().min(self.burst_capacity()) * flow.units;
        let owes = if more < 0 { owed.saturating_sub(units) } else { (owed + units).min(self.capacity()) };
        (owes != owed || is_stale).then(|| Bucket::owing(owes, flow, now.now_us))
    }

    #[inline]
    fn apply(_: Option<Bucket>, change: Bucket) -> Bucket {
        change
    }
}

impl State for Bucket {
    const VACANT: Self = Self { full_at_us: 0, flow: 0, rem: 0 };

    #[inline]
    fn rests_at_us(&self) -> u64 {
        self.full_at_us
    }
}

impl Bucket {
    /// Units of `flow` that it lacks, and whether they were spent under another one; saturates where a clock jumped
    /// far back.
    #[inline]
    fn owed(&self, flow: &Flow, now_us: u64) -> (u64, bool) {
        if self.flow == flow.id {
            return (self.deficit(flow, now_us), false);
        }
        let old = Flow::with_id(self.flow).unwrap_or(*flow);
        (flow.convert(self.deficit(&old, now_us), &old), true)
    }

    #[inline]
    fn deficit(&self, flow: &Flow, now_us: u64) -> u64 {
        let full_in = flow.ticks(self.full_at_us).saturating_sub(flow.ticks(now_us));
        full_in.saturating_mul(u64::from(flow.per_tick)).saturating_sub(u64::from(self.rem))
    }

    /// The bucket that lacks `deficit` units.
    #[inline]
    fn owing(deficit: u64, flow: &Flow, now_us: u64) -> Self {
        let per_tick = u64::from(flow.per_tick);
        let full_in = deficit.div_ceil(per_tick);
        let rem = full_in * per_tick - deficit;
        debug_assert!(rem < per_tick || full_in == 0, "the remainder is less than a tick's flow");
        let full_at_us = flow.ticks(now_us).saturating_add(full_in).saturating_mul(flow.tick_us);
        Self { full_at_us, flow: flow.id, rem: rem as u32 }
    }
}

impl Flow {
    /// How long after `now_us` so many units have flown.
    fn wait_us(&self, units: u64, now_us: u64) -> u64 {
        let ticks = units.div_ceil(u64::from(self.per_tick));
        self.ticks(now_us).saturating_add(ticks).saturating_mul(self.tick_us).saturating_sub(now_us)
    }
}

#[cfg(test)]
mod tests;
