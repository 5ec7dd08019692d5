#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use super::*;
use crate::algorithm::State;
use crate::rule::MAX_SAFE_INTEGER;
use crate::verdict::Outcome;

const SECOND: u64 = 1_000_000;
/// A multiple of a minute.
const START: u64 = 1_200 * SECOND;

fn rule(limit: u64, secs: u64) -> SlidingWindowCounter {
    SlidingWindowCounter::new(limit, Duration::from_secs(secs)).unwrap()
}

/// Decides a request and updates `state`.
fn decide(rule: &SlidingWindowCounter, state: &mut Option<Counters>, now_us: u64, cost: u64) -> RuleVerdict {
    let (verdict, change) = rule.decide(state.as_ref(), Moment::at(now_us), cost);
    if change.is_some() {
        *state = change;
    }
    verdict
}

fn denied(us: u64) -> Outcome {
    Outcome::Denied { retry_after: Duration::from_micros(us) }
}

/// Returns the number of admitted requests of cost 1 at one time.
fn admitted(rule: &SlidingWindowCounter, state: &mut Option<Counters>, now_us: u64) -> u64 {
    (0..).take_while(|_| decide(rule, state, now_us, 1).outcome == Outcome::Allowed).count() as u64
}

#[test]
fn the_previous_window_counts_by_its_overlap() {
    let (rule, mut state) = (rule(100, 60), None);
    assert_eq!(admitted(&rule, &mut state, START + SECOND), 100);
    assert_eq!(admitted(&rule, &mut state, START + 60 * SECOND), 0);
    assert_eq!(admitted(&rule, &mut state, START + 66 * SECOND), 10, "a tenth of the previous window no longer counts");
    assert_eq!(admitted(&rule, &mut state, START + 90 * SECOND), 40, "half of it, and 10 are used");
    assert_eq!(admitted(&rule, &mut state, START + 119 * SECOND), 48, "98 of 100, and 50 are used");
    assert_eq!(admitted(&rule, &mut state, START + 150 * SECOND), 51, "half of the 98 count");
}

#[test]
fn the_retry_delay_ends_at_the_first_microsecond_of_admission() {
    let (rule, mut state) = (rule(100, 60), None);
    decide(&rule, &mut state, START + SECOND, 100);
    assert_eq!(decide(&rule, &mut state, START + 2 * SECOND, 1).outcome, denied(58 * SECOND + 600_000));
    assert_eq!(decide(&rule, &mut state, START + 60 * SECOND, 1).outcome, denied(600_000));
    assert_eq!(decide(&rule, &mut state, START + 60 * SECOND + 599_999, 1).outcome, denied(1));
    assert_eq!(decide(&rule, &mut state, START + 60 * SECOND + 600_000, 1).outcome, Outcome::Allowed);
    assert_eq!(decide(&rule, &mut state, START + 60 * SECOND + 600_000, 100).outcome, denied(59_400_000 + 60 * SECOND));
    assert_eq!(decide(&rule, &mut state, START + 61 * SECOND, 99).outcome, denied(59 * SECOND), "one of 100 remains");
    assert_eq!(decide(&rule, &mut state, START + 61 * SECOND, 101).outcome, Outcome::NeverAdmitted);
}

#[test]
fn resets_when_no_window_counts_any_more() {
    let (rule, mut state) = (rule(100, 60), None);
    assert_eq!(decide(&rule, &mut state, START + SECOND, 0).reset_after, Duration::ZERO);
    assert_eq!(state, None);
    assert_eq!(decide(&rule, &mut state, START + SECOND, 1).reset_after, Duration::from_secs(119));
    assert_eq!(decide(&rule, &mut state, START + 61 * SECOND, 0).reset_after, Duration::from_secs(59));
    assert_eq!(decide(&rule, &mut state, START + 120 * SECOND, 0).reset_after, Duration::ZERO);
    assert_eq!(state.unwrap().expires_at_us(), START + 120 * SECOND);
}

#[test]
fn a_denial_changes_nothing_and_a_limit_of_0_denies_all() {
    let (ten, mut state) = (rule(10, 60), None);
    decide(&ten, &mut state, START, 10);
    assert_eq!(ten.decide(state.as_ref(), Moment::at(START + 70 * SECOND), 9).1, None);
    assert_eq!(decide(&rule(0, 60), &mut None, START, 1).outcome, Outcome::NeverAdmitted);
    assert_eq!(decide(&rule(0, 60), &mut None, START, 0).outcome, Outcome::Allowed);
}

#[test]
fn a_changed_limit_keeps_the_consumed_tokens() {
    let mut state = None;
    decide(&rule(10, 60), &mut state, START, 10);
    assert_eq!(decide(&rule(20, 60), &mut state, START, 0).remaining, 10);
    assert_eq!(decide(&rule(5, 60), &mut state, START, 1).outcome, denied(96 * SECOND), "all 10 count");
}

