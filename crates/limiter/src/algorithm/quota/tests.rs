//! Quotas in one period and in several.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use super::*;
use crate::algorithm::State;
use crate::rule::{Calendar, CalendarUnit};
use crate::verdict::Outcome;

const DAY: u64 = 86_400_000_000;
/// A midnight in UTC.
const START: u64 = 20_000 * DAY;

fn resetting(allowance: u64, unit: CalendarUnit, zone: &str) -> Quota {
    Quota::resetting(allowance, Calendar::new(unit, zone).unwrap()).unwrap()
}

fn daily(allowance: u64) -> Quota {
    resetting(allowance, CalendarUnit::Day, "UTC")
}

/// Decides a request and updates `state`.
fn decide(rule: &Quota, state: &mut Option<QuotaState>, now_us: u64, cost: u64) -> RuleVerdict {
    let (verdict, change) = rule.decide(state.as_ref(), Moment::at(now_us), cost);
    *state = change.or(state.take());
    verdict
}

#[test]
fn a_quota_without_a_period_is_never_refilled() {
    let (rule, mut state) = (Quota::new(5).unwrap(), None);
    assert_eq!(decide(&rule, &mut state, START, 3).remaining, 2);
    let verdict = decide(&rule, &mut state, START, 3);
    assert_eq!((verdict.outcome, verdict.remaining), (Outcome::NeverAdmitted, 2));
    assert_eq!(decide(&rule, &mut state, START + 9_999 * DAY, 2).remaining, 0);
    assert_eq!(state.as_ref().unwrap().expires_at_us(), u64::MAX, "never forgotten");
    state = rule.settle(state.as_ref(), Moment::at(START + 1), -5, START);
    assert_eq!(rule.remaining(state.as_ref(), Moment::at(START + 1)), 5);
    state = rule.settle(state.as_ref(), Moment::at(START + 2), -1, START);
    assert_eq!(rule.remaining(state.as_ref(), Moment::at(START + 2)), 6, "of a request before a grant");
}

#[test]
fn a_new_period_starts_with_the_full_allowance() {
    let (rule, mut state) = (daily(5), None);
    assert_eq!(decide(&rule, &mut state, START + DAY / 2, 5).reset_after, Duration::from_micros(DAY / 2));
    let wait = Outcome::Denied { retry_after: Duration::from_micros(DAY / 4) };
    assert_eq!(decide(&rule, &mut state, START + DAY / 4 * 3, 5).outcome, wait);
    assert_eq!(decide(&rule, &mut state, START + DAY / 4 * 3, 6).outcome, Outcome::NeverAdmitted);
    assert_eq!(decide(&rule, &mut state, START + DAY, 5).outcome, Outcome::Allowed);
    assert_eq!(rule.settle(state.as_ref(), Moment::at(START + DAY), -5, START + DAY - 1), None, "of yesterday");
}

#[test]
fn tokens_of_an_ended_period_are_never_returned_whatever_the_rule() {
    let noon = START + DAY / 2;
    let hourly = resetting(5, CalendarUnit::Hour, "UTC");
    let later = Moment::at(noon + 3_700_000_000);
    for changed in [Quota::new(5).unwrap(), daily(5), hourly.clone()] {
        let mut state = None;
        decide(&hourly, &mut state, noon, 5);
        assert_eq!(changed.settle(state.as_ref(), later, -5, noon), None, "before the next request");
        assert_eq!(changed.settle(None, later, -5, noon), None, "of a dropped state");
        assert_eq!(decide(&changed, &mut state, later.now_us, 1).remaining, 4);
        assert_eq!(changed.settle(state.as_ref(), later, -5, noon), None);
        let returned = changed.settle(state.as_ref(), later, -1, later.now_us).unwrap();
        assert_eq!(changed.remaining(Some(&returned), later), 5, "of this period");
    }
}

#[test]
fn tokens_are_returned_after_a_changed_rule_within_the_period_and_after_a_clock_set_back() {
    let (noon, mut state) = (START + DAY / 2, None);
    decide(&daily(5), &mut state, noon, 5);
    let changed = Quota::new(5).unwrap();
    state = changed.settle(state.as_ref(), Moment::at(noon + 1), -2, noon);
    assert_eq!(decide(&changed, &mut state, noon + 2, 0).remaining, 2);
    assert_eq!(decide(&changed, &mut state, noon - DAY / 4, 2).remaining, 0);
    state = changed.settle(state.as_ref(), Moment::at(noon), -2, noon - DAY / 4);
    assert_eq!(decide(&changed, &mut state, noon, 0).remaining, 2);
}

#[test]
fn grants_add_up_and_set_replaces_the_remaining_tokens() {
    let (rule, mut state) = (Quota::new(5).unwrap(), None);
    let now = Moment::at(START);
    decide(&rule, &mut state, START, 5);
    state = rule.grant(state.as_ref(), now, 7);
    assert_eq!(decide(&rule, &mut state, START, 0).remaining, 7);
    state = rule.grant(state.as_ref(), now, -3);
    assert_eq!(rule.remaining(state.as_ref(), now), 4);
    state = rule.set(state.as_ref(), now, 100);
    assert_eq!(rule.remaining(state.as_ref(), now), 100);
    state = rule.grant(state.as_ref(), now, i64::MIN);
    assert_eq!(rule.remaining(state.as_ref(), now), 0);
    assert_eq!(decide(&Quota::new(MAX_SAFE_INTEGER).unwrap(), &mut state, START, 1).outcome, Outcome::NeverAdmitted);
}

