#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod model;

use std::time::Duration;

use super::*;
use crate::verdict::Outcome;

const MS: u64 = 1_000;

/// `rate` per second, at most `max_wait_ms` and `max_queue` requests.
fn leaky_bucket(rate: u64, max_wait_ms: u64, max_queue: u64) -> LeakyBucket {
    LeakyBucket::new(rate, Duration::from_secs(1))
        .unwrap()
        .with_max_wait(Duration::from_millis(max_wait_ms))
        .unwrap()
        .with_max_queue(max_queue)
        .unwrap()
}

/// One queue with its stored state. It starts at 1 s.
#[derive(Default)]
struct StoredQueue {
    state: Option<QueueState>,
}

impl StoredQueue {
    fn decide(&mut self, rule: &LeakyBucket, at_ms: u64, cost: u64) -> RuleVerdict {
        let (verdict, change) = rule.decide(self.state.as_ref(), Moment::at(1_000_000 + at_ms * MS), cost);
        self.state = change.or(self.state.take());
        verdict
    }

    /// Returns the wait in ms, if admitted.
    fn wait(&mut self, rule: &LeakyBucket, at_ms: u64) -> Option<u64> {
        let verdict = self.decide(rule, at_ms, 1);
        (verdict.outcome == Outcome::Allowed).then_some(verdict.delay.as_micros() as u64 / MS)
    }

    /// Returns the turn at `turn_ms`.
    fn leave(&mut self, rule: &LeakyBucket, at_ms: u64, cost: i64, turn_ms: u64) -> bool {
        let change =
            rule.settle(self.state.as_ref(), Moment::at(1_000_000 + at_ms * MS), -cost, 1_000_000 + turn_ms * MS);
        let changed = change.is_some();
        self.state = change.or(self.state.take());
        changed
    }
}

fn denied(ms: u64) -> Outcome {
    Outcome::Denied { retry_after: Duration::from_millis(ms) }
}

#[test]
fn a_burst_is_spread_out_and_its_end_denied() {
    let (rule, mut queue) = (leaky_bucket(10, 1_000, 5), StoredQueue::default());
    let waits: Vec<_> = (0..8).map(|_| queue.wait(&rule, 0)).collect();
    assert_eq!(waits, [Some(0), Some(100), Some(200), Some(300), Some(400), Some(500), None, None]);
    let verdict = queue.decide(&rule, 30, 1);
    assert_eq!((verdict.outcome, verdict.remaining, verdict.reset_after), (denied(70), 0, Duration::from_millis(570)));
    assert_eq!(queue.wait(&rule, 100), Some(500));
}

#[test]
fn remaining_is_the_free_places() {
    let (rule, mut queue) = (leaky_bucket(10, 1_000, 3), StoredQueue::default());
    assert_eq!(queue.decide(&rule, 0, 0).remaining, 4);
    assert_eq!([0; 4].map(|at| queue.decide(&rule, at, 1).remaining), [3, 2, 1, 0]);
    assert_eq!(queue.decide(&rule, 100, 0).remaining, 1);
    assert_eq!(queue.decide(&rule, 10_000, 0).remaining, 4);
}

#[test]
fn max_wait_denies_before_the_queue_is_full() {
    let (rule, mut queue) = (leaky_bucket(10, 250, 100), StoredQueue::default());
    assert_eq!([0; 4].map(|at| queue.wait(&rule, at)), [Some(0), Some(100), Some(200), None]);
    assert_eq!(queue.decide(&rule, 0, 1).outcome, denied(50));
    assert_eq!(queue.wait(&rule, 50), Some(250));
}

#[test]
fn no_request_waits_without_a_queue_and_idle_time_is_not_stored() {
    let (rule, mut queue) = (leaky_bucket(10, 1_000, 0), StoredQueue::default());
    assert_eq!(queue.wait(&rule, 0), Some(0));
    assert_eq!(queue.decide(&rule, 99, 1).outcome, denied(1));
    assert_eq!([60_000, 60_000].map(|at| queue.wait(&rule, at)), [Some(0), None]);
}

