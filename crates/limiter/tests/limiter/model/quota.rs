//! Model of the quota: the tokens consumed in the current period.

use std::num::NonZeroU32;

use tollgate_limiter::rule::{Calendar, CalendarUnit, Quota, Rule};

use super::definition::Model;
use super::rng::Rng;
use super::trace::Amount;

const HOUR: u64 = 3_600_000_000;

/// Most calendars that count side by side.
const MAX_CALENDARS: usize = 4;

/// Latest used period of each calendar. Each counts all tokens until it ends.
#[derive(Clone, Default)]
struct Periods(Vec<Period>);

/// Consumed minus granted tokens, the first use in the period and its end.
#[derive(Clone, Copy)]
struct Period {
    calendar: NonZeroU32,
    taken: i64,
    since: u64,
    until: u64,
}

/// Periods with a fixed length, in zones without clock changes: more than count side by side.
pub(crate) fn rule(rng: &mut Rng) -> Rule {
    let allowance = rng.pick(&[0, 1, 2, 3, 5, 10, 20, 1_000_000]);
    let unit = rng.pick(&[None, Some(CalendarUnit::Hour), Some(CalendarUnit::Day), Some(CalendarUnit::Week)]);
    let zone = rng.pick(&["UTC", "UTC", "Asia/Kolkata"]);
    Rule::Quota(match unit {
        Some(unit) => Quota::resetting(allowance, Calendar::new(unit, zone).unwrap()).unwrap(),
        None => Quota::new(allowance).unwrap(),
    })
}

/// Returns the allowance times the periods that a stretch of time can touch.
pub(crate) fn bound(rule: &Rule, time: u64) -> u128 {
    let Rule::Quota(rule) = rule else { panic!("{rule:?}") };
    let periods = rule.reset().map_or(1, |reset| time.div_ceil(length_of(reset)) + 1);
    u128::from(rule.allowance()) * u128::from(periods)
}

pub(crate) fn key() -> Box<dyn Model> {
    Box::new(Periods::default())
}

pub(crate) fn length_of(calendar: &Calendar) -> u64 {
    match calendar.unit() {
        CalendarUnit::Hour => HOUR,
        CalendarUnit::Day => 24 * HOUR,
        CalendarUnit::Week => 7 * 24 * HOUR,
        other => panic!("{other:?} are of no one length"),
    }
}

/// Returns the end of the current period. 1970 began on a Thursday.
pub(crate) fn over_at(calendar: &Calendar, now: u64) -> u64 {
    let length = length_of(calendar);
    let monday = if calendar.unit() == CalendarUnit::Week { 4 * 24 * HOUR } else { 0 };
    let east = if calendar.time_zone() == "UTC" { 0 } else { 11 * HOUR / 2 };
    ((now + east - monday) / length + 1) * length + monday - east
}

/// Returns the ends of the current period and of the next one, [`u64::MAX`] without periods.
fn ends(rule: &Rule, now: u64) -> (u64, u64) {
    let Rule::Quota(rule) = rule else { panic!("{rule:?}") };
    let ends = |calendar| (over_at(calendar, now), over_at(calendar, now) + length_of(calendar));
    rule.reset().map_or((u64::MAX, u64::MAX), ends)
}

fn calendar(rule: &Rule) -> NonZeroU32 {
    let Rule::Quota(rule) = rule else { panic!("{rule:?}") };
    rule.calendar_id()
}

impl Periods {
    fn open(&self, now: u64) -> impl Iterator<Item = &Period> {
        self.0.iter().filter(move |period| now < period.until)
    }

    fn known(&self, rule: &Rule) -> Option<&Period> {
        self.0.iter().find(|period| period.calendar == calendar(rule))
    }

    /// Returns the period of `rule`. It keeps its end if it is used, also the next one after the clock was set back. Later
    /// ends are those of a wrong clock. A new calendar begins with the open period that has most tokens.
    fn own(&self, rule: &Rule, now: u64) -> Period {
        let (until, latest) = ends(rule, now);
        let fresh = Period { calendar: calendar(rule), taken: 0, since: now, until };
        let most = self.open(now).max_by_key(|period| (period.taken, u64::MAX - period.since.min(now)));
        match (self.known(rule), most) {
            (_, None) => fresh,
            (None, Some(most)) => Period { taken: most.taken, since: most.since.min(now), ..fresh },
            (Some(own), _) if now >= own.until => fresh,
            (Some(own), _) if own.taken == 0 => Period { since: own.since.min(now), ..fresh },
            (Some(own), _) if own.until > latest => Period { since: own.since.min(now), until, ..*own },
            (Some(own), _) => Period { since: own.since.min(now), ..*own },
        }
    }

