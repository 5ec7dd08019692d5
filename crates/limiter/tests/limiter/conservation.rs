//! Conservation of tokens with too many keys, under sweeping and growth, and across restarts.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{
    Algorithm, Align, Calendar, CalendarUnit, FixedWindow, LeakyBucket, Quota, Refill, Rule, SlidingWindowCounter,
    SlidingWindowLog, TokenBucket,
};
use tollgate_limiter::store::memory::{ManualClock, MemoryStore};
use tollgate_limiter::store::{Check, OnStoreFailure, Store};
use tollgate_limiter::verdict::{Source, Verdict};

use crate::model::{answer, number};
use crate::support::{RedisServer, store};

const DAY: u64 = 86_400_000_000;

/// Returns the rules of each algorithm that admit `limit` and then nothing for almost a day.
fn daily(limit: u64) -> Vec<Rule> {
    let day = Duration::from_micros(DAY);
    let bucket = TokenBucket::new(1, day, limit).unwrap();
    let refills = [Refill::Smooth, Refill::Interval, Refill::Aligned { anchor_us: 0 }];
    let buckets = refills.map(|refill| bucket.clone().with_refill(refill).unwrap());
    let mut rules: Vec<_> = buckets.iter().cloned().map(Rule::TokenBucket).collect();
    rules.extend(buckets.map(Rule::Gcra));
    rules.extend([
        Rule::FixedWindow(FixedWindow::new(limit, day, Align::First).unwrap()),
        Rule::SlidingWindowLog(SlidingWindowLog::new(limit, day).unwrap()),
        Rule::SlidingWindowCounter(SlidingWindowCounter::new(limit, day).unwrap()),
        Rule::LeakyBucket(
            LeakyBucket::new(1, day)
                .unwrap()
                .with_max_wait(day * limit as u32)
                .unwrap()
                .with_max_queue(limit - 1)
                .unwrap(),
        ),
        Rule::Quota(Quota::resetting(limit, Calendar::new(CalendarUnit::Day, "UTC").unwrap()).unwrap()),
    ]);
    for algorithm in Algorithm::ALL {
        assert!(rules.iter().any(|rule| rule.algorithm() == algorithm), "{algorithm:?} has no rule");
    }
    rules
}

async fn ask(store: &impl Store, id: &[u8], rule: &Rule) -> Verdict {
    answer(store.decide(&[Check { key: BucketKey { scope: "r", id }, rule, cost: 1 }], &[])).await
}

async fn admitted(store: &impl Store, id: &[u8], rule: &Rule, times: usize) -> usize {
    let mut admitted = 0;
    for _ in 0..times {
        admitted += usize::from(ask(store, id, rule).await.is_allowed());
    }
    admitted
}

#[tokio::test]
async fn a_flood_of_keys_creates_no_tokens_under_any_algorithm() {
    const ROOM: usize = 2_000;
    for rule in daily(3) {
        let clock = Arc::new(ManualClock::default());
        // The start of a day, so that the day does not end during the test.
        clock.set(20_000 * DAY);
        let store = MemoryStore::with_clock(clock.clone()).with_max_keys(NonZeroUsize::new(ROOM).unwrap());
        assert_eq!(admitted(&store, b"drained", &rule, 5).await, 3);
        let (mut flood, mut keys) = (0, 0u32);
        for round in 0..4 {
            for _ in 0..5_000 {
                keys += 1;
                flood += admitted(&store, &keys.to_le_bytes(), &rule, 1).await;
            }
            assert_eq!(admitted(&store, b"drained", &rule, 5).await, 0, "round {round} of {rule:?}");
            clock.advance(Duration::from_secs(60));
            store.sweep();
            assert_eq!(admitted(&store, b"drained", &rule, 5).await, 0, "swept in round {round}, {rule:?}");
        }
        assert!(store.len() <= ROOM && store.overflowed() > 0, "{rule:?}");
        // One for each key that found room, and three from each shared bucket.
        assert_eq!(flood, ROOM - 1 + 3 * store.shards(), "{rule:?}");
    }
}

