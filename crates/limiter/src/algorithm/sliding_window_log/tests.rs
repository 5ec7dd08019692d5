#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use super::*;
use crate::verdict::Outcome;

const SECOND: u64 = 1_000_000;

fn rule(limit: u64, secs: u64) -> SlidingWindowLog {
    SlidingWindowLog::new(limit, Duration::from_secs(secs)).unwrap()
}

/// Decides a request and updates `state`.
fn decide(rule: &SlidingWindowLog, state: &mut Option<Log>, now_us: u64, cost: u64) -> RuleVerdict {
    let (verdict, change) = rule.decide(state.as_ref(), Moment::at(now_us), cost);
    keep(state, change);
    verdict
}

fn settle(rule: &SlidingWindowLog, state: &mut Option<Log>, now_us: u64, more: i64, counted_at_us: u64) {
    let change = rule.settle(state.as_ref(), Moment::at(now_us), more, counted_at_us);
    keep(state, change);
}

fn keep(state: &mut Option<Log>, change: Option<Entry>) {
    if let Some(change) = change {
        *state = Some(SlidingWindowLog::apply(state.take(), change));
    }
}

fn denied(us: u64) -> Outcome {
    Outcome::Denied { retry_after: Duration::from_micros(us) }
}

#[test]
fn tokens_count_for_exactly_one_window() {
    let (rule, mut state) = (rule(3, 60), None);
    assert_eq!(decide(&rule, &mut state, 0, 1).remaining, 2);
    assert_eq!(decide(&rule, &mut state, 10 * SECOND, 2).remaining, 0);
    assert_eq!(decide(&rule, &mut state, 20 * SECOND, 1).outcome, denied(40 * SECOND));
    assert_eq!(decide(&rule, &mut state, 60 * SECOND - 1, 1).outcome, denied(1));
    assert_eq!(decide(&rule, &mut state, 60 * SECOND, 1).outcome, Outcome::Allowed);
    assert_eq!(decide(&rule, &mut state, 60 * SECOND, 1).outcome, denied(10 * SECOND));
    assert_eq!(decide(&rule, &mut state, 70 * SECOND, 0).remaining, 2, "two tokens of one microsecond expire together");
}

#[test]
fn a_larger_cost_waits_until_enough_tokens_expire() {
    let (rule, mut state) = (rule(4, 60), None);
    for at in [1, 2, 3, 4] {
        decide(&rule, &mut state, at * SECOND, 1);
    }
    let wait = |cost| rule.decide(state.as_ref(), Moment::at(5 * SECOND), cost).0.outcome;
    assert_eq!([1, 2, 3, 4].map(wait), [56, 57, 58, 59].map(|secs| denied(secs * SECOND)));
    assert_eq!(wait(5), Outcome::NeverAdmitted);
    assert_eq!(wait(u64::MAX), Outcome::NeverAdmitted);
}

#[test]
fn resets_when_the_newest_token_expires() {
    let (rule, mut state) = (rule(4, 60), None);
    assert_eq!(decide(&rule, &mut state, 5, 0).reset_after, Duration::ZERO);
    assert_eq!(state, None, "a cost of 0 only reads");
    assert_eq!(decide(&rule, &mut state, 5, 1).reset_after, Duration::from_secs(60));
    assert_eq!(decide(&rule, &mut state, 5 + SECOND, 0).reset_after, Duration::from_secs(59));
    assert_eq!(decide(&rule, &mut state, 5 + 60 * SECOND, 0).reset_after, Duration::ZERO);
}

#[test]
fn a_denial_changes_nothing() {
    let (rule, mut state) = (rule(1, 60), None);
    decide(&rule, &mut state, 5, 1);
    assert_eq!(rule.decide(state.as_ref(), Moment::at(6), 1).1, None);
    assert_eq!(rule.decide(state.as_ref(), Moment::at(6), 9).1, None);
}