#[test]
fn a_cost_delays_later_requests() {
    let (rule, mut queue) = (leaky_bucket(10, 1_000, 5), StoredQueue::default());
    assert_eq!(queue.decide(&rule, 0, 3).delay, Duration::ZERO);
    assert_eq!(queue.wait(&rule, 0), Some(300));
    assert_eq!(queue.decide(&rule, 0, 7).outcome, Outcome::NeverAdmitted);
    assert_eq!(queue.decide(&rule, 0, 6).delay, Duration::from_millis(400));
    assert_eq!(queue.decide(&rule, 0, 1).outcome, denied(500));
}

#[test]
fn a_returned_turn_goes_to_the_next_request() {
    let (rule, mut queue) = (leaky_bucket(10, 1_000, 5), StoredQueue::default());
    (0..5).for_each(|_| assert!(queue.wait(&rule, 0).is_some()));
    assert!(queue.leave(&rule, 10, 1, 200));
    assert_eq!(queue.decide(&rule, 10, 0).remaining, 2);
    assert_eq!(queue.wait(&rule, 10), Some(190), "the gap");
    assert_eq!(queue.wait(&rule, 10), Some(490), "the end of the queue");
    assert!(queue.leave(&rule, 10, 1, 500));
    assert_eq!(queue.state.as_ref().unwrap().gaps(), []);
    assert_eq!(queue.wait(&rule, 10), Some(490), "the queue is shorter again");
}

#[test]
fn adjacent_gaps_are_merged() {
    let (rule, mut queue) = (leaky_bucket(10, 1_000, 9), StoredQueue::default());
    (0..6).for_each(|_| assert!(queue.wait(&rule, 0).is_some()));
    for turn in [200, 400, 300] {
        assert!(queue.leave(&rule, 0, 1, turn));
    }
    assert_eq!(queue.decide(&rule, 0, 3).delay, Duration::from_millis(200));
    assert!(queue.leave(&rule, 0, 3, 200) && queue.leave(&rule, 0, 1, 500));
    assert_eq!(queue.wait(&rule, 0), Some(200));
    assert_eq!(queue.state.as_ref().unwrap().gaps(), []);
}

#[test]
fn a_gap_partly_in_the_past_keeps_turns_an_interval_apart() {
    let (rule, mut queue) = (leaky_bucket(10, 1_000, 5), StoredQueue::default());
    (0..3).for_each(|_| assert!(queue.wait(&rule, 0).is_some()));
    assert!(queue.leave(&rule, 0, 1, 100));
    assert_eq!(queue.wait(&rule, 101), Some(199), "99 ms of the gap are too short");
}

#[test]
fn unassigned_or_begun_turns_are_not_returned() {
    let (rule, mut queue) = (leaky_bucket(10, 1_000, 5), StoredQueue::default());
    (0..4).for_each(|_| assert!(queue.wait(&rule, 0).is_some()));
    for (at, cost, turn) in [(0, 1, 0), (100, 1, 100), (0, 1, 301), (0, 2, 300), (0, 1, 400), (0, i64::MAX, 200)] {
        assert!(!queue.leave(&rule, at, cost, turn), "{cost} at {turn}");
    }
    assert!(queue.leave(&rule, 0, 1, 200));
    for turn in [200, 150, 250] {
        assert!(!queue.leave(&rule, 0, 1, turn), "again, {turn}");
    }
}

#[test]
fn assigned_turns_survive_a_changed_rule() {
    let (slow, fast, mut queue) = (leaky_bucket(1, 10_000, 5), leaky_bucket(100, 10_000, 5), StoredQueue::default());
    (0..3).for_each(|_| assert!(queue.wait(&slow, 0).is_some()));
    assert_eq!(queue.decide(&fast, 0, 1).outcome, denied(2_950));
    assert_eq!(queue.wait(&fast, 2_950), Some(50));
    assert_eq!(queue.wait(&fast, 2_950), None);
    assert_eq!(queue.wait(&fast, 2_960), Some(50));
}

