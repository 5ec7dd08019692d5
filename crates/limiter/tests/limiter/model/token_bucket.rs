//! Model of token bucket and GCRA: a level that rises with time, in fractions of a token.
//!
//! A bucket that refills in steps has the level of its last step. `steps.rs` has these rules.

use std::time::Duration;

use tollgate_limiter::rule::{MAX_SAFE_INTEGER, Refill, Rule, TokenBucket};

use super::definition::Model;
use super::rng::Rng;

mod steps;

/// Deficit of a bucket: `debt / part` tokens at `at`, of which `flow / part` are refilled per tick.
#[derive(Clone)]
struct Deficit {
    debt: u128,
    at: u64,
    flow: u128,
    part: u128,
    /// Microseconds per tick; 1 without steps.
    tick: u64,
    /// Time between two steps, of which `at` is one. 0: the refill is continuous.
    step: u64,
    /// Largest debt in tokens after the clock was set back: the burst of the last write, or of an earlier one that left
    /// more than it.
    bound: u128,
    /// Time of the last decision.
    seen: u64,
}

/// Numbers of a rule.
struct Numbers {
    /// Parts of a token added per tick.
    flow: u128,
    /// Parts per token.
    part: u128,
    burst: u128,
    tick: u64,
    step: u64,
}

impl Default for Deficit {
    fn default() -> Self {
        Self { debt: 0, at: 0, flow: 0, part: 0, tick: 1, step: 0, bound: 0, seen: 0 }
    }
}

pub(crate) fn numbers(rng: &mut Rng) -> TokenBucket {
    let second = 1_000_000;
    let day = 86_400 * second;
    let (rate, period, burst) = match rng.below(8) {
        0 => (rng.pick(&[1, 2, 7]), rng.pick(&[60 * second, day]), rng.within(0, 9)),
        1 => (rng.within(1, 1_000_000), second, rng.within(1, 100_000)),
        2 => (rng.pick(&[u64::from(u32::MAX), 999_983]), second, rng.pick(&[1, 1_000, u64::from(u32::MAX)])),
        3 => (rng.pick(&[1_000_000, 500_000]), day, rng.pick(&[1_000_000, 10])),
        _ => (rng.pick(&[1, 2, 3, 10, 100]), second, rng.pick(&[0, 1, 2, 3, 5, 10, 20])),
    };
    let refill = match rng.below(6) {
        0 => Refill::Interval,
        1 => Refill::Aligned { anchor_us: rng.pick(&[0, 0, 7, period / 3]) },
        _ => Refill::Smooth,
    };
    TokenBucket::new(rate, Duration::from_micros(period), burst).unwrap().with_refill(refill).unwrap()
}

/// Returns the bound `burst + rate * time`, and one more refill with steps.
pub(crate) fn bound(rule: &Rule, time: u64) -> u128 {
    let Numbers { flow, part, burst, tick, step } = Numbers::of(rule);
    if step > 0 {
        return burst + flow * u128::from(step / tick) / part * u128::from(time / step + 1);
    }
    burst + flow * u128::from(time) / part
}

pub(crate) fn key() -> Box<dyn Model> {
    Box::new(Deficit::default())
}

/// Returns the settings of a rule.
fn of(rule: &Rule) -> &TokenBucket {
    let (Rule::TokenBucket(bucket) | Rule::Gcra(bucket)) = rule else { panic!("{rule:?}") };
    bucket
}

impl Numbers {
    fn of(rule: &Rule) -> Self {
        let bucket = of(rule);
        if bucket.refill() != Refill::Smooth {
            return Self::in_steps(bucket);
        }
        let (rate, period) = (u128::from(bucket.replenish_rate()), bucket.period().as_micros());
        let burst = u128::from(bucket.burst_capacity());
        // One part is `1 / period` of a token. If a burst has too many parts, rate and period are reduced by their
        // greatest common divisor, which is still exact.
        let reduction =
            if burst * period <= MAX_SAFE_INTEGER.into() { 1 } else { greatest_common_divisor(rate, period) };
        let (flow, part) = (rate / reduction, period / reduction);
        assert!(burst * part <= MAX_SAFE_INTEGER.into(), "{rule:?} is not counted exactly");
        Self { flow, part, burst, tick: 1, step: 0 }
    }
}

fn greatest_common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

impl Deficit {
    fn debt_at(&self, now: u64) -> u128 {
        if self.step > 0 {
            return self.debt_between_steps(now);
        }
        if now >= self.at {
            self.debt.saturating_sub(self.flow * u128::from(now - self.at))
        } else if self.debt == 0 {
            0
        } else {
            self.debt + self.flow * u128::from(self.at - now)
        }
    }
}

impl Deficit {
    /// Returns the numbers that count from now on: those of the rule, or equal ones of the deficit in other parts.
    fn numbers(&self, rule: &Rule, now: u64) -> Numbers {
        let own = Numbers::of(rule);
        if self.debt_at(now) == 0 { own } else { Numbers { flow: self.flow, part: self.part, ..own } }
    }

