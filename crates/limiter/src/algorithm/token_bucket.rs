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
//!
//! A bucket that refills in steps keeps the same debt, and counts it at the last step.

mod debt;
mod steps;

use serde::{Deserialize, Serialize};

use self::debt::Debt;
use super::{Algorithm, Moment, RuleVerdict, State};
use crate::rule::{Flow, TokenBucket};

/// State of a bucket that is not full.
///
/// If the bucket refills in steps, `full_at` is the step that fills it, and `rem` is less than the units of a step.
///
/// Its debt at a time `t` is `(full_at - t) * per_tick - rem` units, and 0 from `full_at` on. The flow is the one
/// under which the tokens were spent. The state holds no level, so a rule with another burst finds the same debt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Time at which the bucket is full again: microseconds, rounded up to a whole tick, or step. Steps on the wall clock have
    /// the highest bit set.
    pub(crate) full_at_us: u64,
    /// Id of the flow.
    pub(crate) flow: u32,
    /// Units added by rounding `full_at_us` up; fewer than are added per tick.
    pub(crate) rem: u32,
}

impl Algorithm for TokenBucket {
    type State = Bucket;
    type Change = Bucket;

    #[inline(always)]
    fn is_own(&self, state: &Bucket) -> bool {
        self.flow().step_us == 0 && state.flow == self.flow().id
    }

    /// A denial writes in two cases: if the rate changed, so that the new rate applies from now on, and if the clock was
    /// set back.
    #[inline(always)]
    fn decide(&self, state: Option<&Bucket>, now: Moment, cost: u64) -> (RuleVerdict, Option<Bucket>) {
        match state {
            _ if self.flow().step_us > 0 => self.decide_in_steps(state, now, cost),
            Some(bucket) if bucket.flow != self.flow().id => self.decide_another(bucket, now, cost),
            _ => self.decide_with(Debt::of_present_rule(state, self, now.now_us), self.flow(), now, cost),
        }
    }

    /// A return is reduced by the refill since the request, which a full bucket would have had in vain. So costs that are
    /// returned late admit no more than if they had been known at first.
    fn settle(&self, state: Option<&Bucket>, now: Moment, more: i64, counted_at_us: u64) -> Option<Bucket> {
        if self.flow().step_us > 0 {
            return self.settle_in_steps(state, now, more, counted_at_us);
        }
        let (debt, flow) = match state {
            Some(bucket) if bucket.flow != self.flow().id => Debt::of_another(bucket, self, now),
            _ => (Debt::of_present_rule(state, self, now.now_us), *self.flow()),
        };
        let units = u128::from(more.unsigned_abs()) * u128::from(flow.units);
        let bounded = |units: u128| u64::try_from(units).unwrap_or(u64::MAX);
        let owes = if more < 0 {
            let ticks = flow.ticks(now.now_us).saturating_sub(flow.ticks(counted_at_us));
            let refilled = u128::from(ticks) * u128::from(flow.per_tick);
            debt.owed.saturating_sub(bounded(units.saturating_sub(refilled)))
        } else {
            debt.owed.saturating_add(bounded(units)).min(debt.capacity.max(debt.owed))
        };
        (owes != debt.owed || debt.is_stale).then(|| self.owing(owes, &debt, &flow, now.now_us))
    }

    #[inline]
    fn apply(_: Option<Bucket>, change: Bucket) -> Bucket {
        change
    }
}

impl TokenBucket {
    /// Decides by the state of another rule.
    #[cold]
    #[inline(never)]
    fn decide_another(&self, bucket: &Bucket, now: Moment, cost: u64) -> (RuleVerdict, Option<Bucket>) {
        let (debt, flow) = Debt::of_another(bucket, self, now);
        self.decide_with(debt, &flow, now, cost)
    }

    /// Decides a request of `cost` tokens by a debt in units of `flow`.
    #[inline(always)]
    fn decide_with(&self, debt: Debt, flow: &Flow, now: Moment, cost: u64) -> (RuleVerdict, Option<Bucket>) {
        let level = debt.capacity.saturating_sub(debt.owed);
        // Bounded by the burst so that the product does not overflow.
        let need = cost.min(self.burst_capacity() + 1).saturating_mul(flow.units);
        if need <= level {
            let bucket = self.owing(debt.owed + need, &debt, flow, now.now_us);
            let reset_after_us = bucket.full_at_us.saturating_sub(now.now_us);
            let verdict = RuleVerdict::allowed(flow.whole_tokens(level - need), reset_after_us, now);
            return (verdict, (need > 0 || debt.is_stale).then_some(bucket));
        }
        let unchanged = self.owing(debt.owed, &debt, flow, now.now_us);
        let short = (debt.owed + need).saturating_sub(debt.capacity);
        let retry_after_us = (cost <= self.burst_capacity()).then(|| flow.wait_us(short, now.now_us));
        let reset_after_us = unchanged.full_at_us.saturating_sub(now.now_us);
        let verdict = RuleVerdict::denied(flow.whole_tokens(level), retry_after_us, reset_after_us, now);
        (verdict, debt.is_stale.then_some(unchanged))
    }

    /// Returns the state of a bucket that owes `owed` units of `flow` after a decision by `debt`.
    #[inline(always)]
    fn owing(&self, owed: u64, debt: &Debt, flow: &Flow, now_us: u64) -> Bucket {
        let bound = if owed <= debt.capacity { self.burst_capacity() } else { debt.bound };
        let id = if flow.bound == bound { flow.id } else { flow.bounded(bound).id };
        let per_tick = u64::from(flow.per_tick);
        let full_in = owed.div_ceil(per_tick);
        let rem = full_in * per_tick - owed;
        debug_assert!(rem < per_tick || full_in == 0, "the remainder is less than the units per tick");
        let full_at_us = flow.ticks(now_us).saturating_add(full_in).saturating_mul(flow.tick_us);
        Bucket { full_at_us, flow: id, rem: rem as u32 }
    }
}

impl State for Bucket {
    const EMPTY: Self = Self { full_at_us: 0, flow: 0, rem: 0 };

    #[inline]
    fn expires_at_us(&self) -> u64 {
        self.full_at_us
    }

    #[inline]
    fn is_expired(&self, now: Moment) -> bool {
        if self.is_on_wall_clock() { self.is_over_on_wall_clock(now) } else { self.full_at_us <= now.now_us }
    }

    fn renumber(&mut self, flows: &[u32]) -> bool {
        let flow = flows.get(self.flow as usize);
        self.flow = flow.copied().unwrap_or_default();
        flow.is_some()
    }
}

impl Bucket {
    /// Returns the debt at `now_us` in units of the state's flow. It saturates if the clock jumped far back.
    #[inline]
    fn debt(&self, flow: &Flow, now_us: u64) -> u64 {
        let full_in = flow.ticks(self.full_at_us).saturating_sub(flow.ticks(now_us));
        full_in.saturating_mul(u64::from(flow.per_tick)).saturating_sub(u64::from(self.rem))
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
