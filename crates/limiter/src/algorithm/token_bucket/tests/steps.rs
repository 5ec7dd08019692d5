//! Buckets that refill in steps.

use super::*;
use crate::rule::Refill;

const MINUTE: u64 = 60_000_000;
/// The beginning of a minute, and a time in its middle.
const EDGE: u64 = 1_000 * MINUTE;
const START: u64 = EDGE + MINUTE / 2;

fn per_minute(refill: Refill) -> Kept {
    let rule = TokenBucket::new(3, Duration::from_secs(60), 5).unwrap().with_refill(refill).unwrap();
    Kept { rule, state: None }
}

const ALIGNED: Refill = Refill::Aligned { anchor_us: 0 };

#[test]
fn periods_of_an_interval_begin_with_the_first_request_and_end_with_all_tokens() {
    let mut key = per_minute(Refill::Interval);
    assert_eq!(key.ask(START, 5).reset_after, Duration::from_secs(120), "two periods refill 5 tokens");
    assert_eq!(wait_of(key.ask(START + 1, 1)), MINUTE - 1);
    assert_eq!(wait_of(key.ask(START + 1, 4)), 2 * MINUTE - 1);
    assert_eq!(key.ask(START + MINUTE - 1, 0).remaining, 0);
    assert_eq!(key.ask(START + MINUTE, 0).remaining, 3);
    assert_eq!(key.ask(START + MINUTE, 3).outcome, Outcome::Allowed);
    assert_eq!(wait_of(key.ask(START + 2 * MINUTE - 7, 1)), 7);
}

#[test]
fn a_full_bucket_begins_a_period_with_its_next_request() {
    let mut key = per_minute(Refill::Interval);
    key.ask(START, 1);
    assert_eq!(key.ask(START + 90_000_000, 5).reset_after, Duration::from_secs(120));
}

#[test]
fn aligned_periods_begin_at_multiples_behind_their_anchor() {
    let mut key = per_minute(ALIGNED);
    key.ask(START, 5);
    assert_eq!(wait_of(key.ask(START, 3)), MINUTE / 2);
    assert_eq!(key.ask(START + MINUTE / 2, 3).outcome, Outcome::Allowed);
    let mut key = per_minute(Refill::Aligned { anchor_us: 7 * MINUTE + 1 });
    key.ask(START, 5);
    assert_eq!(wait_of(key.ask(START, 1)), MINUTE / 2 + 1);
}

#[test]
fn another_refill_finds_the_same_debt() {
    let rules = [Refill::Smooth, Refill::Interval, ALIGNED].map(|refill| per_minute(refill).rule);
    for first in &rules {
        for other in &rules {
            // A step: later, `aligned` would have owed less before.
            let (_, spent) = decide(first, None, EDGE, 5);
            let (denied, state) = decide(other, spent, EDGE, 1);
            assert_eq!(denied.remaining, 0, "{first:?} {other:?}");
            let admitted = decide(other, state.or(spent), EDGE + wait_of(denied), 1).0;
            assert_eq!(admitted.outcome, Outcome::Allowed, "{first:?} {other:?}");
        }
    }
}

#[test]
fn turns_of_two_refills_admit_what_one_does_and_one_refill_more() {
    let rules = [Refill::Smooth, Refill::Interval, ALIGNED, Refill::Aligned { anchor_us: MINUTE / 2 }];
    let rules = rules.map(|refill| per_minute(refill).rule);
    for first in &rules {
        for other in &rules {
            let (mut state, mut admitted) = (None, 0);
            for second in 0..600 {
                let rule = if second % 2 == 0 { first } else { other };
                let (verdict, changed) = decide(rule, state, START + second * 1_000_000, 1);
                admitted += u64::from(verdict.outcome == Outcome::Allowed);
                state = changed.or(state);
            }
            assert!((5 + 3 * 9..=5 + 3 * 10 + 3).contains(&admitted), "{first:?} {other:?}: {admitted}");
        }
    }
}

#[test]
fn a_clock_that_is_set_back_over_a_step_refills_nothing_again() {
    let (mut key, edge) = (per_minute(ALIGNED), START + MINUTE / 2);
    key.ask(START, 5);
    assert_eq!(key.ask(edge, 3).remaining, 0);
    assert_eq!(key.ask(edge - 3_000_000, 0).remaining, 0);
    assert_eq!(key.ask(edge, 0).remaining, 0, "the step was counted");
    let mut full = per_minute(ALIGNED);
    full.ask(START, 1);
    let state = full.state.unwrap();
    assert!(!state.is_expired(Moment::at(edge + MINUTE - 1)) && state.is_expired(Moment::at(edge + MINUTE)));
    assert!(!state.is_expired(Moment { now_us: u64::MAX, wall_us: 0 }), "no wall clock");
}

#[test]
fn steps_on_the_wall_clock_do_not_depend_on_the_steady_clock() {
    let (rule, steady) = (per_minute(ALIGNED).rule, 77);
    let (_, state) = rule.decide(None, Moment { now_us: steady, wall_us: START }, 5);
    let later = |us| Moment { now_us: steady + us, wall_us: START + us };
    assert_eq!(wait_of(rule.decide(state.as_ref(), later(5), 1).0), MINUTE / 2 - 5);
    let smooth = per_minute(Refill::Smooth).rule;
    let (verdict, _) = smooth.decide(state.as_ref(), later(5), 0);
    assert_eq!(verdict.remaining, 1, "half a period has passed since the step");
}

#[test]
fn a_return_after_a_step_is_reduced_by_its_refill() {
    let mut key = per_minute(Refill::Interval);
    key.ask(START, 5);
    let settled = |us: u64| key.rule.settle(key.state.as_ref(), Moment::at(START + us), -4, START);
    let left = |state, us: u64| decide(&key.rule, state, START + us, 0).0.remaining;
    assert_eq!(left(settled(1), 1), 4);
    assert_eq!(left(settled(MINUTE), MINUTE), 4, "3 of the 4 were refilled");
    assert_eq!(settled(2 * MINUTE), None);
}

#[test]
fn steps_add_their_tokens_exactly_whatever_the_numbers() {
    for (rate, secs, burst) in
        [(7, 86_400, 9), (1, 31_536_000, 2), (999_983, 1, 5_000_000), (u64::from(u32::MAX), 1, 4_294_967_296)]
    {
        let rule = TokenBucket::new(rate, Duration::from_secs(secs), burst).unwrap();
        let mut key = Kept { rule: rule.with_refill(Refill::Interval).unwrap(), state: None };
        key.ask(START, burst);
        assert_eq!(key.ask(START + secs * 1_000_000 - 1, 0).remaining, 0);
        assert_eq!(key.ask(START + secs * 1_000_000, 0).remaining, rate.min(burst));
    }
    let slow = TokenBucket::new(1, Duration::from_secs(86_400), 1_000_000).unwrap();
    assert!(slow.with_refill(Refill::Interval).is_err(), "more than 142 years");
}