#[test]
fn a_clock_set_back_moves_the_queue_along() {
    let (rule, mut queue) = (leaky_bucket(10, 1_000, 5), StoredQueue::default());
    (0..6).for_each(|_| assert!(queue.wait(&rule, 60_000).is_some()));
    assert!(queue.leave(&rule, 60_000, 1, 60_200));
    assert_eq!(queue.wait(&rule, 5), Some(200), "the gap moved along");
    assert_eq!(queue.decide(&rule, 5, 1).outcome, denied(100));
    assert_eq!(queue.wait(&rule, 105), Some(500), "time continues from there");
}

#[test]
fn a_denial_writes_nothing_unless_the_clock_was_set_back() {
    let (rule, mut queue) = (leaky_bucket(10, 1_000, 0), StoredQueue::default());
    assert_eq!(queue.wait(&rule, 9_000), Some(0));
    let writes = |at_us| rule.decide(queue.state.as_ref(), Moment::at(at_us), 1).1.is_some();
    assert!(!writes(10_050_000) && writes(5_000_000));
}

#[test]
fn a_higher_cost_moves_the_end_of_the_queue_within_its_bound() {
    let (rule, mut queue) = (leaky_bucket(10, 1_000, 5), StoredQueue::default());
    let more = |queue: &mut StoredQueue, more| {
        queue.state = rule.settle(queue.state.as_ref(), Moment::at(1_000_000), more, 1_000_000).or(queue.state.take());
        queue.decide(&rule, 0, 0).remaining
    };
    assert!(queue.wait(&rule, 0).is_some());
    assert_eq!((more(&mut queue, 2), more(&mut queue, 100), more(&mut queue, 1)), (3, 0, 0));
}

#[test]
fn gaps_beyond_the_bound_expire_unused() {
    let (rule, mut queue) = (leaky_bucket(10, 60_000, 100), StoredQueue::default());
    (0..100).for_each(|_| assert!(queue.wait(&rule, 0).is_some()));
    let given = (1..50).filter(|n| queue.leave(&rule, 0, 1, n * 200)).count();
    assert_eq!(given, MAX_GAPS);
    assert!(queue.state.as_ref().unwrap().heap_bytes() < 700);
}

/// `SmoothRateLimiterTest.testWarmUp` of Guava: 2 per second, 4 s of warm-up.
#[test]
fn warms_up_as_guava_does() {
    let rule = leaky_bucket(2, 100_000, 100).with_warm_up(Duration::from_secs(4)).unwrap();
    let mut queue = StoredQueue::default();
    let mut spacing = |at_ms| {
        let waits: Vec<u64> = (0..9).map(|_| queue.wait(&rule, at_ms).unwrap()).collect();
        waits.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
    };
    let warming = [1_375, 1_125, 875, 625, 500, 500, 500, 500];
    assert_eq!(spacing(0), warming);
    // The last turn ends at 6.5 s. Half of the warm-up later, 4 permits are stored, all below the threshold.
    assert_eq!(spacing(6_500 + 2_000), [500; 8]);
    assert_eq!(spacing(13_000 + 4_000), warming, "cold again");
}

#[test]
fn a_warm_queue_expires_when_it_is_idle_for_the_cool_down() {
    let rule = leaky_bucket(2, 100_000, 100).with_warm_up(Duration::from_secs(4)).unwrap();
    let mut queue = StoredQueue::default();
    queue.wait(&rule, 0);
    // 1.375 s for the turn, and the time in which one of 8 permits is stored.
    assert_eq!(queue.state.unwrap().expires_at_us(), 1_000_000 + 1_375_000 + 500_000);
}
