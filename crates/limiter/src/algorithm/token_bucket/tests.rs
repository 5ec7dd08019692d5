#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod changed_rules;
mod steps;

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::rule::MAX_SAFE_INTEGER;
use crate::verdict::Outcome;

fn rule(rate: u64, burst: u64) -> TokenBucket {
    TokenBucket::per_second(rate, burst).unwrap()
}

fn decide(rule: &TokenBucket, state: Option<Bucket>, now_us: u64, cost: u64) -> (RuleVerdict, Option<Bucket>) {
    rule.decide(state.as_ref(), Moment::at(now_us), cost)
}

/// One bucket under one rule, with its stored state.
struct Kept {
    rule: TokenBucket,
    state: Option<Bucket>,
}

impl Kept {
    fn new(rate: u64, burst: u64) -> Self {
        Self { rule: rule(rate, burst), state: None }
    }

    fn ask(&mut self, now_us: u64, cost: u64) -> RuleVerdict {
        let (verdict, state) = decide(&self.rule, self.state, now_us, cost);
        if state.is_some() {
            self.state = state;
        }
        verdict
    }
}

/// Reference model: the level in millionths of a token, refilled at each request.
struct Model {
    rate: u128,
    capacity: u128,
    level: u128,
    at_us: u64,
}

impl Model {
    fn ask(&mut self, now_us: u64, cost: u64) -> (bool, u128) {
        let flowed = u128::from(now_us - self.at_us) * self.rate;
        self.level = (self.level + flowed).min(self.capacity);
        self.at_us = now_us;
        let need = u128::from(cost) * 1_000_000;
        let allowed = need <= self.level;
        if allowed {
            self.level -= need;
        }
        (allowed, self.level / 1_000_000)
    }
}

fn wait_of(verdict: RuleVerdict) -> u64 {
    match verdict.outcome {
        Outcome::Denied { retry_after } => retry_after.as_micros() as u64,
        other => panic!("expected a denial, got {other:?}"),
    }
}

#[test]
fn a_new_bucket_is_full_and_admits_its_burst_at_once() {
    let mut kept = Kept::new(10, 3);
    let left: Vec<u64> = (0..3).map(|_| kept.ask(1_000, 1).remaining).collect();
    assert_eq!(left, [2, 1, 0]);
    assert_eq!(wait_of(kept.ask(1_000, 1)), 100_000);
}

#[test]
fn refills_between_seconds() {
    let mut kept = Kept::new(10, 1);
    assert_eq!(kept.ask(0, 1).outcome, Outcome::Allowed);
    assert_eq!(wait_of(kept.ask(99_999, 1)), 1);
    assert_eq!(kept.ask(100_000, 1).outcome, Outcome::Allowed);
}

#[test]
fn a_third_of_a_second_is_not_rounded() {
    let mut kept = Kept::new(3, 2);
    kept.ask(0, 2);
    assert_eq!(wait_of(kept.ask(0, 1)), 333_334);
    assert_eq!(kept.ask(333_334, 1).outcome, Outcome::Allowed);
    // The first wait was rounded up by 2 millionths, so the next token is complete a microsecond sooner.
    assert_eq!(wait_of(kept.ask(333_334, 1)), 333_333);
}

#[test]
fn more_than_the_burst_is_never_admitted() {
    let mut kept = Kept::new(10, 5);
    let verdict = kept.ask(0, 6);
    assert_eq!((verdict.outcome, verdict.remaining), (Outcome::NeverAdmitted, 5));
    assert_eq!(kept.state, None);
}

#[test]
fn a_burst_of_0_denies_every_request() {
    let mut kept = Kept::new(10, 0);
    let verdict = kept.ask(0, 1);
    assert_eq!((verdict.outcome, verdict.remaining, verdict.reset_after), (Outcome::NeverAdmitted, 0, Duration::ZERO));
}

#[test]
fn a_cost_of_0_only_reads() {
    let mut kept = Kept::new(10, 5);
    assert_eq!(kept.ask(0, 0).remaining, 5);
    assert_eq!(kept.state, None);
}

#[test]
fn the_largest_rule_does_not_overflow() {
    let most = u64::from(u32::MAX);
    let mut kept = Kept::new(1, most);
    let verdict = kept.ask(u64::MAX, most);
    assert_eq!((verdict.outcome, verdict.remaining), (Outcome::Allowed, 0));
    let mut kept = Kept::new(most, most);
    assert_eq!(kept.ask(5, most).reset_after, Duration::from_secs(1));
    assert_eq!(wait_of(kept.ask(1_000_004, most)), 1);
    let mut kept = Kept::new(1_000_000_000_000_000, MAX_SAFE_INTEGER);
    assert_eq!(kept.ask(5, MAX_SAFE_INTEGER).remaining, 0);
    assert_eq!(kept.ask(1_000_005, MAX_SAFE_INTEGER).remaining, 1_000_000_000_000_000);
    assert_eq!(kept.ask(1_000_005, u64::MAX).outcome, Outcome::NeverAdmitted);
}