#[test]
fn a_changed_limit_or_window_keeps_the_consumed_tokens_within_the_window() {
    let mut state = None;
    for at in [0, 30, 50] {
        decide(&rule(3, 60), &mut state, at * SECOND, 1);
    }
    assert_eq!(decide(&rule(5, 60), &mut state, 55 * SECOND, 0).remaining, 2);
    assert_eq!(decide(&rule(2, 60), &mut state, 55 * SECOND, 1).outcome, denied(35 * SECOND), "two must expire");
    assert_eq!(decide(&rule(3, 10), &mut state, 55 * SECOND, 0).remaining, 2);
    assert_eq!(decide(&rule(3, 120), &mut state, 100 * SECOND, 0).remaining, 2, "the minute needs only the newest");
    decide(&rule(3, 10), &mut state, 100 * SECOND, 1);
    assert_eq!(decide(&rule(3, 60), &mut state, 100 * SECOND, 0).remaining, 1, "of 50 and 100 s");
}

#[test]
fn a_clock_set_back_blocks_a_key_for_at_most_one_window() {
    let (rule, mut state) = (rule(2, 60), None);
    decide(&rule, &mut state, 1_000 * SECOND, 1);
    decide(&rule, &mut state, 1_001 * SECOND, 1);
    let verdict = decide(&rule, &mut state, 500 * SECOND, 1);
    assert_eq!((verdict.outcome, verdict.reset_after), (denied(60 * SECOND), Duration::from_secs(60)));
    assert_eq!(decide(&rule, &mut state, 560 * SECOND - 1, 1).outcome, denied(1));
    assert_eq!(decide(&rule, &mut state, 560 * SECOND, 2).outcome, Outcome::Allowed);
}

#[test]
fn a_correction_returns_only_tokens_of_that_microsecond() {
    let (rule, mut state) = (rule(10, 60), None);
    decide(&rule, &mut state, SECOND, 4);
    decide(&rule, &mut state, 2 * SECOND, 3);
    let left = |state: &mut Option<Log>, at| decide(&rule, state, at, 0).remaining;
    settle(&rule, &mut state, 3 * SECOND, -3, SECOND);
    assert_eq!(left(&mut state, 3 * SECOND), 6);
    settle(&rule, &mut state, 3 * SECOND, -3, SECOND);
    assert_eq!(left(&mut state, 3 * SECOND), 7, "no more than was consumed then");
    settle(&rule, &mut state, 3 * SECOND, -1, SECOND + 1);
    assert_eq!(left(&mut state, 3 * SECOND), 7);
    settle(&rule, &mut state, 3 * SECOND, 100, SECOND);
    assert_eq!(left(&mut state, 3 * SECOND), 0, "no more than is available");
    assert_eq!(left(&mut state, 62 * SECOND), 3);
    settle(&rule, &mut state, 62 * SECOND, -3, 2 * SECOND);
    assert_eq!(left(&mut state, 62 * SECOND), 3, "expired tokens are not returned");
    settle(&rule, &mut state, 62 * SECOND, -7, 3 * SECOND);
    assert_eq!(left(&mut state, 62 * SECOND), 10);
}

#[test]
fn memory_follows_the_counted_tokens() {
    let (rule, mut state) = (rule(100, 1), None);
    assert_eq!(size_of::<Log>(), 16);
    for n in 0..10_000 {
        assert_eq!(decide(&rule, &mut state, n * 10_000, 1).outcome, Outcome::Allowed);
    }
    let log = state.unwrap();
    assert!(log.heap_bytes() < 128 + 256 * 16, "{} bytes for 100 runs", log.heap_bytes());
    assert_eq!(log.expires_at_us(), 9_999 * 10_000 + SECOND);
}

