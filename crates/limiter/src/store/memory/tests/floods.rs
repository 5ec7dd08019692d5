//! Floods of keys: shares of limiters, shared states and their bounds.

use proptest::prelude::*;

use super::*;
use crate::rule::Quota;

fn admitted(store: &MemoryStore, scope: &str, ids: std::ops::Range<u32>, rule: &Rule) -> usize {
    ids.filter(|id| decide(store, scope, &id.to_le_bytes(), rule).is_allowed()).count()
}

fn declare(store: &MemoryStore, scopes: &[&str]) {
    store.declare(scopes.iter().map(|scope| Arc::from(*scope)));
}

#[test]
fn new_keys_of_a_full_limiter_share_one_bucket_per_shard() {
    let (store, clock) = store(50);
    assert_eq!(admitted(&store, "r", 0..50, &rule(1, 2)), 50);
    assert_eq!(admitted(&store, "r", 50..100_000, &rule(1, 2)), 2 * store.shards());
    assert_eq!((store.len(), store.overflowed()), (50, 99_950));
    assert!(store.allocated_bytes() < 200_000);
    assert_eq!(admitted(&store, "r", 0..50, &rule(1, 2)), 50, "known keys keep their own buckets");
    assert_eq!(admitted(&store, "r", 0..50, &rule(1, 2)), 0);
    clock.advance(Duration::from_secs(1));
    assert_eq!(admitted(&store, "r", 50..100_000, &rule(1, 2)), store.shards(), "the rate of each shared bucket");
}

#[test]
fn a_flood_on_one_limiter_leaves_the_shares_of_others() {
    let (store, clock) = store(1_000);
    declare(&store, &["a", "b"]);
    admitted(&store, "a", 0..100_000, &rule(1, 1));
    assert_eq!(store.len(), 750, "the share of a, and the pool");
    assert_eq!(admitted(&store, "b", 0..250, &rule(1, 2)), 250);
    assert_eq!(admitted(&store, "b", 0..250, &rule(1, 2)), 250, "each has a bucket of its own");
    assert_eq!(admitted(&store, "b", 0..250, &rule(1, 2)), 0);
    assert_eq!((store.len(), store.report_overflows()), (1_000, vec![("a".into(), 100_000 - 750)]));
    assert_eq!(store.report_overflows(), [], "reported once");
    // Expired entries of the flood make room in the pool.
    clock.advance(Duration::from_secs(1));
    store.sweep();
    assert_eq!(admitted(&store, "b", 250..750, &rule(1, 2)), 500);
    assert_eq!(admitted(&store, "b", 250..750, &rule(1, 2)), 500);
}

#[test]
fn a_limiter_replaces_expired_keys_of_the_pool_and_its_own_but_none_of_other_shares() {
    let (store, clock) = store(100_000);
    declare(&store, &["a", "b"]);
    // The share of a and the pool; all expire after a second, and nothing sweeps.
    assert_eq!(admitted(&store, "a", 0..75_000, &rule(1, 1)), 75_000);
    clock.advance(Duration::from_secs(1));
    assert_eq!(admitted(&store, "b", 0..75_000, &rule(1, 1)), 75_000);
    assert_eq!(admitted(&store, "b", 75_000..175_000, &rule(1, 1)), store.shards());
    assert_eq!(admitted(&store, "a", 75_000..100_000, &rule(1, 2)), 25_000);
    assert_eq!(admitted(&store, "a", 75_000..100_000, &rule(1, 2)), 25_000, "the share of a was not taken");
}

#[test]
fn a_reload_gives_new_limiters_a_share_and_forgets_unused_ones() {
    let (store, clock) = store(1_000);
    declare(&store, &["a", "b"]);
    admitted(&store, "a", 0..10_000, &rule(1, 1));
    declare(&store, &["b", "c"]);
    let own = |scope| {
        let before = store.len();
        admitted(&store, scope, 0..1_000, &rule(1, 1));
        store.len() - before
    };
    // A third of 500 each, since a counts until its keys expire, and two that were left in the pool.
    assert_eq!((own("b"), own("c")), (166 + 2, 250 - 168), "max_keys bounds all");
    clock.advance(Duration::from_secs(2));
    store.sweep();
    declare(&store, &["c"]);
    admitted(&store, "c", 0..100_000, &rule(1, 1));
    assert_eq!(store.len(), 1_000, "all room belongs to c");
}

#[test]
fn a_key_that_leaves_the_shared_bucket_inherits_its_debt() {
    let (store, clock) = store(1);
    decide(&store, "r", b"first", &rule(10, 1));
    let slow = rule(1, 3);
    let admitted = |store: &MemoryStore| (0..10).filter(|_| decide(store, "r", b"second", &slow).is_allowed()).count();
    assert_eq!(admitted(&store), 3);
    clock.advance(Duration::from_millis(200));
    store.sweep();
    assert_eq!(admitted(&store), 0, "there is room now, but three were admitted 200 ms ago");
    clock.advance(Duration::from_millis(800));
    assert_eq!(admitted(&store), 1);
    assert_eq!(store.len(), 1);
}