#[test]
fn a_shorter_period_ends_no_longer_one() {
    let (monthly, daily, mut state) = (resetting(100, CalendarUnit::Month, "UTC"), daily(10), None);
    let (mut by_month, mut by_day) = (0, 0);
    let first = monthly.periods_around(START).unwrap()[2];
    for day in 0..20 {
        for _ in 0..30 {
            let now_us = first + day * DAY + DAY / 2;
            let mut admits = |rule| u64::from(decide(rule, &mut state, now_us, 1).outcome == Outcome::Allowed);
            by_day += admits(&daily);
            by_month += admits(&monthly);
        }
    }
    // The month counts the ten tokens of each day too. It admits beside five of each, for three days until it has a hundred.
    assert_eq!((by_month, by_day), (100 - 3 * 5, 3 * 5 + 17 * 10));
}

#[test]
fn periods_that_end_together_count_apart() {
    // A Sunday: day and week end at the same time.
    let (weekly, daily, mut state) = (resetting(100, CalendarUnit::Week, "UTC"), daily(10), None);
    let sunday = START - (START / DAY + 4) % 7 * DAY + 14 * DAY;
    assert_eq!(weekly.periods_around(sunday).unwrap()[2], daily.periods_around(sunday).unwrap()[2]);
    decide(&daily, &mut state, sunday - 2 * DAY, 0);
    decide(&weekly, &mut state, sunday - 2 * DAY, 5);
    decide(&daily, &mut state, sunday - 2 * DAY, 1);
    decide(&weekly, &mut state, sunday - DAY, 60);
    assert_eq!(decide(&daily, &mut state, sunday, 4).remaining, 6, "a day of its own");
    assert_eq!(decide(&weekly, &mut state, sunday, 0).remaining, 30);
    assert_eq!(decide(&daily, &mut state, sunday + DAY, 0).remaining, 10);
    assert_eq!(decide(&weekly, &mut state, sunday + DAY, 0).remaining, 100);
}

#[test]
fn zones_have_periods_of_their_own() {
    let (utc, india, mut state) = (daily(10), resetting(10, CalendarUnit::Day, "Asia/Kolkata"), None);
    assert_eq!(decide(&utc, &mut state, START + DAY / 2, 4).remaining, 6);
    assert_eq!(decide(&india, &mut state, START + DAY / 2, 1).remaining, 5);
    assert_eq!(decide(&india, &mut state, START + DAY / 24 * 19, 0).remaining, 10, "past midnight in India");
    assert_eq!(decide(&utc, &mut state, START + DAY / 24 * 19, 0).remaining, 5);
}

#[test]
fn a_quota_without_a_period_remembers_its_tokens_beside_others() {
    let (prepaid, daily, mut state) = (Quota::new(10).unwrap(), daily(10), None);
    decide(&prepaid, &mut state, START, 8);
    for day in 0..10 {
        let expected = if day == 0 { 2 } else { 10 };
        assert_eq!(decide(&daily, &mut state, START + day * DAY, 0).remaining, expected);
        assert_eq!(decide(&daily, &mut state, START + day * DAY, 1).remaining, expected - 1);
    }
    assert_eq!(decide(&prepaid, &mut state, START + 20 * DAY, 0).remaining, 0, "18 of 10 were used");
}

#[test]
fn a_grant_applies_to_the_period_of_its_rule() {
    let (weekly, daily, mut state) = (resetting(5, CalendarUnit::Week, "UTC"), daily(5), None);
    let now = Moment::at(START);
    decide(&daily, &mut state, START, 2);
    assert_eq!(decide(&weekly, &mut state, START, 1).remaining, 2);
    state = daily.grant(state.as_ref(), now, 10);
    assert_eq!((daily.remaining(state.as_ref(), now), weekly.remaining(state.as_ref(), now)), (12, 2));
    decide(&daily, &mut state, START, 12);
    state = weekly.set(state.as_ref(), now, 3);
    assert_eq!((daily.remaining(state.as_ref(), now), weekly.remaining(state.as_ref(), now)), (0, 3));
}

#[test]
fn a_correction_returns_tokens_to_the_periods_that_count_them_and_adds_none() {
    let (weekly, daily, mut state) = (resetting(10, CalendarUnit::Week, "UTC"), daily(10), None);
    decide(&weekly, &mut state, START, 1);
    decide(&daily, &mut state, START + 1, 4);
    state = Quota::new(10).unwrap().settle(state.as_ref(), Moment::at(START + 2), -2, START + 1);
    assert_eq!(decide(&daily, &mut state, START + 3, 0).remaining, 7);
    assert_eq!(decide(&weekly, &mut state, START + 3, 0).remaining, 7);
    assert!(state.as_ref().unwrap().expires_at_us() < u64::MAX, "no period of the correction's rule");
    let next = Moment::at(START + DAY);
    state = daily.settle(state.as_ref(), next, -2, START + 1);
    assert_eq!((daily.remaining(state.as_ref(), next), weekly.remaining(state.as_ref(), next)), (10, 9));
    state = weekly.settle(state.as_ref(), next, 3, START + 1);
    assert_eq!((daily.remaining(state.as_ref(), next), weekly.remaining(state.as_ref(), next)), (7, 6));
}

#[test]
fn at_most_four_calendars_count() {
    let mut state = None;
    let units = [CalendarUnit::Year, CalendarUnit::Month, CalendarUnit::Week, CalendarUnit::Day, CalendarUnit::Hour];
    for unit in units {
        decide(&resetting(100, unit, "UTC"), &mut state, START, 1);
    }
    let text = format!("{state:?}");
    assert_eq!(text.matches("calendar").count(), 4, "{text}");
    for unit in units {
        assert_eq!(decide(&resetting(100, unit, "UTC"), &mut state, START, 0).remaining, 95, "{unit:?}");
    }
}

#[test]
fn one_calendar_takes_32_bytes() {
    assert_eq!(size_of::<QuotaState>(), 32);
}