#[test]
fn requests_of_a_grain_share_an_entry_that_counts_from_the_last() {
    let (rule, mut state) = (rule(8_192, 1_000), None);
    assert_eq!(rule.grain_us(), SECOND);
    decide(&rule, &mut state, 10 * SECOND, 4_000);
    decide(&rule, &mut state, 10 * SECOND + 700_000, 4_000);
    decide(&rule, &mut state, 11 * SECOND, 192);
    assert_eq!(decide(&rule, &mut state, 12 * SECOND, 1).outcome, denied(998 * SECOND + 700_000));
    settle(&rule, &mut state, 12 * SECOND, -3_000, 10 * SECOND);
    assert_eq!(decide(&rule, &mut state, 12 * SECOND, 0).remaining, 3_000, "found by the time of its request");
    settle(&rule, &mut state, 12 * SECOND, -3_000, 9 * SECOND + 999_999);
    assert_eq!(decide(&rule, &mut state, 12 * SECOND, 0).remaining, 3_000, "of another grain");
}

#[test]
fn a_write_drops_a_bounded_number_of_entries() {
    let (rule, mut state) = (rule(1_000, 60), None);
    for n in 0..1_000 {
        decide(&rule, &mut state, n, 1);
    }
    let length = |state: &Option<Log>| state.as_ref().unwrap().runs.as_ref().unwrap().list.len();
    decide(&rule, &mut state, 100 * SECOND, 1);
    assert_eq!(length(&state), 1_000 - 64 + 1);
    assert_eq!(decide(&rule, &mut state, 100 * SECOND, 0).remaining, 999);
    for n in 1..16 {
        decide(&rule, &mut state, 100 * SECOND + n, 1);
    }
    assert_eq!(length(&state), 16);
}

#[test]
fn a_shorter_window_drops_nothing_that_the_longer_one_counts() {
    let (short, long, mut state) = (rule(10, 1), rule(100, 3_600), None);
    decide(&long, &mut state, 0, 90);
    for second in 1..=20 {
        assert_eq!(decide(&short, &mut state, second * SECOND, 10).outcome, Outcome::Allowed);
    }
    assert_eq!(decide(&long, &mut state, 21 * SECOND, 1).outcome, denied(3_590 * SECOND));
    let runs = state.as_ref().unwrap().runs.as_ref().unwrap();
    assert!(runs.list.len() <= 11, "{} entries for the last hundred tokens", runs.list.len());
}

#[test]
fn a_denial_renews_a_window_that_only_a_shorter_one_fills() {
    let (short, long, mut state) = (rule(10, 1), rule(100, 60), None);
    decide(&long, &mut state, 0, 1);
    for second in 1..2_000 {
        decide(&short, &mut state, second * SECOND, 10);
        if second > 20 && second % 59 == 0 {
            assert!(!matches!(decide(&long, &mut state, second * SECOND, 1).outcome, Outcome::Allowed), "{second}");
        }
    }
    for second in 2_000..2_200 {
        decide(&short, &mut state, second * SECOND, 10);
    }
    let runs = state.as_ref().unwrap().runs.as_ref().unwrap();
    assert_eq!(runs.list.len(), 1, "forgotten after three minutes of silence");
}

#[test]
fn a_fine_window_beside_a_coarse_one_keeps_a_bounded_log() {
    let (short, long, mut state) = (rule(1_000, 1), rule(10_000_000, 3_600), None);
    let (mut now_us, mut admitted, mut longest) = (1_000 * SECOND + 7, 0_u64, 0);
    decide(&long, &mut state, now_us, 1);
    for burst in 0..40_u64 {
        for _ in 0..1_000 {
            now_us += 613;
            admitted += u64::from(decide(&short, &mut state, now_us, 1).outcome == Outcome::Allowed);
        }
        now_us += (1 + burst % 40) * SECOND;
        longest = longest.max(state.as_ref().unwrap().runs.as_ref().unwrap().list.len());
    }
    assert!(longest < 4_000, "{longest} entries");
    assert_eq!(decide(&long, &mut state, now_us, 0).remaining, 10_000_000 - 1 - admitted);
}