#[test]
fn a_clock_that_steps_back_adds_nothing() {
    let mut kept = Kept::new(1, 10);
    kept.ask(1_000_000_000, 10);
    assert_eq!(kept.ask(0, 1).remaining, 0);
    // The key does not starve: from the step on, the bucket refills from empty.
    assert_eq!(wait_of(kept.ask(0, 1)), 1_000_000);
    assert_eq!(kept.ask(1_000_000, 1).outcome, Outcome::Allowed);
}

#[test]
fn a_correction_stays_between_empty_and_full() {
    let (rule, now) = (rule(1, 10), Moment::at(0));
    let mut state = decide(&rule, None, 0, 4).1;
    let mut settle = |more| {
        state = rule.settle(state.as_ref(), now, more, 0).or(state);
        decide(&rule, state, 0, 0).0.remaining
    };
    assert_eq!((settle(-1), settle(3), settle(100), settle(-2), settle(-100)), (7, 4, 0, 2, 10));
}

fn trace() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![Just(0), 1u64..50, 1u64..2_000_000, 1u64..1_000_000_000];
    prop::collection::vec((gap, 1u64..6), 1..80)
}

fn rates() -> impl Strategy<Value = u64> {
    prop_oneof![1u64..20, 1u64..100_000, Just(u64::from(u32::MAX))]
}

fn bursts() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..12, 1u64..1_000, Just(u64::from(u32::MAX))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decides_as_the_sequential_model(rate in rates(), burst in bursts(), trace in trace()) {
        let mut kept = Kept::new(rate, burst);
        let capacity = u128::from(burst) * 1_000_000;
        let mut model = Model { rate: rate.into(), capacity, level: capacity, at_us: 0 };
        let mut now_us = 0;
        for (gap, cost) in trace {
            now_us += gap;
            let verdict = kept.ask(now_us, cost);
            let (allowed, left) = model.ask(now_us, cost);
            prop_assert_eq!(verdict.outcome == Outcome::Allowed, allowed);
            prop_assert_eq!(u128::from(verdict.remaining), left);
        }
    }

    #[test]
    fn admits_at_most_burst_and_rate_times_elapsed_in_every_interval(
        rate in rates(), burst in 0u64..50, trace in trace()
    ) {
        let mut kept = Kept::new(rate, burst);
        let mut now_us = 0;
        let mut admitted: Vec<(u64, u128)> = Vec::new();
        for (gap, cost) in trace {
            now_us += gap;
            if kept.ask(now_us, cost).outcome == Outcome::Allowed {
                admitted.push((now_us, cost.into()));
            }
        }
        for from in 0..admitted.len() {
            let mut sum = 0;
            for &(at, cost) in &admitted[from..] {
                sum += cost * 1_000_000;
                let elapsed = u128::from(at - admitted[from].0);
                prop_assert!(sum <= u128::from(burst) * 1_000_000 + elapsed * u128::from(rate));
            }
        }
    }

    #[test]
    fn admits_again_after_exactly_the_promised_wait(
        rate in rates(), burst in 1u64..50, trace in trace(), cost in 1u64..6
    ) {
        let mut kept = Kept::new(rate, burst);
        let mut now_us = 0;
        for (gap, cost) in trace {
            now_us += gap;
            kept.ask(now_us, cost);
        }
        let verdict = kept.ask(now_us, cost);
        if let Outcome::Denied { retry_after } = verdict.outcome {
            let wait_us = retry_after.as_micros() as u64;
            let early = decide(&kept.rule, kept.state, now_us + wait_us - 1, cost).0;
            let still_denied = matches!(early.outcome, Outcome::Denied { .. });
            prop_assert!(still_denied);
            prop_assert_eq!(kept.ask(now_us + wait_us, cost).outcome, Outcome::Allowed);
        }
    }

    #[test]
    fn is_full_exactly_when_it_says_so(rate in rates(), burst in 1u64..50, cost in 1u64..6) {
        let mut kept = Kept::new(rate, burst);
        let verdict = kept.ask(7, cost.min(burst));
        let full_at = 7 + verdict.reset_after.as_micros() as u64;
        let state = kept.state.unwrap();
        prop_assert!(state.expires_at_us() == full_at);
        prop_assert_eq!(decide(&kept.rule, kept.state, full_at, burst).0.outcome, Outcome::Allowed);
    }
}
