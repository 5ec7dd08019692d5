//! A key under several rules.

use super::*;

#[test]
fn a_changed_rule_keeps_the_consumed_tokens() {
    let (_, spent) = decide(&rule(1, 10), None, 0, 10);
    assert_eq!(decide(&rule(1, 20), spent, 0, 1).0.remaining, 9, "10 of the 20 remain, one of them consumed now");
    let (denied, rebased) = decide(&rule(100, 10), spent, 0, 1);
    assert_eq!(denied.remaining, 0, "a higher rate returns nothing");
    assert_eq!(wait_of(denied), 10_000, "the next token comes at the new rate");
    assert_eq!(decide(&rule(100, 10), rebased, 10_000, 1).0.outcome, Outcome::Allowed, "the token is available");
    let (fast, fast_spent) = decide(&rule(1_000, 10), None, 0, 10);
    assert_eq!(fast.reset_after, Duration::from_millis(10));
    assert_eq!(decide(&rule(1, 10), fast_spent, 0, 1).0.remaining, 0, "a lower rate returns nothing either");
}

#[test]
fn a_smaller_burst_finds_the_whole_debt() {
    let (_, spent) = decide(&rule(1, 100), None, 0, 100);
    let (denied, unchanged) = decide(&rule(1, 5), spent, 0, 1);
    assert_eq!((denied.remaining, denied.reset_after), (0, Duration::from_secs(100)));
    assert_eq!((wait_of(denied), unchanged), (96_000_000, None));
    let (verdict, state) = decide(&rule(1, 5), spent, 96_000_000, 1);
    assert_eq!(verdict.outcome, Outcome::Allowed);
    assert_eq!(decide(&rule(1, 100), state, 96_000_000, 95).0.remaining, 0, "5 of the 100 are spent");
    assert_eq!(decide(&rule(1, 5), spent, 0, 0).0.outcome, Outcome::Allowed, "a read");
}

#[test]
fn a_clock_set_back_leaves_at_most_the_largest_burst_that_was_spent() {
    let (_, spent) = decide(&rule(1, 100), None, 1_000_000_000, 100);
    let (_, faster) = decide(&rule(2, 5), spent, 1_000_000_000, 1);
    let wait = |state| wait_of(decide(&rule(2, 5), state, 0, 1).0);
    assert_eq!(wait(faster), 48_000_000, "100 tokens at 2 per second, less the 4 that may stay spent");
    let (_, few) = decide(&rule(2, 5), None, 1_000_000_000, 5);
    assert_eq!(wait(few), 500_000);
}

#[test]
fn a_changed_period_keeps_the_consumed_tokens() {
    let per = |tokens, secs| TokenBucket::new(tokens, Duration::from_secs(secs), tokens).unwrap();
    let (_, spent) = decide(&per(10, 3_600), None, 0, 10);
    assert_eq!(decide(&per(20, 3_600), spent, 1_000_000, 1).0.remaining, 9, "exactly 10 more");
    assert_eq!(decide(&per(20, 86_400), spent, 1_000_000, 1).0.remaining, 9);
}

#[test]
fn rules_side_by_side_in_other_units_lose_nothing_at_equal_rates() {
    let (second, minute) = (rule(50, 50), TokenBucket::new(3_000, Duration::from_secs(60), 50).unwrap());
    let (mut state, mut admitted) = (None, 0);
    // Every 7 µs, which is not a whole number of units per second, for a second.
    for step in 0..=142_857 {
        let rule = if step % 2 == 0 { &second } else { &minute };
        let (verdict, change) = decide(rule, state, step * 7, 1);
        admitted += u64::from(verdict.outcome == Outcome::Allowed);
        state = change.or(state);
    }
    assert_eq!(admitted, 50 + 49);
}

#[test]
fn a_debt_beyond_the_units_of_a_slow_rule_is_kept() {
    let (fast, slow) = (rule(1_000_000, 1_000_000), TokenBucket::new(1, Duration::from_secs(31_536_000), 100).unwrap());
    let (_, spent) = decide(&fast, None, 0, 1_000_000);
    let (verdict, state) = decide(&slow, spent, 0, 1);
    assert_ne!(verdict.outcome, Outcome::Allowed);
    assert_eq!(decide(&fast, state.or(spent), 0, 1).0.remaining, 0);
}
