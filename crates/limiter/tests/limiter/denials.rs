//! Denial cache: calls saved, and no denial of a request that could pass.

use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Align, FixedWindow, LeakyBucket, Quota, Rule, SlidingWindowLog, TokenBucket};
use tollgate_limiter::store::memory::ManualClock;
use tollgate_limiter::store::redis::{RedisClient, RedisSettings, RedisStore};
use tollgate_limiter::store::{Check, OnStoreFailure, Store};
use tollgate_limiter::verdict::{Outcome, Source, Verdict};

use crate::model::answer;
use crate::support::{RedisServer, eventually, store};

const KEY: BucketKey<'_> = BucketKey { scope: "r", id: b"me" };
const HOUR: Duration = Duration::from_secs(3_600);
const START_US: u64 = 1_763_769_600_000_000;

async fn ask(store: &RedisStore, rule: &Rule, cost: u64) -> Verdict {
    answer(store.decide(&[Check { key: KEY, rule, cost }], &[])).await
}

async fn take_all(store: &RedisStore, rule: &Rule) -> Verdict {
    let verdict = ask(store, rule, rule.capacity()).await;
    assert!(verdict.is_allowed(), "{verdict:?}");
    verdict
}

/// Repeats a request until it is denied without a call.
async fn denied(store: &RedisStore, rule: &Rule, cost: u64) {
    for _ in 0..2 {
        assert!(!ask(store, rule, cost).await.is_allowed(), "{rule:?}");
    }
    assert_eq!(ask(store, rule, cost).await.source, Source::DenialCache, "{rule:?}");
}

fn window(limit: u64) -> Rule {
    Rule::FixedWindow(FixedWindow::new(limit, HOUR, Align::First).unwrap())
}

fn bucket(rate: u64, burst: u64) -> Rule {
    Rule::TokenBucket(TokenBucket::new(rate, HOUR, burst).unwrap())
}

/// One rule of each algorithm; costs can be returned within the hour.
fn rules() -> Vec<Rule> {
    let pace = LeakyBucket::new(1, HOUR).unwrap().with_max_wait(Duration::ZERO).unwrap().with_max_queue(0).unwrap();
    let mut rules = vec![bucket(4, 4), window(4), Rule::SlidingWindowLog(SlidingWindowLog::new(4, HOUR).unwrap())];
    rules.extend([Rule::LeakyBucket(pace), Rule::Quota(Quota::new(4).unwrap())]);
    rules
}

#[tokio::test]
async fn a_denied_key_costs_few_calls() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = store(&client, OnStoreFailure::Deny);
    let redis = &mut server.connection();
    take_all(&store, &window(3)).await;
    redis::cmd("CONFIG").arg("RESETSTAT").exec(redis).unwrap();
    let mut from_memory = 0;
    for _ in 0..1_000 {
        let verdict = ask(&store, &window(3), 1).await;
        assert!(matches!(verdict.outcome, Outcome::Denied { retry_after } if retry_after <= HOUR), "{verdict:?}");
        assert_eq!((verdict.remaining, verdict.rule), (Some(0), 0));
        from_memory += u64::from(verdict.source == Source::DenialCache);
    }
    let stats: String = redis::cmd("INFO").arg("commandstats").query(redis).unwrap();
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap();
    let calls: u64 = calls.split(',').next().unwrap().parse().unwrap();
    assert_eq!(calls, 1_000 - from_memory);
    assert!(calls < 50, "{calls} calls for 1,000 requests");
    assert_eq!(client.stats().denial_cache_hits.get(), from_memory);
}

#[tokio::test]
async fn a_request_passes_after_exactly_the_promised_wait() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let clock = Arc::new(ManualClock::default());
    let store = store(&client, OnStoreFailure::Deny).with_clock(clock.clone());
    let rule = Rule::Gcra(TokenBucket::per_second(10, 5).unwrap());
    clock.set(START_US);
    assert!(ask(&store, &rule, 5).await.is_allowed());
    assert_eq!(ask(&store, &rule, 2).await.outcome, Outcome::Denied { retry_after: Duration::from_millis(200) });
    for early_us in [200_000, 100_000, 1] {
        clock.set(START_US + 200_000 - early_us);
        let verdict = ask(&store, &rule, 2).await;
        assert_eq!(verdict.outcome, Outcome::Denied { retry_after: Duration::from_micros(early_us) });
        assert_eq!(verdict.source, Source::DenialCache);
        assert_eq!(verdict.reset_after, Duration::from_micros(300_000 + early_us));
    }
    clock.set(START_US + 200_000);
    assert!(ask(&store, &rule, 2).await.is_allowed());
}

#[tokio::test]
async fn tokens_returned_here_end_a_denial_at_once() {
    let server = RedisServer::start();
    let store = store(&server.connected_client().await, OnStoreFailure::Deny);
    for rule in rules() {
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        let mut taken = take_all(&store, &rule).await;
        denied(&store, &rule, 1).await;
        let check = Check { key: KEY, rule: &rule, cost: rule.capacity() };
        if let Rule::LeakyBucket(_) = rule {
            // Only a future turn can be returned.
            continue;
        }
        store.settle(check, -1, taken.counted_at_us);
        eventually("it passes", async || {
            taken = ask(&store, &rule, 1).await;
            taken.is_allowed()
        })
        .await;
        denied(&store, &rule, 1).await;
        assert!(store.settle_confirmed(check, -1, taken.counted_at_us).await.is_ok());
        assert!(ask(&store, &rule, 1).await.is_allowed(), "{rule:?}");
    }
}