#[tokio::test]
async fn a_key_gets_no_new_tokens_when_it_leaves_the_shared_bucket() {
    for rule in daily(3) {
        let clock = Arc::new(ManualClock::default());
        clock.set(20_000 * DAY);
        let store = MemoryStore::with_clock(clock.clone()).with_max_keys(NonZeroUsize::MIN);
        let brief = Rule::Gcra(TokenBucket::per_second(1, 1).unwrap());
        assert!(ask(&store, b"first", &brief).await.is_allowed());
        assert_eq!(admitted(&store, b"second", &rule, 5).await, 3, "in the shared bucket: {rule:?}");
        clock.advance(Duration::from_secs(2));
        store.sweep();
        assert_eq!(admitted(&store, b"second", &rule, 5).await, 0, "there is room now: {rule:?}");
    }
}

#[tokio::test]
async fn a_restarted_gateway_finds_the_spent_tokens() {
    let server = RedisServer::start();
    let mut spent = 0;
    for _ in 0..3 {
        let client = server.connected_client().await;
        let store = store(&client, OnStoreFailure::Deny);
        for (at, rule) in daily(1_000).into_iter().enumerate() {
            for scope in ["alone", "list#rule"] {
                let scope = format!("{at}{scope}");
                let check = Check { key: BucketKey { scope: &scope, id: b"me" }, rule: &rule, cost: 300 };
                let verdict = answer(store.decide(&[check], &[])).await;
                assert_eq!(verdict.source, Source::Redis);
                // A counter drops the part of the previous day that slides out, and a bucket gains a token each day.
                assert_eq!(verdict.remaining, Some(1_000 - spent - 300), "{rule:?}");
            }
        }
        spent += 300;
        client.shutdown();
    }
}

/// Memory of this process, in bytes.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .map_or(0, |statm| statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0));
    pages * 4_096
}

/// `TOLLGATE_SOAK_KEYS` keys rotate through a store with room for a tenth of them.
#[tokio::test]
async fn rotating_keys_take_bounded_memory_and_reset_no_limit() {
    let keys = number("TOLLGATE_SOAK_KEYS").unwrap_or(300_000);
    let room = usize::try_from(keys / 10).unwrap();
    for rests in [true, false] {
        let clock = Arc::new(ManualClock::default());
        clock.set(20_000 * DAY);
        let before = resident();
        let store = MemoryStore::with_clock(clock.clone()).with_max_keys(NonZeroUsize::new(room).unwrap());
        let drained = Rule::Gcra(TokenBucket::new(1, Duration::from_micros(DAY), 3).unwrap());
        assert_eq!(admitted(&store, b"drained", &drained, 5).await, 3);
        // Half as many short-lived keys as there is room for are in use at one time.
        let brief = Rule::Gcra(TokenBucket::per_second(1, 1).unwrap());
        let (rule, apart_ns) = if rests { (&brief, 2_000_000_000 / room as u64) } else { (&drained, 1) };
        let (start, mut now_ns, mut most, mut admitted_of_flood) = (Instant::now(), 0, 0, 0);
        for key in 0..keys {
            now_ns += apart_ns;
            clock.set(20_000 * DAY + now_ns / 1_000);
            admitted_of_flood += u64::from(ask(&store, &key.to_le_bytes(), rule).await.is_allowed());
            if key % 64 == 0 {
                store.sweep_shard((key / 64) as usize);
                most = most.max(store.allocated_bytes());
            }
        }
        let (took, grown) = (start.elapsed(), resident().saturating_sub(before));
        println!(
            "{keys} keys, {}: {took:?}, {} kept of {room}, at most {most} bytes, RSS +{} KiB, {} shared",
            if rests { "expiring in a second" } else { "all in use" },
            store.len(),
            grown / 1_024,
            store.overflowed(),
        );
        assert!(store.len() <= room);
        assert!(most <= 40 * room + 400_000, "{most} bytes for {room} keys");
        assert!(grown < 2 * most as u64 + (32 << 20), "RSS grew by {grown} bytes");
        if rests {
            assert_eq!((admitted_of_flood, store.overflowed()), (keys, 0));
        } else {
            assert_eq!(admitted_of_flood, (room - 1 + 3 * store.shards()) as u64);
        }
        assert_eq!(admitted(&store, b"drained", &drained, 5).await, 0, "still drained");
    }
}
