#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::key::BucketKey;
use crate::rule::samples;
use crate::rule::{Quota, Rule, TokenBucket};
use crate::store::memory::{Clock, ManualClock};
use crate::store::{Check, Decision, Store};

const START_US: u64 = 1_763_700_000_000_000;

fn store(max_keys: usize, clock: &Arc<ManualClock>) -> MemoryStore {
    let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(clock);
    MemoryStore::with_clock(clock).with_max_keys(NonZeroUsize::new(max_keys).unwrap()).with_hash_key([7; 16])
}

fn clock() -> Arc<ManualClock> {
    let clock = Arc::<ManualClock>::default();
    clock.set(START_US);
    clock
}

fn is_allowed(store: &MemoryStore, scope: &str, id: &[u8], rule: &Rule) -> bool {
    let key = BucketKey { scope, id };
    match store.decide(&[Check { key, rule, cost: 1 }], &[]) {
        Decision::Ready(verdict) => verdict.is_allowed(),
        Decision::Pending(_) => unreachable!("memory decides at once"),
    }
}

fn bucket() -> Rule {
    Rule::TokenBucket(TokenBucket::new(1, Duration::from_secs(1), 3).unwrap())
}

/// Returns a store in which one key of each algorithm is spent.
fn spent(clock: &Arc<ManualClock>) -> MemoryStore {
    let store = store(1_000, clock);
    for (number, rule) in samples().iter().enumerate() {
        while is_allowed(&store, &number.to_string(), b"key", rule) {}
    }
    store
}

#[test]
fn spent_keys_stay_spent_under_every_algorithm_and_refill_as_if_the_process_went_on() {
    let clock = clock();
    let before = spent(&clock);
    let bytes = before.snapshot();
    let snapshot = Snapshot::read(&bytes).unwrap();
    assert_eq!(snapshot.taken_at_us(), (START_US, START_US));
    let after = store(1_000, &clock);
    assert_eq!(after.restore(&snapshot), Ok(before.len()));
    assert_eq!(after.len(), before.len());
    for seconds in [0, 1, 30, 3_600, 86_400] {
        clock.advance(Duration::from_secs(seconds));
        for (number, rule) in samples().iter().enumerate() {
            let decide = |store: &MemoryStore| is_allowed(store, &number.to_string(), b"key", rule);
            let decided = decide(&after);
            assert!(seconds > 0 || !decided, "{rule:?} is spent");
            assert_eq!(decided, decide(&before), "{rule:?} after {seconds} s more");
        }
    }
}

#[test]
fn other_bytes_are_no_snapshot_and_no_part_of_one_is() {
    let bytes = spent(&clock()).snapshot();
    assert_eq!(Snapshot::read(&[b'x'; 4096]).unwrap_err(), SnapshotError::Foreign);
    let mut other_version = bytes.clone();
    other_version[MAGIC.len()] = 9;
    assert_eq!(Snapshot::read(&other_version).unwrap_err(), SnapshotError::Version(9));
    for length in 0..bytes.len() {
        let error = Snapshot::read(&bytes[..length]).unwrap_err();
        assert_eq!(error, SnapshotError::Damaged, "{length}");
    }
    for at in (MAGIC.len() + 4..bytes.len()).step_by(7) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert_eq!(Snapshot::read(&changed).unwrap_err(), SnapshotError::Damaged, "byte {at}");
    }
    let mut longer = bytes;
    longer.push(0);
    assert_eq!(Snapshot::read(&longer).unwrap_err(), SnapshotError::Damaged);
}

#[test]
fn bytes_with_a_right_checksum_that_are_no_states_are_an_error() {
    let clock = clock();
    let bytes = spent(&clock).snapshot();
    for cut in 1..400 {
        let body = &bytes[..bytes.len() - HASH_BYTES - cut];
        let mut bytes = body.to_vec();
        bytes.extend_from_slice(&Sha256::digest(body));
        if let Ok(snapshot) = Snapshot::read(&bytes) {
            assert_eq!(store(1_000, &clock).restore(&snapshot), Err(SnapshotError::Damaged), "{cut} bytes less");
        }
    }
}

#[test]
fn smaller_and_larger_stores_keep_all_keys() {
    let clock = clock();
    let large = store(2_000_000, &clock);
    let (rule, ids) = (bucket(), 0u32..5_000);
    for id in ids.clone() {
        while is_allowed(&large, "limiter", &id.to_le_bytes(), &rule) {}
    }
    let bytes = large.snapshot();
    let snapshot = Snapshot::read(&bytes).unwrap();
    let small = store(1_000, &clock);
    assert!(small.shards() < large.shards());
    assert_eq!(small.restore(&snapshot), Ok(5_000));
    let are_spent = |store: &MemoryStore| ids.clone().all(|id| !is_allowed(store, "limiter", &id.to_le_bytes(), &rule));
    assert!(are_spent(&small));
    let bytes = small.snapshot();
    let large = store(2_000_000, &clock);
    assert_eq!(large.restore(&Snapshot::read(&bytes).unwrap()), Ok(5_000));
    assert!(are_spent(&large));
}

#[test]
fn a_store_with_another_hash_key_is_refused() {
    let clock = clock();
    let bytes = spent(&clock).snapshot();
    let other = store(1_000, &clock).with_hash_key([8; 16]);
    assert_eq!(other.restore(&Snapshot::read(&bytes).unwrap()), Err(SnapshotError::HashKey));
    assert!(other.is_empty());
}

#[test]
fn keys_without_room_find_the_state_that_they_shared() {
    let clock = clock();
    let before = store(1, &clock);
    let rule = bucket();
    for id in 0u32..2_000 {
        while is_allowed(&before, "limiter", &id.to_le_bytes(), &rule) {}
    }
    let bytes = before.snapshot();
    let after = store(1, &clock);
    after.restore(&Snapshot::read(&bytes).unwrap()).unwrap();
    assert!((0u32..4_000).all(|id| !is_allowed(&after, "limiter", &id.to_le_bytes(), &rule)), "no fresh burst");
}

#[test]
fn shares_of_limiters_count_the_keys_of_a_snapshot() {
    let clock = clock();
    let before = store(100, &clock);
    let rule = bucket();
    for id in 0u32..200 {
        is_allowed(&before, "flooded", &id.to_le_bytes(), &rule);
    }
    let bytes = before.snapshot();
    let after = store(100, &clock);
    after.declare(["flooded".into(), "other".into()]);
    after.restore(&Snapshot::read(&bytes).unwrap()).unwrap();
    assert_eq!(after.len(), before.len());
    // The keys expire, and their room with them.
    clock.advance(Duration::from_secs(3_600));
    after.sweep();
    assert_eq!(after.len(), 0);
    assert!(is_allowed(&after, "other", b"key", &rule));
}

#[test]
fn a_quota_stays_spent_and_granted() {
    let clock = clock();
    let quota = Quota::new(5).unwrap();
    let key = BucketKey { scope: "limiter", id: b"key" };
    let before = store(10, &clock);
    assert_eq!(before.grant_quota(key, &quota, 7), 12);
    let bytes = before.snapshot();
    let after = store(10, &clock);
    after.restore(&Snapshot::read(&bytes).unwrap()).unwrap();
    assert_eq!(after.quota_remaining(key, &quota), 12);
}
