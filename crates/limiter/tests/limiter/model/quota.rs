//! Model of the quota: the tokens consumed in the current period.

use tollgate_limiter::rule::{Calendar, CalendarUnit, Quota, Rule};

use super::definition::Model;
use super::rng::Rng;
use super::trace::Amount;

const HOUR: u64 = 3_600_000_000;

/// Consumed minus granted tokens, the first use in the period and its end.
#[derive(Clone, Default)]
struct Used {
    taken: i64,
    since: u64,
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

/// Returns the end of the current period, [`u64::MAX`] without periods. 1970 began on a Thursday.
fn over_at(rule: &Rule, now: u64) -> u64 {
    let Rule::Quota(rule) = rule else { panic!("{rule:?}") };
    let Some(reset) = rule.reset() else { return u64::MAX };
    let length = length(reset);
    let monday = if reset.unit() == CalendarUnit::Week { 4 * 24 * HOUR } else { 0 };
    ((now - monday) / length + 1) * length + monday
}

impl Used {
    fn taken(&self, now: u64) -> i64 {
        if now < self.until { self.taken } else { 0 }
    }

    /// Returns the quota that a change now applies to. A quota without usage ends with the period of the rule.
    fn current(&self, rule: &Rule, now: u64) -> Self {
        let taken = self.taken(now);
        let until = if taken == 0 { over_at(rule, now) } else { self.until };
        let since = if now < self.until { self.since.min(now) } else { now };
        Self { taken, since, until }
    }

    fn change(&mut self, rule: &Rule, now: u64, more: i64) {
        if more != 0 {
            *self = self.current(rule, now);
            self.taken += more;
        }
    }
}

impl Model for Used {
    /// A quota with usage keeps its end unless its period would end earlier, after a changed rule or a clock that was
    /// set back.
    fn seen(&mut self, rule: &Rule, now: u64) {
        if self.taken(now) != 0 {
            self.until = self.until.min(over_at(rule, now));
        }
    }

    fn left(&self, rule: &Rule, now: u64) -> u64 {
        u64::try_from(rule.capacity() as i64 - self.taken(now)).unwrap_or(0)
    }

    fn take(&mut self, rule: &Rule, now: u64, cost: u64) {
        self.change(rule, now, cost as i64);
    }

    /// Tokens from before the first use in the period belong to an earlier one.
    fn settle(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        if more > 0 {
            self.change(rule, now, more.min(self.left(rule, now) as i64));
        } else if now < self.until && self.since.min(now) <= taken_at {
            self.change(rule, now, more);
        }
    }

    fn grant(&mut self, rule: &Rule, now: u64, amount: Amount) {
        let more = match amount {
            Amount::Add(more) => more,
            Amount::Leave(left) => self.taken(now) - (rule.capacity() as i64 - left as i64),
        };
        self.change(rule, now, -more);
    }

    fn never(&self, rule: &Rule, cost: u64) -> bool {
        let Rule::Quota(quota) = rule else { panic!("{rule:?}") };
        let renews = if self.taken == 0 { quota.reset().is_some() } else { self.until < u64::MAX };
        cost > rule.capacity() || !renews
    }

    fn spent_until(&self, _: &Rule) -> u64 {
        if self.taken == 0 || self.until == u64::MAX { 0 } else { self.until }
    }

    fn rests_at(&self, _: &Rule) -> u64 {
        self.until
    }

    fn boxed(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