    /// Writes the period of a rule. If no period is open, there is only this one. Of too many, the one that ends first goes.
    fn write(&mut self, own: Period, now: u64) {
        if self.open(now).next().is_none() {
            self.0.clear();
        }
        self.0.retain(|period| period.calendar != own.calendar);
        self.0.iter_mut().for_each(|period| period.since = period.since.min(now));
        while self.0.len() >= MAX_CALENDARS {
            let first = self.0.iter().map(|period| (period.until, period.calendar)).min().unwrap();
            self.0.retain(|period| (period.until, period.calendar) != first);
        }
        self.0.push(own);
    }

    /// Changes the open periods of other calendars that `counts` selects; returns true if there is one.
    fn change_others(&mut self, rule: &Rule, now: u64, more: i64, counts: impl Fn(&Period) -> bool) -> bool {
        let others = self.0.iter_mut().filter(|period| period.calendar != calendar(rule) && now < period.until);
        let mut changed = false;
        for period in others.filter(|period| counts(period)) {
            period.taken += more;
            changed |= more != 0;
        }
        changed
    }
}

impl Model for Periods {
    /// A denial writes a new calendar with tokens, and a period that ends earlier.
    fn seen(&mut self, rule: &Rule, now: u64) {
        let own = self.own(rule, now);
        let is_open = self.open(now).next().is_some();
        let is_cut = self.known(rule).is_none_or(|known| now < known.until && own.until < known.until);
        if is_open && is_cut && own.taken != 0 {
            self.write(own, now);
        }
    }

    fn left(&self, rule: &Rule, now: u64) -> u64 {
        u64::try_from(rule.capacity() as i64 - self.own(rule, now).taken).unwrap_or(0)
    }

    fn take(&mut self, rule: &Rule, now: u64, cost: u64) {
        if cost > 0 {
            let own = self.own(rule, now);
            self.change_others(rule, now, cost as i64, |_| true);
            self.write(Period { taken: own.taken + cost as i64, ..own }, now);
        }
    }

    /// Tokens from before the first use in a period belong to an earlier one. A correction adds no calendar.
    fn settle(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        let (own, is_open) = (self.own(rule, now), self.open(now).next().is_some());
        let more = more.min(self.left(rule, now) as i64);
        let counts = |period: &Period| more > 0 || period.since.min(now) <= taken_at;
        let is_new = is_open && self.known(rule).is_none();
        let is_own = !is_new && (more > 0 || self.known(rule).is_some_and(|own| now < own.until) && counts(&own));
        let is_changed = self.change_others(rule, now, more, counts) || is_own && more != 0;
        if is_changed && is_new {
            self.0.iter_mut().for_each(|period| period.since = period.since.min(now));
        } else if is_changed {
            self.write(Period { taken: own.taken + if is_own { more } else { 0 }, ..own }, now);
        }
    }

    /// Only a period that ends earlier is written in any case.
    fn corrected(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        if self.known(rule).is_some() {
            self.seen(rule, now);
        }
        self.settle(rule, now, more, taken_at);
    }

    /// A grant applies to the period of its rule.
    fn grant(&mut self, rule: &Rule, now: u64, amount: Amount) {
        let own = self.own(rule, now);
        let taken = match amount {
            Amount::Add(more) => own.taken - more,
            Amount::Leave(left) => rule.capacity() as i64 - left as i64,
        };
        if taken != own.taken {
            self.write(Period { taken, ..own }, now);
        }
    }

    fn never(&self, rule: &Rule, cost: u64) -> bool {
        let Rule::Quota(quota) = rule else { panic!("{rule:?}") };
        cost > rule.capacity() || quota.reset().is_none()
    }

    fn spent_until(&self, rule: &Rule) -> u64 {
        self.known(rule).filter(|own| own.taken != 0 && own.until < u64::MAX).map_or(0, |own| own.until)
    }

    fn rests_at(&self, _: &Rule) -> u64 {
        self.0.iter().map(|period| period.until).max().unwrap_or(0)
    }

    fn boxed(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
