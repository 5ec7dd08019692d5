//! Buckets that refill in steps: all tokens of a period at its end.
//!
//! The debt of such a bucket is the one of a bucket that refills continuously, as it was at the last step. So a rule that
//! refills in another way finds the same debt: no change of the refill returns spent tokens, and none takes any.
//!
//! | State of | As `interval` finds it | As `aligned` finds it |
//! |---|---|---|
//! | the same steps | its debt at its last step | likewise, if that is a step of the rule |
//! | another refill or rate | its debt now, with which the first period begins | its debt now, and the refill since the last step of the rule |
//!
//! Steps of `aligned` are on the wall clock. The state then has its times, and stays for a minute after the bucket is full:
//! a step that a clock crosses again, since it was set back, adds nothing.

use super::debt::Converted;
use super::{Bucket, Moment, RuleVerdict};
use crate::algorithm::STEP_BACK_US;
use crate::rule::{FILLS_IN_STEPS_WITHIN_US, Flow, MAX_SAFE_INTEGER, Refill, TokenBucket};

/// Bit of a time on the wall clock. Times end far below it.
const WALL_CLOCK: u64 = 1 << 63;

/// Debt at a step.
#[derive(Clone, Copy, Debug)]
struct DebtAtStep {
    /// Units to refill, from the next step on.
    owed: u64,
    /// Time of the step, on the clock of the rule.
    at_us: u64,
    /// Largest debt in tokens that the state can hold.
    bound: u64,
    /// True if the state must be written even if nothing is spent.
    is_stale: bool,
}

impl TokenBucket {
    /// Decides by steps. A denial writes if the state has other steps, or the clock was set back.
    #[inline(never)]
    pub(super) fn decide_in_steps(
        &self,
        state: Option<&Bucket>,
        now: Moment,
        cost: u64,
    ) -> (RuleVerdict, Option<Bucket>) {
        let (debt, flow, now_us) = (self.debt_at_step(state, now), self.flow(), self.time_us(now));
        let level = self.capacity().saturating_sub(debt.owed);
        let need = cost.min(self.burst_capacity() + 1).saturating_mul(flow.units);
        if need <= level {
            let (bucket, full_at_us) = self.owing_at_step(debt.owed + need, &debt);
            let reset_after_us = full_at_us.saturating_sub(now_us);
            let verdict = RuleVerdict::allowed(flow.whole_tokens(level - need), reset_after_us, now);
            return (verdict, (need > 0 || debt.is_stale).then_some(bucket));
        }
        let (unchanged, full_at_us) = self.owing_at_step(debt.owed, &debt);
        let short = debt.owed.saturating_add(need).saturating_sub(self.capacity());
        let refilled_at_us = debt.at_us + short.div_ceil(flow.step_units()) * flow.step_us;
        let retry_after_us = (cost <= self.burst_capacity()).then(|| refilled_at_us - now_us);
        let reset_after_us = full_at_us.saturating_sub(now_us);
        let verdict = RuleVerdict::denied(flow.whole_tokens(level), retry_after_us, reset_after_us, now);
        (verdict, debt.is_stale.then_some(unchanged))
    }

    /// Corrects the tokens of a request. A return is reduced by the steps since then.
    pub(super) fn settle_in_steps(
        &self,
        state: Option<&Bucket>,
        now: Moment,
        more: i64,
        counted_at_us: u64,
    ) -> Option<Bucket> {
        let (debt, flow) = (self.debt_at_step(state, now), self.flow());
        let is_aligned = matches!(self.refill(), Refill::Aligned { .. });
        let counted_at_us = if is_aligned { now.wall_at_us(counted_at_us) } else { counted_at_us };
        let units = more.unsigned_abs().saturating_mul(flow.units);
        let owes = if more < 0 {
            let steps = debt.at_us.saturating_sub(counted_at_us).div_ceil(flow.step_us);
            let returned = units.saturating_sub(steps.saturating_mul(flow.step_units()));
            debt.owed.saturating_sub(returned)
        } else {
            debt.owed.saturating_add(units).min(self.capacity().max(debt.owed))
        };
        (owes != debt.owed || debt.is_stale).then(|| self.owing_at_step(owes, &debt).0)
    }

    /// Returns the state of a bucket that owes `owed` units at the step of `debt`, and the time at which it is full.
    fn owing_at_step(&self, owed: u64, debt: &DebtAtStep) -> (Bucket, u64) {
        let flow = self.flow();
        let bound = if owed <= self.capacity() { self.burst_capacity() } else { debt.bound };
        let steps = owed.div_ceil(flow.step_units());
        let rem = steps * flow.step_units() - owed;
        let full_at_us = debt.at_us + steps * flow.step_us;
        let clock = if matches!(self.refill(), Refill::Aligned { .. }) { WALL_CLOCK } else { 0 };
        (Bucket { full_at_us: full_at_us | clock, flow: flow.bounded(bound).id, rem: rem as u32 }, full_at_us)
    }