#[test]
fn a_new_length_counts_tokens_at_the_latest_possible_time() {
    let mut state = None;
    decide(&rule(10, 60), &mut state, START, 4);
    decide(&rule(10, 60), &mut state, START + 60 * SECOND, 3);
    assert_eq!(decide(&rule(10, 10), &mut state, START + 65 * SECOND, 0).remaining, 5, "3, and half of the 4");
    assert_eq!(decide(&rule(10, 10), &mut state, START + 75 * SECOND, 0).remaining, 8, "half of the 3");
    assert_eq!(decide(&rule(10, 60), &mut state, START + 80 * SECOND, 0).remaining, 4, "3, and two thirds of the 4");
}

#[test]
fn lengths_side_by_side_count_all_tokens() {
    let mut state = None;
    assert_eq!(admitted(&rule(10, 10), &mut state, START), 10);
    assert_eq!(admitted(&rule(100, 60), &mut state, START), 90);
    assert_eq!(decide(&rule(10, 10), &mut state, START + 19 * SECOND, 1).outcome, denied(100_000));
    assert_eq!(admitted(&rule(10, 10), &mut state, START + 20 * SECOND), 10);
    assert_eq!(admitted(&rule(100, 60), &mut state, START + 66 * SECOND), 1, "a tenth of 110 no longer counts");
    state = rule(100, 60).settle(state.as_ref(), Moment::at(START + 66 * SECOND), -1, START + 66 * SECOND).or(state);
    assert_eq!(decide(&rule(10, 10), &mut state, START + 66 * SECOND, 0).remaining, 10);
}

#[test]
fn at_most_four_lengths_count_side_by_side() {
    let mut state = None;
    for secs in [50, 40, 30, 20, 10] {
        decide(&rule(10, secs), &mut state, START, 1);
    }
    let left = [50, 40, 30, 20, 10].map(|secs| rule(10, secs).decide(state.as_ref(), Moment::at(START), 0).0.remaining);
    assert_eq!(left, [5; 5]);
    assert_eq!(rule(10, 20).decide(state.as_ref(), Moment::at(START), 0).1.map(|_| ()), Some(()), "replaced");
}

#[test]
fn a_clock_set_back_starves_no_key() {
    let (rule, mut state) = (rule(10, 60), None);
    decide(&rule, &mut state, START + 600 * SECOND, 10);
    assert_eq!(decide(&rule, &mut state, START + 30 * SECOND, 1).outcome, denied(36 * SECOND));
    assert_eq!(decide(&rule, &mut state, START + 66 * SECOND, 1).outcome, Outcome::Allowed);
}

#[test]
fn setting_the_wall_clock_does_not_move_open_windows() {
    let (rule, mut state) = (rule(10, 60), None);
    let at = |secs: u64, wall_secs: u64| Moment { now_us: secs * SECOND, wall_us: wall_secs * SECOND };
    state = rule.decide(state.as_ref(), at(5, 1_230), 10).1.or(state);
    assert_eq!(state.as_ref().unwrap().expires_at_us(), 95 * SECOND, "the window ends on the minute");
    for wall_secs in [1_239, 7, 1_299, 99_999] {
        assert_eq!(rule.decide(state.as_ref(), at(34, wall_secs), 0).0.remaining, 0);
        assert_eq!(rule.decide(state.as_ref(), at(65, wall_secs), 0).0.remaining, 5);
    }
}

#[test]
fn a_correction_applies_to_the_window_of_the_request() {
    let (rule, mut state) = (rule(10, 60), None);
    decide(&rule, &mut state, START, 8);
    decide(&rule, &mut state, START + 60 * SECOND, 2);
    let mut settle = |now_us, more, counted_at_us| {
        state = rule.settle(state.as_ref(), Moment::at(now_us), more, counted_at_us).or(state.take());
        let rule_window = rule.counted(state.as_ref(), Moment::at(now_us)).rule_window;
        (rule_window.previous, rule_window.current)
    };
    assert_eq!(settle(START + 61 * SECOND, -3, START), (5, 2));
    assert_eq!(settle(START + 61 * SECOND, -3, START + 60 * SECOND), (5, 0));
    assert_eq!(settle(START + 61 * SECOND, -3, START - 1), (5, 0), "long over");
    assert_eq!(settle(START + 61 * SECOND, -3, START + 120 * SECOND), (5, 0), "not yet");
    assert_eq!(settle(START + 90 * SECOND, 100, START), (5, 7), "no more than there is: 2.5 count");
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let rule = SlidingWindowCounter::new(MAX_SAFE_INTEGER, Duration::from_micros(MAX_SAFE_INTEGER)).unwrap();
    let mut state = None;
    assert_eq!(decide(&rule, &mut state, 5, MAX_SAFE_INTEGER).remaining, 0);
    assert_eq!(decide(&rule, &mut state, 6, 1).outcome, denied(2 * MAX_SAFE_INTEGER - 6), "a window is a single tick");
    assert_eq!(decide(&rule, &mut state, u64::MAX - 1, u64::MAX).outcome, Outcome::NeverAdmitted);
    assert_eq!(decide(&rule, &mut state, u64::MAX - 1, MAX_SAFE_INTEGER).outcome, Outcome::Allowed);
}