    fn write(&mut self, rule: &Rule, now: u64, debt: u128) {
        let Numbers { flow, part, burst, .. } = self.numbers(rule, now);
        let bound = if debt <= burst * part { burst } else { self.bound };
        *self = Self { debt, at: now, flow, part, bound, tick: 1, step: 0, seen: now };
    }

    /// Returns the deficit in the parts of `rule` if its rate is the same and the debt has an exact value in them. The
    /// next write counts in these parts; until then the deficit stays as it was written.
    fn in_parts_of(&self, rule: &Rule, now: u64) -> Self {
        let (Numbers { flow, part, .. }, debt) = (Numbers::of(rule), self.debt_at(now));
        let is_exact = debt > 0
            && self.tick == 1
            && (debt * part).is_multiple_of(self.part)
            && debt * part / self.part <= most(flow);
        if is_exact && self.flow * part == flow * self.part {
            let debt = debt * part / self.part;
            return Self { debt, at: now, flow, part, tick: 1, step: 0, ..self.clone() };
        }
        self.clone()
    }
}

/// Returns the largest debt in parts that the stores count, including the time to refill it.
fn most(flow: u128) -> u128 {
    if flow == 1 { 1 << 52 } else { u128::from(MAX_SAFE_INTEGER) }
}

impl Model for Deficit {
    /// Finds a deficit that may have been written under another rule. It is refilled at the old rate until now. If the
    /// rate differs, it is rounded up to a whole part of this rule, unless the stores cannot count that many parts.
    fn seen(&mut self, rule: &Rule, now: u64) {
        let Numbers { flow, part, burst, step, .. } = Numbers::of(rule);
        self.seen = now;
        if step > 0 {
            return self.seen_at_step(rule, now);
        }
        let found = self.debt_at(now);
        let debt = found.min((self.bound * self.part).min(most(self.flow)));
        if debt == 0 {
            return;
        }
        let converted = (debt * part).div_ceil(self.part);
        let is_same_rate = self.tick == 1 && self.flow * part == flow * self.part;
        let is_exact = is_same_rate && converted * self.part == debt * part;
        let is_rewritten = if is_exact { debt != found } else { !is_same_rate || burst * self.part > most(self.flow) };
        if self.step > 0 {
            if is_rewritten || !is_exact {
                *self = Self { flow, part, tick: 1, step: 0, ..self.clone() };
                self.write(rule, now, converted.min(most(flow)));
            }
        } else if is_rewritten && converted <= most(flow) {
            *self = Self { flow, part, ..self.clone() };
            self.write(rule, now, converted);
        } else if debt != found {
            self.write(rule, now, debt);
        }
    }

    fn left(&self, rule: &Rule, now: u64) -> u64 {
        if of(rule).refill() != Refill::Smooth {
            return self.left_at_step(rule, now);
        }
        let Numbers { part, burst, .. } = self.numbers(rule, now);
        ((burst * part).saturating_sub(self.debt_at(now)) / part) as u64
    }

    fn take(&mut self, rule: &Rule, now: u64, cost: u64) {
        if of(rule).refill() != Refill::Smooth {
            self.take_at_step(rule, now, cost.into());
        } else if cost > 0 {
            *self = self.in_parts_of(rule, now);
            let Numbers { part, .. } = self.numbers(rule, now);
            self.write(rule, now, self.debt_at(now) + u128::from(cost) * part);
        }
    }

    /// Reduces a return by the refill since the request.
    fn settle(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        if of(rule).refill() != Refill::Smooth {
            return self.settle_at_step(rule, now, more, taken_at);
        }
        let mut own = self.in_parts_of(rule, now);
        let Numbers { part, burst, flow, .. } = own.numbers(rule, now);
        let (before, units) = (own.debt_at(now), u128::from(more.unsigned_abs()) * part);
        let returned = units.saturating_sub(flow * u128::from(now.saturating_sub(taken_at)));
        let debt =
            if more < 0 { before.saturating_sub(returned) } else { (before + units).min(before.max(burst * part)) };
        if debt != before {
            own.write(rule, now, debt);
            *self = own;
        }
    }

    fn spent_until(&self, rule: &Rule) -> u64 {
        match (self.debt, of(rule).refill()) {
            (0, _) => 0,
            (_, Refill::Smooth) => self.at + self.debt.div_ceil(self.flow) as u64,
            _ => self.full_at_step(rule),
        }
    }

    fn rests_at(&self, _: &Rule) -> u64 {
        match (self.part, self.step) {
            (0, _) => 0,
            (_, 0) => self.at + self.debt.div_ceil(self.flow) as u64,
            (_, step) => self.at + self.debt.div_ceil(self.per_step()) as u64 * step,
        }
    }

    fn boxed(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
