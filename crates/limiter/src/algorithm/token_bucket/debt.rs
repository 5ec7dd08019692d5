//! Debt of a bucket under the present rule, whichever rule wrote it.
//!
//! Debt survives any rule. A smaller burst does not reduce it: the balance is negative until it is refilled. A changed
//! rate applies from the decision that finds it; the time before is refilled at the rate of the last writer.
//!
//! Rules may count in different units. Between equal rates, the debt stays in its units if it has no exact value in the
//! others. Between different rates, it is rounded up by less than one unit, which is refilled within a tick.

use super::Bucket;
use crate::algorithm::Moment;
use crate::rule::{Flow, MAX_SAFE_INTEGER, TokenBucket, greatest_common_divisor};

/// Spent tokens that are not refilled yet, in units of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Debt {
    /// Units to refill.
    pub(super) owed: u64,
    /// Burst of the present rule, in units.
    pub(super) capacity: u64,
    /// Largest debt in tokens that the state can hold.
    pub(super) bound: u64,
    /// True if the state must be written even if nothing is spent: its rate changed, or the clock was set back.
    pub(super) is_stale: bool,
}

impl Debt {
    /// Returns the debt of a state of the present rule. A clock that was set back leaves at most one burst.
    #[inline(always)]
    pub(super) fn of_present_rule(state: Option<&Bucket>, rule: &TokenBucket, now_us: u64) -> Self {
        let owed = state.map_or(0, |bucket| bucket.debt(rule.flow(), now_us));
        let (capacity, bound) = (rule.capacity(), rule.burst_capacity());
        Self { owed: owed.min(capacity), capacity, bound, is_stale: owed > capacity }
    }

    /// Returns the debt of a state of another rule, and the flow that counts it from now on.
    #[cold]
    pub(super) fn of_another(bucket: &Bucket, rule: &TokenBucket, now: Moment) -> (Self, Flow) {
        let (rule_flow, now_us) = (rule.flow(), now.now_us);
        let old = Flow::with_id(bucket.flow).unwrap_or(*rule_flow);
        let most = old.most_debt();
        let has_steps = old.step_us > 0;
        let stored_debt = if has_steps { bucket.debt_between_steps(&old, now) } else { bucket.debt(&old, now_us) };
        let (owed, is_set_back) = (stored_debt.min(most), stored_debt > most);
        let (capacity, bound) = (rule.capacity(), rule.burst_capacity());
        if owed == 0 {
            return (Self { owed, capacity, bound, is_stale: is_set_back }, *rule_flow);
        }
        let bound = old.bound;
        // Longer ticks begin with each step.
        if rule_flow.counts_like(&old) && !(has_steps && old.tick_us > 1) {
            return (Self { owed, capacity, bound, is_stale: is_set_back }, *rule_flow);
        }
        let converted = Converted::new(owed, &old, rule_flow, now_us);
        let is_stale = is_set_back || !(converted.is_same_rate && converted.is_exact);
        if has_steps {
            return (Self { owed: converted.bounded(rule_flow), capacity, bound, is_stale }, *rule_flow);
        }
        let old_capacity = rule.burst_capacity().saturating_mul(old.units);
        let fits_old = old_capacity <= old.max_units();
        if converted.units > rule_flow.max_units().into() || converted.is_same_rate && !converted.is_exact && fits_old {
            let capacity = old_capacity.min(old.max_units());
            return (Self { owed, capacity, bound, is_stale: is_set_back }, old);
        }
        (Self { owed: converted.units as u64, capacity, bound, is_stale }, *rule_flow)
    }
}

/// Debt in units of another flow.
pub(super) struct Converted {
    units: u128,
    is_exact: bool,
    is_same_rate: bool,
}

impl Converted {
    /// Converts `owed` units of `from` at `now_us`, rounded up.
    pub(super) fn new(owed: u64, from: &Flow, to: &Flow, now_us: u64) -> Self {
        let divisor = greatest_common_divisor(from.units, to.units);
        let (up, down) = (u128::from(to.units / divisor), u128::from(from.units / divisor));
        let whole = u128::from(owed / from.units) * u128::from(to.units);
        let part = u128::from(owed % from.units) * up;
        // Scripts count exactly up to this number. Beyond it, the part counts as a whole token.
        let is_counted = part <= MAX_SAFE_INTEGER.into();
        let is_exact = is_counted && part.is_multiple_of(down);
        let part = if is_counted { part.div_ceil(down) } else { to.units.into() };
        let (rate, to_rate) = (u128::from(from.per_tick) * up, u128::from(to.per_tick) * down);
        let has_steps = from.step_us > 0 || to.step_us > 0;
        let is_same_tick = from.tick_us == to.tick_us && (to.tick_us == 1 || !has_steps);
        let is_same_rate = is_same_tick && rate == to_rate && rate <= MAX_SAFE_INTEGER.into();
        // The first tick of the other length has begun, and part of it was refilled at the old rate.
        let is_begun = !is_same_tick && to.step_us == 0 && !now_us.is_multiple_of(to.tick_us);
        let begun = if is_begun { to.per_tick.into() } else { 0 };
        Self { units: whole + part + begun, is_exact, is_same_rate }
    }

    /// Returns the units, at most those that `to` counts exactly.
    pub(super) fn bounded(&self, to: &Flow) -> u64 {
        u64::try_from(self.units).unwrap_or(u64::MAX).min(to.max_units())
    }
}
