#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;

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
    (MemoryStore::with_clock(NonZeroUsize::new(max_keys).unwrap(), clock.clone()), clock)
}

fn ask(store: &MemoryStore, scope: &str, id: &[u8], rule: &Rule) -> Verdict {
    ask_all(store, &[Check { key: BucketKey { scope, id }, rule, cost: 1 }])
}

fn ask_all(store: &MemoryStore, checks: &[Check<'_>]) -> Verdict {
    match store.decide(checks) {
        Decision::Ready(verdict) => verdict,
        Decision::Pending(_) => panic!("memory never waits"),
    }
}

#[test]
fn keys_and_scopes_have_buckets_of_their_own() {
    let (store, _clock) = store(100);
    for (scope, id) in [("a", "bc"), ("ab", "c"), ("a", "b"), ("", "abc")] {
        assert_eq!(ask(&store, scope, id.as_bytes(), &rule(1, 1)).remaining, Some(0), "{scope}.{id} is new");
        assert!(!ask(&store, scope, id.as_bytes(), &rule(1, 1)).is_allowed());
    }
    assert_eq!(store.len(), 4);
}

#[test]
fn a_full_bucket_is_forgotten_and_nothing_else_is() {
    let (store, clock) = store(100_000);
    for n in 0..10_000u32 {
        ask(&store, "r", &n.to_le_bytes(), &rule(1 + u64::from(n) % 2, 1));
    }
    clock.advance(Duration::from_millis(500));
    store.sweep();
    assert_eq!(store.len(), 5_000, "those at 2 a second are full, those at 1 a second are not");
    assert!(!ask(&store, "r", &0u32.to_le_bytes(), &rule(1, 1)).is_allowed());
    clock.advance(Duration::from_millis(500));
    store.sweep();
    assert!(store.is_empty());
}

#[test]
fn a_key_takes_at_most_40_bytes() {
    let (store, _clock) = store(1_000_000);
    for n in 0..200_000u32 {
        ask(&store, "a-route-with-a-long-name", format!("client-number-{n}").as_bytes(), &rule(1, 10));
    }
    assert_eq!(store.len(), 200_000);
    assert!(store.allocated_bytes() <= 200_000 * 40, "{} bytes", store.allocated_bytes());
}

#[test]
fn a_flood_of_keys_shares_one_bucket_and_drained_ones_stay_drained() {
    let (store, clock) = store(50);
    for n in 0..50u32 {
        assert!(ask(&store, "r", &n.to_le_bytes(), &rule(1, 1)).is_allowed());
    }
    let admitted = (50..100_000u32).filter(|n| ask(&store, "r", &n.to_le_bytes(), &rule(1, 1)).is_allowed()).count();
    assert_eq!(admitted, 1, "all new keys share one burst");
    assert_eq!((store.len(), store.overflowed()), (50, 99_950));
    assert!(store.allocated_bytes() < 100_000);
    assert!((0..50u32).all(|n| !ask(&store, "r", &n.to_le_bytes(), &rule(1, 1)).is_allowed()));
    assert!(ask(&store, "other", b"x", &rule(1, 1)).is_allowed(), "another scope has an overflow bucket of its own");
    clock.advance(Duration::from_secs(1));
    assert!(ask(&store, "r", &7u32.to_le_bytes(), &rule(1, 1)).is_allowed());
}

#[test]
fn a_key_that_leaves_the_shared_bucket_takes_its_debt_along() {
    let (store, clock) = store(1);
    ask(&store, "r", b"first", &rule(10, 1));
    let slow = rule(1, 3);
    let admitted = |store: &MemoryStore| (0..10).filter(|_| ask(store, "r", b"second", &slow).is_allowed()).count();
    assert_eq!(admitted(&store), 3);
    clock.advance(Duration::from_millis(200));
    store.sweep();
    assert_eq!(admitted(&store), 0, "there is room now, but three were admitted 200 ms ago");
    clock.advance(Duration::from_millis(800));
    assert_eq!(admitted(&store), 1);
    assert_eq!(store.len(), 1);
}

#[test]
fn a_full_bucket_makes_room_in_its_shard_without_a_sweeper() {
    // Some room more than is asked for at once: one key that finds none, early on, denies all new ones behind it.
    let (store, clock) = store(24_000);
    for round in 0..3u32 {
        for n in 0..20_000u32 {
            ask(&store, "r", &(round * 20_000 + n).to_le_bytes(), &rule(1, 1));
        }
        assert!(store.len() <= 24_000);
        clock.advance(Duration::from_secs(1));
    }
    assert!(store.overflowed() < 400, "{} found no room", store.overflowed());
}

#[test]
fn eight_threads_on_one_key_are_admitted_exactly_the_burst() {
    let (store, _clock) = store(100);
    let admitted = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    let allowed = ask(&store, "r", b"hot", &rule(10, 777)).is_allowed();
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
                    ask(store, "r", &(thread * 1_000 + n).to_le_bytes(), &rule(1, 1));
                }
            });
        }
    });
    assert_eq!((store.len(), store.overflowed()), (5_000, 3_000));
}

#[test]
fn whoever_read_the_clock_earlier_than_the_last_to_decide_gains_nothing() {
    let (store, clock) = store(100);
    let admitted = |at_us: u64| {
        clock.set(at_us);
        (0..10).filter(|_| ask(&store, "r", b"k", &rule(1, 3)).is_allowed()).count()
    };
    assert_eq!(admitted(10_000_000), 3);
    assert_eq!(admitted(9_500_000), 0);
    assert_eq!(admitted(11_000_000), 1, "a second has gone by since the bucket was empty, not two");
}

