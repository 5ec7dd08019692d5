#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod floods;
mod order;
mod properties;

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::*;
use crate::algorithm::token_bucket::Bucket;
use crate::rule::{Align, FixedWindow, Rule, TokenBucket};
use crate::verdict::{Outcome, Verdict};

fn bucket(rate: u64, burst: u64) -> TokenBucket {
    TokenBucket::per_second(rate, burst).unwrap()
}

fn rule(rate: u64, burst: u64) -> Rule {
    Rule::TokenBucket(bucket(rate, burst))
}

fn store(max_keys: usize) -> (MemoryStore, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    (MemoryStore::with_clock(clock.clone()).with_max_keys(NonZeroUsize::new(max_keys).unwrap()), clock)
}

fn decide(store: &MemoryStore, scope: &str, id: &[u8], rule: &Rule) -> Verdict {
    decide_all(store, &[Check { key: BucketKey { scope, id }, rule, cost: 1 }])
}

fn decide_all(store: &MemoryStore, checks: &[Check<'_>]) -> Verdict {
    match store.decide(checks, &[]) {
        Decision::Ready(verdict) => verdict,
        Decision::Pending(_) => panic!("the memory store decides immediately"),
    }
}

#[test]
fn keys_and_scopes_have_buckets_of_their_own() {
    let (store, _clock) = store(100);
    for (scope, id) in [("a", "bc"), ("ab", "c"), ("a", "b"), ("", "abc")] {
        assert_eq!(decide(&store, scope, id.as_bytes(), &rule(1, 1)).remaining, Some(0), "{scope}.{id} is new");
        assert!(!decide(&store, scope, id.as_bytes(), &rule(1, 1)).is_allowed());
    }
    assert_eq!(store.len(), 4);
}

#[test]
fn a_full_bucket_is_dropped_and_nothing_else_is() {
    let (store, clock) = store(100_000);
    for n in 0..10_000u32 {
        decide(&store, "r", &n.to_le_bytes(), &rule(1 + u64::from(n) % 2, 1));
    }
    clock.advance(Duration::from_millis(500));
    store.sweep();
    assert_eq!(store.len(), 5_000, "those at 2 a second are full, those at 1 a second are not");
    assert!(!decide(&store, "r", &0u32.to_le_bytes(), &rule(1, 1)).is_allowed());
    clock.advance(Duration::from_millis(500));
    store.sweep();
    assert!(store.is_empty());
}

#[test]
fn a_key_takes_at_most_40_bytes() {
    let (store, _clock) = store(1_000_000);
    for n in 0..200_000u32 {
        decide(&store, "a-route-with-a-long-name", format!("client-number-{n}").as_bytes(), &rule(1, 10));
    }
    assert_eq!(store.len(), 200_000);
    assert!(store.allocated_bytes() <= 200_000 * 40, "{} bytes", store.allocated_bytes());
}

#[test]
fn a_full_bucket_makes_room_in_its_shard_without_an_explicit_sweep() {
    // The store has spare room: one key without room, early on, would deny all later new keys.
    let (store, clock) = store(24_000);
    for round in 0..3u32 {
        for n in 0..20_000u32 {
            decide(&store, "r", &(round * 20_000 + n).to_le_bytes(), &rule(1, 1));
        }
        assert!(store.len() <= 24_000);
        clock.advance(Duration::from_secs(1));
    }
    assert!(store.overflowed() < 400, "{} without room", store.overflowed());
}

#[test]
fn eight_threads_on_one_key_are_admitted_exactly_the_burst() {
    let (store, _clock) = store(100);
    let admitted = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    let allowed = decide(&store, "r", b"hot", &rule(10, 777)).is_allowed();
                    admitted.fetch_add(allowed.into(), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 777);
}

#[test]
fn eight_threads_fill_the_store_exactly_to_its_cap() {
    let (store, _clock) = store(5_000);
    thread::scope(|scope| {
        for thread in 0..8u32 {
            let store = &store;
            scope.spawn(move || {
                for n in 0..1_000u32 {
                    decide(store, "r", &(thread * 1_000 + n).to_le_bytes(), &rule(1, 1));
                }
            });
        }
    });
    assert_eq!((store.len(), store.overflowed()), (5_000, 3_000));
}

#[test]
fn a_clock_read_before_the_latest_decision_gains_no_tokens() {
    let (store, clock) = store(100);
    let admitted = |at_us: u64| {
        clock.set(at_us);
        (0..10).filter(|_| decide(&store, "r", b"k", &rule(1, 3)).is_allowed()).count()
    };
    assert_eq!(admitted(10_000_000), 3);
    assert_eq!(admitted(9_500_000), 0);
    assert_eq!(admitted(11_000_000), 1, "the bucket was empty one second ago, not two");
}

/// Ten per second with a burst of two, and three per minute.
fn two_rules() -> [Rule; 2] {
    let minute = FixedWindow::new(3, Duration::from_secs(60), Align::First).unwrap();
    [rule(10, 2), Rule::FixedWindow(minute)]
}

fn decide_both(store: &MemoryStore, id: &[u8], rules: &[Rule; 2]) -> Verdict {
    let [first, second] = rules;
    decide_all(
        store,
        &[
            Check { key: BucketKey { scope: "r#second", id }, rule: first, cost: 1 },
            Check { key: BucketKey { scope: "r#minute", id }, rule: second, cost: 1 },
        ],
    )
}

#[test]
fn several_rules_consume_all_or_nothing() {
    let ((store, clock), rules) = (store(10_000), two_rules());
    let remaining = |verdict: &Verdict| verdict.per_rule.iter().map(|verdict| verdict.remaining).collect::<Vec<_>>();
    let first = decide_both(&store, b"a", &rules);
    assert_eq!((first.rule, remaining(&first)), (0, vec![1, 2]));
    assert_eq!(remaining(&decide_both(&store, b"a", &rules)), [0, 1]);
    let denied = decide_both(&store, b"a", &rules);
    assert_eq!((denied.rule, remaining(&denied)), (0, vec![0, 1]), "nothing was consumed of the minute");
    clock.advance(Duration::from_millis(100));
    assert!(decide_both(&store, b"a", &rules).is_allowed());
    clock.advance(Duration::from_secs(1));
    let denied = decide_both(&store, b"a", &rules);
    assert_eq!((denied.rule, remaining(&denied)), (1, vec![2, 0]), "nothing was consumed of the second");
    assert!(decide_both(&store, b"b", &rules).is_allowed());
}

#[test]
fn several_rules_hold_when_the_store_is_full() {
    let ((store, _clock), rules) = (store(2), two_rules());
    let admitted = (0..10_000u32).filter(|n| decide_both(&store, &n.to_le_bytes(), &rules).is_allowed()).count();
    assert_eq!(store.len(), 2);
    let most = 2 + 2 * store.shards();
    assert!(
        (most - 4..=most).contains(&admitted),
        "two of each shared bucket, and one of each key with room: {admitted}"
    );
}

#[test]
fn eight_threads_under_two_rules_are_admitted_exactly_the_tighter_one() {
    let (store, _clock) = store(100_000);
    let wide = rule(1, 5_000);
    let tight = rule(1, 777);
    let admitted = AtomicU32::new(0);
    thread::scope(|scope| {
        for thread in 0..8 {
            let (store, wide, tight, admitted) = (&store, &wide, &tight, &admitted);
            scope.spawn(move || {
                for _ in 0..1_000 {
                    let mut checks = [
                        Check { key: BucketKey { scope: "w", id: b"hot" }, rule: wide, cost: 1 },
                        Check { key: BucketKey { scope: "t", id: b"hot" }, rule: tight, cost: 1 },
                    ];
                    checks.rotate_left(thread % 2);
                    admitted.fetch_add(decide_all(store, &checks).is_allowed().into(), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 777);
    assert_eq!(decide(&store, "w", b"hot", &wide).remaining, Some(5_000 - 777 - 1));
}

#[test]
fn a_correction_returns_or_consumes_tokens() {
    let (store, _clock) = store(100);
    let rule = rule(1, 10);
    let check = Check { key: BucketKey { scope: "r", id: b"k" }, rule: &rule, cost: 5 };
    let verdict = decide_all(&store, &[check]);
    store.settle(check, -3, verdict.counted_at_us);
    assert_eq!(decide(&store, "r", b"k", &rule).remaining, Some(7));
    store.settle(check, 100, verdict.counted_at_us);
    assert_eq!(decide(&store, "r", b"k", &rule).remaining, Some(0));
}

#[test]
fn the_monotonic_clock_counts_microseconds() {
    let clock = MonotonicClock::default();
    let (before, start) = (clock.now_us(), std::time::Instant::now());
    while start.elapsed() < Duration::from_millis(2) {}
    assert!(clock.now_us() - before >= 2_000);
}

#[test]
fn new_keys_drop_expired_ones_without_an_explicit_sweep() {
    let (store, clock) = store(1_000_000);
    for n in 0..100_000u32 {
        decide(&store, "r", &n.to_le_bytes(), &rule(1, 1));
    }
    let peak_bytes = store.allocated_bytes();
    // 200 new keys per second, each expired after a second.
    for n in 100_000..400_000u32 {
        clock.advance(Duration::from_millis(5));
        decide(&store, "r", &n.to_le_bytes(), &rule(1, 1));
    }
    let (keys, bytes) = (store.len(), store.allocated_bytes());
    assert!(keys <= 40_000, "{keys} keys are stored, 200 of them unexpired");
    assert!(bytes < peak_bytes / 2, "{bytes} of {peak_bytes} bytes are allocated");
}
