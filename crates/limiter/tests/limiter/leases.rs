//! Leases: fewer calls, and never more requests admitted.

use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Align, FixedWindow, Rule, SlidingWindowLog, TokenBucket};
use tollgate_limiter::store::memory::{Clock, ManualClock};
use tollgate_limiter::store::redis::{RedisClient, RedisStore};
use tollgate_limiter::store::{Check, OnStoreFailure, Store};
use tollgate_limiter::verdict::{Source, Verdict};

use crate::model::{Rng, answer};
use crate::support::{RedisServer, eventually, store};

const SECOND: u64 = 1_000_000;
pub(crate) const START_US: u64 = 1_763_769_600_000_000;
pub(crate) const KEY: BucketKey<'_> = BucketKey { scope: "r", id: b"hot" };

pub(crate) async fn ask(store: &RedisStore, rule: &Rule) -> Verdict {
    answer(store.decide(&[Check { key: KEY, rule, cost: 1 }], &[])).await
}

pub(crate) fn gateway(client: &Arc<RedisClient>, clock: &Arc<ManualClock>, lease: Duration) -> RedisStore {
    store(client, OnStoreFailure::Deny).with_clock(clock.clone()).lease(Some(lease))
}

fn calls(client: &RedisClient) -> u64 {
    client.stats().call_sizes.buckets().iter().sum()
}

pub(crate) fn clock() -> Arc<ManualClock> {
    let clock = Arc::new(ManualClock::default());
    clock.set(START_US);
    clock
}

pub(crate) fn bucket(rate: u64, burst: u64) -> Rule {
    Rule::TokenBucket(TokenBucket::per_second(rate, burst).unwrap())
}

/// Remaining tokens in Redis, for a client without a lease.
pub(crate) async fn left(client: &Arc<RedisClient>, clock: &Arc<ManualClock>, rule: &Rule) -> u64 {
    let store = store(client, OnStoreFailure::Deny).with_clock(clock.clone()).denial_cache(false);
    answer(store.decide(&[Check { key: KEY, rule, cost: 0 }], &[])).await.remaining.unwrap()
}

#[tokio::test]
async fn a_hot_key_takes_few_calls_and_each_token_is_taken_once() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let clock = clock();
    let hour = Duration::from_secs(3_600);
    let window = Rule::FixedWindow(FixedWindow::new(1_000, hour, Align::First).unwrap());
    for rule in [Rule::Gcra(TokenBucket::new(1_000, hour, 1_000).unwrap()), bucket(1, 1_000), window] {
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        let store = gateway(&client, &clock, Duration::from_millis(100));
        let before = calls(&client);
        let mut least = u64::MAX;
        for asked in 0..1_000 {
            let verdict = ask(&store, &rule).await;
            assert!(verdict.is_allowed() && verdict.source == Source::Redis, "{asked}: {verdict:?} under {rule:?}");
            assert!(verdict.remaining.unwrap() < 1_000 - asked, "no more than remains");
            least = least.min(verdict.remaining.unwrap());
        }
        assert!(!ask(&store, &rule).await.is_allowed(), "no further request passes");
        let made = calls(&client) - before;
        assert!(made < 100, "{made} calls for 1,000 requests under {rule:?}");
        clock.set(clock.now_us() + 7_200 * SECOND);
    }
    assert!(client.stats().lease_hits.get() > 2_700, "{:?}", client.status());
}

#[tokio::test]
async fn unused_requests_are_returned_when_the_lease_ends() {
    let server = RedisServer::start();
    let [one, other] = [server.connected_client().await, server.connected_client().await];
    let clock = clock();
    let store = gateway(&one, &clock, Duration::from_millis(100));
    let rule = bucket(1, 1_000);
    for _ in 0..25 {
        assert!(ask(&store, &rule).await.is_allowed());
    }
    let held = 975 - left(&other, &clock, &rule).await;
    assert!(held > 0, "some are leased");
    clock.set(START_US + 100_000);
    eventually("unused requests are returned", async || left(&other, &clock, &rule).await == 975).await;
    clock.set(START_US + 350_000);
    assert!(ask(&store, &rule).await.is_allowed());
    assert_eq!(left(&other, &clock, &rule).await, 974, "a key that is no longer hot has no lease");
}

#[tokio::test]
async fn an_orderly_shutdown_returns_unused_requests() {
    let server = RedisServer::start();
    let [one, other] = [server.connected_client().await, server.connected_client().await];
    let clock = clock();
    let store = gateway(&one, &clock, Duration::from_secs(60));
    let rule = bucket(1, 1_000);
    for _ in 0..25 {
        assert!(ask(&store, &rule).await.is_allowed());
    }
    assert!(left(&other, &clock, &rule).await < 975);
    one.return_leases().await;
    // Tokens that flow in within the timeout are excluded.
    assert!((960..=975).contains(&left(&other, &clock, &rule).await));
    assert!(one.stats().failures.by_reason().iter().all(|(_, count)| *count == 0));
}