/// Ten a second and three a minute, for one client.
fn two_rules() -> [Rule; 2] {
    let minute = FixedWindow::new(3, Duration::from_secs(60), Align::First).unwrap();
    [rule(10, 2), Rule::FixedWindow(minute)]
}

fn ask_both(store: &MemoryStore, id: &[u8], rules: &[Rule; 2]) -> Verdict {
    let [first, second] = rules;
    ask_all(
        store,
        &[
            Check { key: BucketKey { scope: "r#second", id }, rule: first, cost: 1 },
            Check { key: BucketKey { scope: "r#minute", id }, rule: second, cost: 1 },
        ],
    )
}

#[test]
fn several_rules_take_all_or_nothing() {
    let ((store, clock), rules) = (store(10_000), two_rules());
    let left = |verdict: &Verdict| verdict.per_rule.iter().map(|answer| answer.remaining).collect::<Vec<_>>();
    let first = ask_both(&store, b"a", &rules);
    assert_eq!((first.rule, left(&first)), (0, vec![1, 2]));
    assert_eq!(left(&ask_both(&store, b"a", &rules)), [0, 1]);
    let denied = ask_both(&store, b"a", &rules);
    assert_eq!((denied.rule, left(&denied)), (0, vec![0, 1]), "nothing was taken of the minute");
    clock.advance(Duration::from_millis(100));
    assert!(ask_both(&store, b"a", &rules).is_allowed());
    clock.advance(Duration::from_secs(1));
    let denied = ask_both(&store, b"a", &rules);
    assert_eq!((denied.rule, left(&denied)), (1, vec![2, 0]), "nothing was taken of the second");
    assert!(ask_both(&store, b"b", &rules).is_allowed());
}

#[test]
fn several_rules_hold_when_the_store_is_full() {
    let ((store, _clock), rules) = (store(2), two_rules());
    let admitted = (0..1_000u32).filter(|n| ask_both(&store, &n.to_le_bytes(), &rules).is_allowed()).count();
    assert_eq!(admitted, 2 + 1, "two of the first key at most, then two of what all others share; one is the first's");
    assert_eq!(store.len(), 2);
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
                    admitted.fetch_add(ask_all(store, &checks).is_allowed().into(), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 777);
    assert_eq!(ask(&store, "w", b"hot", &wide).remaining, Some(5_000 - 777 - 1));
}

#[test]
fn a_correction_gives_back_and_takes_more() {
    let (store, _clock) = store(100);
    let rule = rule(1, 10);
    let check = Check { key: BucketKey { scope: "r", id: b"k" }, rule: &rule, cost: 5 };
    let verdict = ask_all(&store, &[check]);
    store.settle(check, -3, verdict.counted_at_us);
    assert_eq!(ask(&store, "r", b"k", &rule).remaining, Some(7));
    store.settle(check, 100, verdict.counted_at_us);
    assert_eq!(ask(&store, "r", b"k", &rule).remaining, Some(0));
}

#[test]
fn the_monotonic_clock_counts_microseconds() {
    let clock = MonotonicClock::default();
    let (before, start) = (clock.now_us(), std::time::Instant::now());
    while start.elapsed() < Duration::from_millis(2) {}
    assert!(clock.now_us() - before >= 2_000);
}

#[derive(Clone, Debug)]
struct Step {
    gap_us: u64,
    key: u8,
    cost: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![Just(0), 1u64..1_000, 1u64..2_000_000, 1u64..100_000_000];
    let step = (gap, 0u8..4, 1u64..5).prop_map(|(gap_us, key, cost)| Step { gap_us, key, cost });
    prop::collection::vec(step, 1..100)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decides_as_one_bucket_a_key_whatever_is_swept(
        rate in 1u64..1_000, burst in 0u64..20, steps in steps(), sweep_every in 1usize..20
    ) {
        let (store, clock) = store(1_000);
        let mut model: [Option<Bucket>; 4] = [None; 4];
        for (n, step) in steps.iter().enumerate() {
            clock.advance(Duration::from_micros(step.gap_us));
            let rule = bucket(rate, burst);
            let state = &mut model[usize::from(step.key)];
            let (expected, new) = rule.decide(state.as_ref(), Moment::at(clock.now_us()), step.cost);
            *state = new.or(*state);
            let check = Check { key: BucketKey { scope: "r", id: &[step.key] }, rule: &Rule::Gcra(rule), cost: step.cost };
            prop_assert_eq!(ask_all(&store, &[check]), expected.into_verdict(Source::Memory));
            if n % sweep_every == 0 {
                store.sweep_shard(n);
            }
        }
    }

    #[test]
    fn no_key_passes_its_bound_when_the_store_is_too_small(max_keys in 1usize..4, steps in steps()) {
        let (store, clock) = store(max_keys);
        let (rate, burst) = (2u64, 3u64);
        let mut admitted: [Vec<u64>; 4] = Default::default();
        for (n, step) in steps.iter().enumerate() {
            clock.advance(Duration::from_micros(step.gap_us));
            let verdict = ask(&store, "r", &[step.key], &rule(rate, burst));
            let of_key = &mut admitted[usize::from(step.key)];
            if verdict.outcome == Outcome::Allowed {
                of_key.push(clock.now_us());
                for (from, &at) in of_key.iter().enumerate() {
                    let tokens = (of_key.len() - from) as u64;
                    prop_assert!(tokens * 1_000_000 <= burst * 1_000_000 + rate * (clock.now_us() - at));
                }
            }
            if n % 7 == 0 {
                store.sweep();
            }
        }
    }
}