#[test]
fn requests_of_a_coarse_window_move_no_tokens_of_a_shorter_one() {
    let (short, long, mut state) = (rule(10, 1), rule(10_000, 3_600), None);
    decide(&short, &mut state, 36_000 * SECOND, 10);
    for tenth in 1..10 {
        decide(&long, &mut state, 36_000 * SECOND + tenth * SECOND / 10, 1);
    }
    assert_eq!(decide(&short, &mut state, 36_001 * SECOND, 0).remaining, 1, "only the nine others count");
}

#[test]
fn a_limit_up_to_a_thousand_shares_no_entry_with_a_larger_limit_of_its_window() {
    let (exact, coarse, mut state) = (rule(3, 60), rule(10_000, 60), None);
    let start = 36_000 * SECOND;
    decide(&coarse, &mut state, start, 1);
    decide(&exact, &mut state, start + 814, 2);
    assert_eq!(decide(&exact, &mut state, start + 815, 1).outcome, denied(60 * SECOND - 815), "the first expires");
    assert_eq!(decide(&exact, &mut state, start + 60 * SECOND - 1, 1).outcome, denied(1));
    assert_eq!(decide(&exact, &mut state, start + 60 * SECOND, 1).outcome, Outcome::Allowed);
}

#[test]
fn a_larger_limit_delays_tokens_of_its_grain_that_a_limit_up_to_a_thousand_consumed() {
    let (exact, coarse, mut state) = (rule(10, 60), rule(10_000, 60), None);
    let (start, grain) = (36_000 * SECOND, 60_000);
    decide(&exact, &mut state, start, 3);
    decide(&coarse, &mut state, start + grain - 1, 1);
    decide(&coarse, &mut state, start + grain, 1);
    assert_eq!(decide(&exact, &mut state, start + 60 * SECOND, 0).remaining, 5, "three of them a grain longer");
    settle(&exact, &mut state, start + 60 * SECOND - 1, -3, start);
    assert_eq!(decide(&exact, &mut state, start + 60 * SECOND + grain - 2, 0).remaining, 5, "their time has changed");
    assert_eq!(decide(&exact, &mut state, start + 60 * SECOND + grain - 1, 0).remaining, 9);
    assert_eq!(decide(&exact, &mut state, start + 60 * SECOND + grain, 0).remaining, 10);
}

#[test]
fn a_raised_limit_of_a_longer_window_counts_what_the_former_one_and_the_shorter_window_needed() {
    let (short, long, raised, mut state) = (rule(3_000, 1), rule(3, 60), rule(5_000, 60), None);
    decide(&long, &mut state, 0, 1);
    for second in 1..=10 {
        decide(&short, &mut state, second * SECOND, 1);
    }
    assert_eq!(decide(&raised, &mut state, 10 * SECOND, 0).remaining, 5_000 - 4, "three, and that of the last second");
    decide(&raised, &mut state, 10 * SECOND, 1);
    for second in 11..=20 {
        decide(&short, &mut state, second * SECOND, 1);
    }
    assert_eq!(decide(&raised, &mut state, 20 * SECOND, 0).remaining, 5_000 - 15, "from then on everything");
}

#[test]
fn tokens_are_returned_if_at_most_a_thousand_entries_change() {
    let list: VecDeque<Run> = (0..3_000).map(|n| Run { at_us: 100 * SECOND + n, sum: n + 1 }).collect();
    let windows = UsedWindows::default().noted(1_000, 60 * SECOND, 100 * SECOND);
    let state = Log { expires_at_us: u64::MAX, runs: Some(Box::new(Runs { dropped: 0, list, windows })) };
    let rule = rule(1_000, 60);
    for at in 0..3_000 {
        let change = rule.settle(Some(&state), Moment::at(101 * SECOND), -1, 100 * SECOND + at);
        assert_eq!(change.is_some(), at <= 1_000 || at >= 1_999, "{at}");
    }
}