#[test]
fn corrections_return_nothing_to_a_shared_bucket() {
    let (store, clock) = store(1);
    let rule = rule(1, 10);
    let check = Check { key: BucketKey { scope: "r", id: b"k" }, rule: &rule, cost: 5 };
    // The key spends tokens of its own, and its state expires.
    let verdict = decide_all(&store, &[check]);
    clock.advance(Duration::from_secs(5));
    store.sweep();
    assert!(decide(&store, "r", b"another", &rule).is_allowed());
    assert_eq!(decide(&store, "r", b"k", &rule).remaining, Some(9));
    store.settle(check, -5, verdict.counted_at_us);
    assert_eq!(decide(&store, "r", b"k", &rule).remaining, Some(8), "others spent from the shared bucket too");
    store.settle(check, 3, clock.now_us());
    assert_eq!(decide(&store, "r", b"k", &rule).remaining, Some(4), "a higher cost is taken");
}

#[test]
fn a_grant_without_room_counts_once_and_for_its_key_alone() {
    let (store, _clock) = store(1);
    let quota = Quota::new(2).unwrap();
    let rule = Rule::Quota(quota.clone());
    assert!(decide(&store, "r", b"first", &rule).is_allowed());
    let key = |id| BucketKey { scope: "r", id };
    assert_eq!(store.grant_quota(key(b"granted"), &quota, 10), 12);
    assert_eq!(store.set_quota(key(b"set"), &quota, 7), 7);
    assert_eq!(store.len(), 3, "beyond max_keys");
    let of_others = (0..10_000u32).filter(|id| decide(&store, "r", &id.to_le_bytes(), &rule).is_allowed()).count();
    assert_eq!(of_others, 2 * store.shards());
    assert_eq!(store.quota_remaining(key(b"granted"), &quota), 12);
}

#[derive(Clone, Debug)]
enum Step {
    Ask { limiter: usize, key: u16 },
    Wait { us: u64 },
    Sweep { shard: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => (0usize..2, 0u16..500).prop_map(|(limiter, key)| Step::Ask { limiter, key }),
        20 => (0usize..2, 0u16..4).prop_map(|(limiter, key)| Step::Ask { limiter, key }),
        2 => prop_oneof![1u64..1_000_000, 1u64..5_000_000].prop_map(|us| Step::Wait { us }),
        1 => (0usize..64).prop_map(|shard| Step::Sweep { shard }),
    ];
    prop::collection::vec(step, 1..1_500)
}

/// Asserts that tokens admitted at `times`, the last of which was added now, stay within `burst + rate * T` of `buckets`.
fn assert_bounded(times: &[u64], buckets: u64, rule: &TokenBucket) -> Result<(), TestCaseError> {
    let now_us = times.last().copied().unwrap_or_default();
    for (from, &at) in times.iter().enumerate() {
        let most = buckets * (rule.burst_capacity() * 1_000_000 + rule.replenish_rate() * (now_us - at));
        prop_assert!((times.len() - from) as u64 * 1_000_000 <= most, "{} since {at}", times.len() - from);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each key stays within its bound wherever it is counted, and shared buckets within the bound of their number.
    #[test]
    fn neither_a_key_nor_the_shared_buckets_exceed_their_bounds(max_keys in 1usize..40, steps in steps()) {
        let (store, clock) = store(max_keys);
        declare(&store, &["a", "b"]);
        let (scopes, bucket) = (["a", "b"], bucket(2, 3));
        let limit = Rule::Gcra(bucket.clone());
        let mut of_keys = std::collections::HashMap::<_, Vec<u64>>::new();
        let mut of_shared: [Vec<u64>; 2] = Default::default();
        for step in steps {
            match step {
                Step::Wait { us } => clock.advance(Duration::from_micros(us)),
                Step::Sweep { shard } => store.sweep_shard(shard),
                Step::Ask { limiter, key } => {
                    let before = store.overflowed();
                    if !decide(&store, scopes[limiter], &key.to_le_bytes(), &limit).is_allowed() {
                        continue;
                    }
                    let of_key = of_keys.entry((limiter, key)).or_default();
                    of_key.push(clock.now_us());
                    assert_bounded(of_key, 1, &bucket)?;
                    if store.overflowed() > before {
                        of_shared[limiter].push(clock.now_us());
                        assert_bounded(&of_shared[limiter], store.shards() as u64, &bucket)?;
                    }
                    prop_assert!(store.len() <= max_keys);
                }
            }
        }
    }
}
