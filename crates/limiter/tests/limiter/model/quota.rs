//! Model of the quota: the tokens consumed in the current period.

use tollgate_limiter::rule::{Calendar, CalendarUnit, Quota, Rule};

use super::definition::Model;
use super::rng::Rng;

const HOUR: u64 = 3_600_000_000;

/// Consumed tokens and the end of the period.
#[derive(Clone, Default)]
struct Used {
    taken: u64,
    until: u64,
}

/// Periods in UTC with a fixed length.
pub(crate) fn rule(rng: &mut Rng) -> Rule {
    let allowance = rng.pick(&[0, 1, 2, 3, 5, 10, 20, 1_000_000]);
    let unit = rng.pick(&[None, Some(CalendarUnit::Hour), Some(CalendarUnit::Day), Some(CalendarUnit::Week)]);
    Rule::Quota(match unit {
        Some(unit) => Quota::resetting(allowance, Calendar::new(unit, "UTC").unwrap()).unwrap(),
        None => Quota::new(allowance).unwrap(),
    })
}

/// Returns the allowance times the periods that a stretch of time can touch.
pub(crate) fn bound(rule: &Rule, time: u64) -> u128 {
    let Rule::Quota(rule) = rule else { panic!("{rule:?}") };
    let periods = rule.reset().map_or(1, |reset| time.div_ceil(length(reset)) + 1);
    u128::from(rule.allowance()) * u128::from(periods)
}

pub(crate) fn key() -> Box<dyn Model> {
    Box::new(Used::default())
}

fn length(calendar: &Calendar) -> u64 {
    match calendar.unit() {
        CalendarUnit::Hour => HOUR,
        CalendarUnit::Day => 24 * HOUR,
        CalendarUnit::Week => 7 * 24 * HOUR,
        other => panic!("{other:?} are of no one length"),
    }
}

/// Returns the allowance, the length of a period and the end of the current one. 1970 began on a Thursday.
fn numbers(rule: &Rule, now: u64) -> (u64, u64, u64) {
    let Rule::Quota(rule) = rule else { panic!("{rule:?}") };
    let Some(reset) = rule.reset() else { return (rule.allowance(), 0, u64::MAX) };
    let length = length(reset);
    let monday = if reset.unit() == CalendarUnit::Week { 4 * 24 * HOUR } else { 0 };
    (rule.allowance(), length, ((now - monday) / length + 1) * length + monday)
}

impl Used {
    fn used(&self, now: u64) -> u64 {
        if now < self.until { self.taken } else { 0 }
    }
}

impl Model for Used {
    /// A quota keeps its end unless its period would end earlier, after a changed rule or a clock that was set back.
    fn seen(&mut self, rule: &Rule, now: u64) {
        if self.used(now) > 0 {
            self.until = self.until.min(numbers(rule, now).2);
        }
    }

    fn left(&self, rule: &Rule, now: u64) -> u64 {
        numbers(rule, now).0.saturating_sub(self.used(now))
    }

    fn take(&mut self, rule: &Rule, now: u64, cost: u64) {
        if cost > 0 {
            let until = if self.used(now) > 0 { self.until } else { numbers(rule, now).2 };
            *self = Self { taken: self.used(now) + cost, until };
        }
    }

    /// The start of a period is its end minus the length under the current rule.
    fn settle(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        let length = numbers(rule, now).1;
        if more > 0 {
            self.take(rule, now, more.unsigned_abs().min(self.left(rule, now)));
        } else if now < self.until && (length == 0 || taken_at + length >= self.until) {
            self.taken = self.taken.saturating_sub(more.unsigned_abs());
        }
    }

    fn never(&self, rule: &Rule, cost: u64) -> bool {
        cost > rule.capacity() || self.until == u64::MAX
    }

    fn spent_until(&self, _: &Rule) -> u64 {
        if self.taken == 0 || self.until == u64::MAX { 0 } else { self.until }
    }

    fn rests_at(&self, _: &Rule) -> u64 {
        if self.taken == 0 && self.until == u64::MAX { 0 } else { self.until }
    }

    fn boxed(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
