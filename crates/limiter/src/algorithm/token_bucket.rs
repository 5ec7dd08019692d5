//! Token bucket, exact in whole numbers. GCRA makes the same decisions.
//!
//! Tokens are counted in units. A whole number of units is added per microsecond (see the rule's flow), so no decision
//! rounds. Example: at 3 tokens per second, a token is 1,000,000 units, and 3 units are added per microsecond.
//!
//! Spring Cloud Gateway's `RedisRateLimiter` counts whole seconds and admits `burst + rate` requests within milliseconds
//! around the boundary of a second. This one never admits more than `burst + rate * T` in any stretch of `T` seconds.
//!
//! The state is the time at which the bucket is full again, like the theoretical arrival time of GCRA. A full bucket
//! equals no bucket, so a sweep can drop a state by that time alone.

use super::{Algorithm, Moment, RuleVerdict, State};
use crate::rule::{Flow, TokenBucket};

/// State of a bucket that is not full.
///
/// Its deficit at a time `t` is `(full_at - t) * per_tick - rem` units, and 0 from `full_at` on. The flow is the one
/// under which the tokens were consumed, so a changed rule keeps the consumed tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Time at which the bucket is full again: microseconds, rounded up to a whole tick.
    pub(crate) full_at_us: u64,
    /// Id of the flow.
    pub(crate) flow: u32,
    /// Units added by rounding `full_at_us` up; fewer than are added per tick.
    pub(crate) rem: u32,
}

impl Algorithm for TokenBucket {
    type State = Bucket;
    type Change = Bucket;

    /// A denial writes in two cases. If the deficit exceeds the burst (a smaller burst, or a clock that was set back),
    /// the bucket becomes empty. If the state has another flow, it is converted.
    #[inline(always)]
    fn decide(&self, state: Option<&Bucket>, now: Moment, cost: u64) -> (RuleVerdict, Option<Bucket>) {
        let flow = self.flow();
        let (owed, is_stale) = state.map_or((0, false), |bucket| bucket.owed(flow, now.now_us));
        let deficit = owed.min(self.capacity());
        let level = self.capacity() - deficit;
        // Bounded by the burst so that the product does not overflow.
        let need = cost.min(self.burst_capacity() + 1).saturating_mul(flow.units);
        if need <= level {
            let bucket = Bucket::owing(deficit + need, flow, now.now_us);
            let reset_after_us = bucket.full_at_us.saturating_sub(now.now_us);
            let verdict = RuleVerdict::allowed(flow.whole_tokens(level - need), reset_after_us, now);
            return (verdict, (need > 0 || is_stale || owed > self.capacity()).then_some(bucket));
        }
        let empty = Bucket::owing(deficit, flow, now.now_us);
        let retry_after_us = (need <= self.capacity()).then(|| flow.wait_us(need - level, now.now_us));
        let reset_after_us = empty.full_at_us.saturating_sub(now.now_us);
        let verdict = RuleVerdict::denied(flow.whole_tokens(level), retry_after_us, reset_after_us, now);
        (verdict, (owed > self.capacity() || is_stale).then_some(empty))
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
    const EMPTY: Self = Self { full_at_us: 0, flow: 0, rem: 0 };

    #[inline]
    fn expires_at_us(&self) -> u64 {
        self.full_at_us
    }
}

impl Bucket {
    /// Returns the deficit in units of `flow`, and true if it was converted from another flow. It saturates if the
    /// clock jumped far back.
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

    /// Returns the state of a bucket with a deficit of `deficit` units.
    #[inline]
    fn owing(deficit: u64, flow: &Flow, now_us: u64) -> Self {
        let per_tick = u64::from(flow.per_tick);
        let full_in = deficit.div_ceil(per_tick);
        let rem = full_in * per_tick - deficit;
        debug_assert!(rem < per_tick || full_in == 0, "the remainder is less than the units per tick");
        let full_at_us = flow.ticks(now_us).saturating_add(full_in).saturating_mul(flow.tick_us);
        Self { full_at_us, flow: flow.id, rem: rem as u32 }
    }
}

impl Flow {
    /// Returns the time from `now_us` until `units` are added.
    fn wait_us(&self, units: u64, now_us: u64) -> u64 {
        let ticks = units.div_ceil(u64::from(self.per_tick));
        self.ticks(now_us).saturating_add(ticks).saturating_mul(self.tick_us).saturating_sub(now_us)
    }
}

#[cfg(test)]
mod tests;