#[tokio::test]
async fn returned_requests_are_available_to_other_gateways() {
    let server = RedisServer::start();
    let [one, other] = [server.connected_client().await, server.connected_client().await];
    let (clock, rule) = (clock(), Rule::Gcra(TokenBucket::new(1, Duration::from_secs(3_600), 100).unwrap()));
    let [here, there] = [&one, &other].map(|client| gateway(client, &clock, Duration::from_millis(100)));
    for _ in 0..25 {
        assert!(ask(&here, &rule).await.is_allowed());
    }
    let mut taken = 0;
    while ask(&there, &rule).await.is_allowed() {
        taken += 1;
    }
    assert!(taken < 75, "the rest is leased");
    clock.set(START_US + 100_000);
    let passes = async || {
        taken += u64::from(ask(&there, &rule).await.is_allowed());
        taken == 75
    };
    eventually("all requests are available", passes).await;
    assert!(!ask(&there, &rule).await.is_allowed() && !ask(&here, &rule).await.is_allowed());
}

#[tokio::test]
async fn three_gateways_admit_no_more_than_the_bucket_in_any_window() {
    let server = RedisServer::start();
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(server.connected_client().await);
    }
    for seed in 0..10 {
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        let (mut rng, clock) = (Rng::new(seed), clock());
        let (rate, burst) = (rng.within(20, 300), rng.within(10, 200));
        let rule = if rng.chance(1, 2) {
            bucket(rate, burst)
        } else {
            Rule::Gcra(TokenBucket::per_second(rate, burst).unwrap())
        };
        let lease = Duration::from_millis(rng.within(10, 500));
        let gateways: Vec<_> = clients.iter().map(|client| gateway(client, &clock, lease)).collect();
        let mut admitted = Vec::new();
        for _ in 0..400 {
            for _ in 0..rng.within(1, 12) {
                if ask(&rng.pick(&gateways), &rule).await.is_allowed() {
                    admitted.push(clock.now_us());
                }
            }
            let most = rng.pick(&[1, 1_000, 20_000, 20_000, SECOND]);
            clock.set(clock.now_us() + rng.below(most));
        }
        let spare: u64 = clients.iter().map(|client| client.stats().lease_hits.get()).sum();
        assert!(spare > 0, "seed {seed}");
        for (first, from) in admitted.iter().enumerate() {
            for (count, until) in (1..).zip(&admitted[first..]) {
                assert!(
                    count * SECOND <= burst * SECOND + rate * (until - from),
                    "seed {seed}: {count} in {}",
                    until - from
                );
            }
        }
        for client in &clients {
            client.return_leases().await;
        }
    }
}

#[tokio::test]
async fn a_lease_beside_a_faster_rule_adds_at_most_the_leased_tokens() {
    let server = RedisServer::start();
    let [one, other] = [server.connected_client().await, server.connected_client().await];
    let mut beyond_the_looser = 0;
    for seed in 0..12 {
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        let (mut rng, clock) = (Rng::new(seed), clock());
        let (rate, burst) = (rng.within(100, 400), rng.within(40, 200));
        // Most of the time the bucket fills under the faster rule, so that it loses no leased tokens.
        let (slow, fast) = (bucket(1, burst), bucket(rate, burst));
        let leasing = gateway(&one, &clock, Duration::from_millis(rng.within(50, 500)));
        let plain = store(&other, OnStoreFailure::Deny).with_clock(clock.clone()).denial_cache(false);
        let mut admitted = Vec::new();
        for _ in 0..400 {
            for _ in 0..rng.within(1, 10) {
                let leased = one.stats().lease_hits.get();
                let verdict = if rng.chance(2, 3) { ask(&leasing, &slow).await } else { ask(&plain, &fast).await };
                if verdict.is_allowed() {
                    admitted.push((clock.now_us(), one.stats().lease_hits.get() - leased));
                }
            }
            let most = rng.pick(&[1, 1_000, 20_000, 200_000]);
            clock.set(clock.now_us() + rng.below(most));
        }
        for first in 0..admitted.len() {
            let mut leased = 0;
            for (count, (until, hits)) in (1..).zip(&admitted[first..]) {
                leased += hits;
                let looser = burst * SECOND + rate * (until - admitted[first].0);
                assert!(count * SECOND <= looser + leased * SECOND, "seed {seed}: {count}, {leased} of them leased");
                beyond_the_looser = beyond_the_looser.max((count * SECOND).saturating_sub(looser) / SECOND);
            }
        }
        one.return_leases().await;
    }
    println!("at most {beyond_the_looser} beyond the looser rule");
    assert!(one.stats().lease_hits.get() > 0);
}

#[tokio::test]
async fn rules_that_cannot_be_leased_call_redis_each_time() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = gateway(&client, &clock(), Duration::from_secs(1));
    let log = Rule::SlidingWindowLog(SlidingWindowLog::new(1_000, Duration::from_secs(1)).unwrap());
    for _ in 0..50 {
        assert!(ask(&store, &log).await.is_allowed());
    }
    assert_eq!((calls(&client), client.stats().lease_hits.get()), (50, 0));
}