#[tokio::test]
async fn tokens_returned_by_another_gateway_end_a_denial_by_its_notice() {
    let server = RedisServer::start();
    let [one, other] = [server.connected_client().await, server.connected_client().await];
    let [here, there] = [store(&one, OnStoreFailure::Deny), store(&other, OnStoreFailure::Deny)];
    let stock = Quota::new(4).unwrap();
    for rule in rules() {
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        let taken = take_all(&here, &rule).await;
        denied(&here, &rule, 1).await;
        let check = Check { key: KEY, rule: &rule, cost: rule.capacity() };
        let start = tokio::time::Instant::now();
        match rule {
            Rule::LeakyBucket(_) => continue,
            Rule::Quota(_) => assert_eq!(there.grant_quota(KEY, &stock, 1).await, Ok(1)),
            _ => assert!(there.settle_confirmed(check, -1, taken.counted_at_us).await.is_ok()),
        }
        // The notice was sent before the reply to its publisher.
        while !ask(&here, &rule, 1).await.is_allowed() {
            assert!(start.elapsed() < Duration::from_millis(900), "the notice did not arrive: {rule:?}");
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_returned_turn_can_be_taken() {
    let server = RedisServer::start();
    let [one, other] = [server.connected_client().await, server.connected_client().await];
    let [here, there] = [store(&one, OnStoreFailure::Deny), store(&other, OnStoreFailure::Deny)];
    let rule =
        Rule::LeakyBucket(LeakyBucket::new(1, HOUR).unwrap().with_max_wait(HOUR).unwrap().with_max_queue(1).unwrap());
    let first = ask(&here, &rule, 1).await;
    let second = ask(&here, &rule, 1).await;
    assert!(first.delay.is_zero() && second.delay > Duration::from_secs(3_000), "{second:?}");
    denied(&here, &rule, 1).await;
    assert!(there.settle_confirmed(Check { key: KEY, rule: &rule, cost: 1 }, -1, second.counted_at_us).await.is_ok());
    let start = tokio::time::Instant::now();
    while !ask(&here, &rule, 1).await.is_allowed() {
        assert!(start.elapsed() < Duration::from_millis(900));
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_raised_limit_takes_effect_at_once() {
    let server = RedisServer::start();
    let store = store(&server.connected_client().await, OnStoreFailure::Deny);
    take_all(&store, &window(3)).await;
    denied(&store, &window(3), 1).await;
    assert_eq!(ask(&store, &window(5), 1).await.remaining, Some(1));
}

#[tokio::test]
async fn without_notices_a_denial_is_cached_for_a_second() {
    let server = RedisServer::start();
    let users = [("deaf", "+@all -subscribe"), ("mute", "+@all -publish")];
    for (user, may) in users {
        let acl: Vec<&str> = ["SETUSER", user, "on", ">p", "~*", "&*"].into_iter().chain(may.split(' ')).collect();
        redis::cmd("ACL").arg(&acl).exec(&mut server.connection()).unwrap();
    }
    let url = |user: &str, end: &str| format!("redis://{user}:p@127.0.0.1:{}/0{end}", server.port);
    for (here, there) in [(url("deaf", ""), url("deaf", "")), (url("mute", "?protocol=resp2"), url("mute", ""))] {
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        let client = |url| {
            RedisClient::start(&RedisSettings { timeout: Duration::from_secs(20), ..RedisSettings::new(url) }).unwrap()
        };
        let [one, other] = [client(here), client(there)];
        for client in [&one, &other] {
            assert!(client.wait_connected(Duration::from_secs(10)).await);
        }
        let [here, there] = [store(&one, OnStoreFailure::Deny), store(&other, OnStoreFailure::Deny)];
        let taken = take_all(&here, &window(3)).await;
        let clock = tokio::time::Instant::now();
        denied(&here, &window(3), 1).await;
        let check = Check { key: KEY, rule: &window(3), cost: 3 };
        assert!(
            there.settle_confirmed(check, -1, taken.counted_at_us).await.is_ok(),
            "a user without PUBLISH may settle"
        );
        let took = eventually("the cached denial expires", async || ask(&here, &window(3), 1).await.is_allowed()).await;
        assert!(clock.elapsed() < Duration::from_secs(3) && took > Duration::from_millis(100), "{took:?}");
        assert!(
            one.stats()
                .failures
                .by_reason()
                .iter()
                .chain(&other.stats().failures.by_reason())
                .all(|(_, count)| *count == 0)
        );
    }
}

#[tokio::test]
async fn a_lost_connection_invalidates_cached_denials() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = store(&client, OnStoreFailure::Deny);
    take_all(&store, &window(3)).await;
    denied(&store, &window(3), 1).await;
    let redis = &mut server.connection();
    redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub").arg("SKIPME").arg("yes").exec(redis).unwrap();
    eventually("the connection is replaced", async || client.stats().connects.get() == 2).await;
    assert_eq!(ask(&store, &window(3), 1).await.source, Source::Redis);
}

#[tokio::test]
async fn a_store_without_denial_cache_calls_redis_each_time() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = store(&client, OnStoreFailure::Deny).denial_cache(false);
    take_all(&store, &window(3)).await;
    for _ in 0..3 {
        assert_eq!(ask(&store, &window(3), 1).await.source, Source::Redis);
    }
    assert_eq!(client.stats().denial_cache_hits.get(), 0);
}