    /// Returns the time on the clock of the rule.
    fn time_us(&self, now: Moment) -> u64 {
        if matches!(self.refill(), Refill::Aligned { .. }) { now.wall_us } else { now.now_us }
    }

    /// Returns the last step of the rule: `now_us` for steps that begin with a request.
    fn last_step_us(&self, now_us: u64) -> u64 {
        let Refill::Aligned { anchor_us } = self.refill() else { return now_us };
        let since = (i128::from(now_us) - i128::from(anchor_us)).rem_euclid(self.flow().step_us.into());
        now_us.saturating_sub(since as u64)
    }

    /// Returns the debt of a state at the last step of the rule.
    fn debt_at_step(&self, state: Option<&Bucket>, now: Moment) -> DebtAtStep {
        let (flow, now_us) = (self.flow(), self.time_us(now));
        let full =
            DebtAtStep { owed: 0, at_us: self.last_step_us(now_us), bound: self.burst_capacity(), is_stale: false };
        let Some(bucket) = state else { return full };
        let old = Flow::with_id(bucket.flow).unwrap_or(*flow);
        let Some((owed, since_us)) = bucket.owed_at_step(&old, now) else { return full };
        let line = owed - old.refill_us(since_us);
        let (most, most_at_step) = (i128::from(old.most_debt()), i128::from(flow.most_in_steps()));
        let (at_us, bound) = (now_us.saturating_sub(since_us), old.bound);
        let is_same_step = old.step_us == flow.step_us && flow.counts_like(&old) && line <= most;
        if is_same_step && (self.refill() == Refill::Interval || at_us == full.at_us) {
            let owed = owed.min(most_at_step) as u64;
            return DebtAtStep { owed, at_us, bound, is_stale: false };
        }
        let mut line = line.min(most);
        if !flow.counts_like(&old) {
            let owed = u64::try_from(line).unwrap_or(0);
            line = if owed == 0 { 0 } else { Converted::new(owed, &old, flow, now.now_us).bounded(flow).into() };
        }
        let ticks = (now_us - full.at_us).div_ceil(flow.tick_us);
        let owed = line + i128::from(ticks) * i128::from(flow.per_tick);
        let owed = owed.clamp(0, most_at_step) as u64;
        if owed == 0 { full } else { DebtAtStep { owed, bound, is_stale: true, ..full } }
    }
}

impl Bucket {
    /// Returns true if the state ends on the wall clock.
    #[inline]
    pub(super) fn is_on_wall_clock(&self) -> bool {
        self.full_at_us & WALL_CLOCK != 0
    }

    /// Returns true if the bucket was full a minute ago. Without a wall clock (0), it is false.
    #[cold]
    pub(super) fn is_over_on_wall_clock(&self, now: Moment) -> bool {
        self.full_at_us & !WALL_CLOCK <= now.wall_us.saturating_sub(STEP_BACK_US)
    }

    /// Returns the units owed at the last step of the state, of `flow`, and the time since then. Without steps, each moment is
    /// one. `None`: the bucket is full.
    fn owed_at_step(&self, flow: &Flow, now: Moment) -> Option<(i128, u64)> {
        if flow.step_us == 0 {
            let owed = self.debt(flow, now.now_us);
            return (owed > 0).then_some((owed.into(), 0));
        }
        let now_us = if self.is_on_wall_clock() { now.wall_us } else { now.now_us };
        let full_in_us = (self.full_at_us & !WALL_CLOCK).saturating_sub(now_us);
        let steps = full_in_us.div_ceil(flow.step_us);
        let owed = i128::from(steps) * i128::from(flow.step_units()) - i128::from(self.rem);
        (owed > 0).then(|| (owed, steps * flow.step_us - full_in_us))
    }

    /// Returns the debt at `now`, as if the bucket of `flow`, which has steps, had refilled continuously since the last one.
    pub(super) fn debt_between_steps(&self, flow: &Flow, now: Moment) -> u64 {
        let Some((owed, since_us)) = self.owed_at_step(flow, now) else { return 0 };
        let debt = (owed - flow.refill_us(since_us)).max(0);
        u64::try_from(debt).unwrap_or(u64::MAX)
    }
}

impl Flow {
    /// Returns the largest debt that a bucket with steps counts: its last step is a time that Redis counts exactly.
    fn most_in_steps(&self) -> u64 {
        (FILLS_IN_STEPS_WITHIN_US / self.step_us).saturating_mul(self.step_units()).min(MAX_SAFE_INTEGER)
    }

    /// Returns the units that whole ticks add within `us` microseconds.
    fn refill_us(&self, us: u64) -> i128 {
        i128::from(us / self.tick_us) * i128::from(self.per_tick)
    }
}
