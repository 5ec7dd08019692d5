//! Rules whose buckets refill in steps.

use tollgate_limiter::rule::{MAX_SAFE_INTEGER, Refill, Rule, TokenBucket};

use super::super::definition::Model;
use super::{Deficit, Numbers, most, of};

/// Longest time until the last step of a debt, in µs.
const LONGEST: u128 = 1 << 52;

impl Numbers {
    /// Ticks divide the period, and the parts of a step fit into 32 bits.
    pub(super) fn in_steps(bucket: &TokenBucket) -> Self {
        let (rate, burst) = (u128::from(bucket.replenish_rate()), u128::from(bucket.burst_capacity()));
        let period = bucket.period().as_micros();
        let mut tick = 1;
        while period > tick
            && (rate * (period / tick) > u32::MAX.into() || burst * (period / tick) > MAX_SAFE_INTEGER.into())
        {
            let parts = period / tick;
            tick *= [2, 3, 5, 7].into_iter().find(|divisor| parts.is_multiple_of(*divisor)).unwrap_or(parts);
        }
        Self { flow: rate, part: period / tick, burst, tick: tick as u64, step: period as u64 }
    }
}

/// Returns the last step of the rule; steps of `interval` begin now.
fn last_step(rule: &Rule, now: u64) -> u64 {
    let step = Numbers::of(rule).step;
    match of(rule).refill() {
        Refill::Aligned { anchor_us } => now - (now + step - anchor_us) % step,
        _ => now,
    }
}

impl Deficit {
    /// Returns the parts that a step adds.
    pub(super) fn per_step(&self) -> u128 {
        self.flow * u128::from(self.step / self.tick)
    }

    /// Returns the last step of the writer, the debt at it, and the debt now, as if it was refilled continuously.
    fn at_last_step(&self, now: u64) -> (u64, i128, i128) {
        if self.step == 0 {
            let debt = self.debt_at(now) as i128;
            return (now, debt, debt);
        }
        let steps = (i128::from(now) - i128::from(self.at)).div_euclid(self.step.into());
        let at = (i128::from(self.at) + steps * i128::from(self.step)) as u64;
        let debt = self.debt as i128 - steps * self.per_step() as i128;
        let line = debt - i128::from((now - at) / self.tick) * self.flow as i128;
        (at, debt, line)
    }

    pub(super) fn debt_between_steps(&self, now: u64) -> u128 {
        let (_, debt, line) = self.at_last_step(now);
        if debt <= 0 { 0 } else { line.max(0) as u128 }
    }

    /// Finds a deficit that may have been written under another rule. If it has other steps or another rate, it is written
    /// anew: at the last step of the rule, with the refill that is still to come since then.
    pub(super) fn seen_at_step(&mut self, rule: &Rule, now: u64) {
        if let (own, true) = self.own(rule, now) {
            *self = own;
            self.bound_to(rule);
        }
    }

    /// Returns the deficit at the last step of the rule, in its numbers, and if it is written anew.
    fn own(&self, rule: &Rule, now: u64) -> (Self, bool) {
        let Numbers { flow, part, tick, step, .. } = Numbers::of(rule);
        let at_own = last_step(rule, now);
        let deficit = |debt, at| Self { debt, at, flow, part, tick, step, bound: self.bound, seen: now };
        let (at, debt, mut line) = self.at_last_step(now);
        if debt <= 0 {
            return (deficit(0, at_own), false);
        }
        let limit = (self.bound * self.part).min(most(self.flow)) as i128;
        let longest = LONGEST / u128::from(step) * flow * u128::from(step / tick);
        let longest = longest.min(MAX_SAFE_INTEGER.into()) as i128;
        let is_like = (self.flow, self.part, self.tick) == (flow, part, tick);
        let has_steps = self.step == step && is_like && line <= limit;
        if has_steps && (at == at_own || of(rule).refill() == Refill::Interval) {
            return (deficit(debt.min(longest) as u128, at), false);
        }
        line = line.min(limit);
        if !is_like {
            let converted = (line.max(0) as u128 * part).div_ceil(self.part);
            line = converted.min(most(flow)) as i128;
        }
        let debt = line + i128::from((now - at_own).div_ceil(tick)) * flow as i128;
        let debt = debt.clamp(0, longest) as u128;
        (deficit(debt, at_own), debt > 0)
    }

    /// Reduces the largest debt to the burst if it is not exceeded.
    fn bound_to(&mut self, rule: &Rule) {
        let burst = Numbers::of(rule).burst;
        if self.debt <= burst * self.part {
            self.bound = burst;
        }
    }

    /// Returns the time at which the rule finds the bucket full; 0 if it is.
    pub(super) fn full_at_step(&self, rule: &Rule) -> u64 {
        let (own, _) = self.own(rule, self.seen);
        if own.debt == 0 { 0 } else { own.rests_at(rule) }
    }

    pub(super) fn left_at_step(&self, rule: &Rule, now: u64) -> u64 {
        let (own, _) = self.own(rule, now);
        ((Numbers::of(rule).burst * own.part).saturating_sub(own.debt) / own.part) as u64
    }

    pub(super) fn take_at_step(&mut self, rule: &Rule, now: u64, cost: u128) {
        if cost > 0 {
            *self = self.own(rule, now).0;
            self.debt += cost * self.part;
            self.bound_to(rule);
        }
    }

    /// Reduces a return by the steps since the request.
    pub(super) fn settle_at_step(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        let (mut own, _) = self.own(rule, now);
        let units = u128::from(more.unsigned_abs()) * own.part;
        let steps = own.at.saturating_sub(taken_at).div_ceil(own.step);
        let returned = units.saturating_sub(u128::from(steps) * own.per_step());
        let burst = Numbers::of(rule).burst * own.part;
        let debt =
            if more < 0 { own.debt.saturating_sub(returned) } else { (own.debt + units).min(own.debt.max(burst)) };
        if debt != own.debt {
            own.debt = debt;
            own.bound_to(rule);
            *self = own;
        }
    }
}
