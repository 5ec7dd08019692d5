//! Batching: decisions that wait at the same moment are one call, with the verdicts of separate calls.

use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Rule, SlidingWindowLog, TokenBucket};
use tollgate_limiter::store::redis::{BreakerState, RedisClient, RedisSettings, RedisStore};
use tollgate_limiter::store::{Check, Decision, MAX_CHECKS, OnStoreFailure, Store};
use tollgate_limiter::verdict::{Source, Verdict};

use crate::support::{RedisServer, ask, rule};

/// A store that neither coalesces nor caches denials.
fn store(client: &Arc<RedisClient>, on_store_failure: OnStoreFailure) -> RedisStore {
    crate::support::store(client, on_store_failure).coalesce(false).denial_cache(false)
}

/// Returns the number of script calls by clients.
fn script_calls(redis: &mut redis::Connection) -> u64 {
    let info: String = redis::cmd("INFO").arg("commandstats").query(redis).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

/// Decides for all keys at once. Returns the verdicts in order.
async fn ask_at_once(store: &RedisStore, ids: &[&'static str], rule: &Rule) -> Vec<Verdict> {
    let ask = |id: &'static str| {
        let (store, rule) = (store.clone(), rule.clone());
        tokio::spawn(async move { ask(&store, id, &rule).await })
    };
    let mut verdicts = Vec::new();
    for asked in ids.iter().map(|id| ask(id)).collect::<Vec<_>>() {
        verdicts.push(asked.await.unwrap());
    }
    verdicts
}

#[tokio::test]
async fn waiting_decisions_are_one_call_and_decided_in_order() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = store(&client, OnStoreFailure::Deny);
    let redis = &mut server.connection();
    ask_at_once(&store, &["warm", "warm"], &rule(1, 20)).await;
    ask(&store, "warm", &rule(1, 20)).await;
    redis::cmd("CONFIG").arg("RESETSTAT").exec(redis).unwrap();
    let before =
        (client.stats().script_misses.get(), client.stats().call_sizes.buckets(), client.stats().call_sizes.sum());
    let ids: Vec<&str> = (0..60).map(|n| if n % 2 == 0 { "hot" } else { "other" }).collect();
    let verdicts = ask_at_once(&store, &ids, &rule(1, 20)).await;
    for key in 0..2 {
        let of_key: Vec<_> = verdicts.iter().skip(key).step_by(2).collect();
        let remaining: Vec<_> = of_key.iter().map(|verdict| verdict.remaining.unwrap()).collect();
        assert_eq!(remaining[..20], (0..20).rev().collect::<Vec<_>>());
        assert!(of_key.iter().enumerate().all(|(n, verdict)| verdict.is_allowed() == (n < 20)));
        assert!(of_key.iter().all(|verdict| verdict.source == Source::Redis));
    }
    assert_eq!((script_calls(redis), client.stats().script_misses.get()), (1, before.0));
    ask(&store, "alone", &rule(1, 20)).await;
    assert_eq!(script_calls(redis), 2);
    // One call for at most 64 requests, and one for one.
    let sizes = &client.stats().call_sizes;
    let added: Vec<u64> = sizes.buckets().into_iter().zip(before.1).map(|(now, before)| now - before).collect();
    assert_eq!((added, sizes.sum() - before.2), (vec![1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0], 61));
}

#[tokio::test]
async fn batches_of_calls_that_may_take_long_are_small() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = store(&client, OnStoreFailure::Deny);
    let log = Rule::SlidingWindowLog(SlidingWindowLog::new(1_000, Duration::from_secs(60)).unwrap());
    let ids: Vec<&str> = (0..60).map(|n| ["a", "b", "c"][n % 3]).collect();
    let verdicts = ask_at_once(&store, &ids, &log).await;
    let of_a: Vec<_> = verdicts.iter().step_by(3).map(|verdict| verdict.remaining.unwrap()).collect();
    assert_eq!(of_a, (980..1_000).rev().collect::<Vec<_>>(), "decided in order");
    // Seven of eight calls, and one of four.
    let sizes = &client.stats().call_sizes;
    assert_eq!((sizes.buckets(), sizes.sum()), (vec![0, 0, 1, 7, 0, 0, 0, 0, 0, 0, 0, 0], 60));
    // Six logs are a batch by themselves.
    let scopes: Vec<String> = (0..MAX_CHECKS).map(|at| format!("r#log{at}")).collect();
    let check = |scope: &'static str| Check { key: BucketKey { scope, id: b"me" }, rule: &log, cost: 1 };
    let checks: Vec<Check<'_>> = scopes.iter().map(|scope| check(scope.clone().leak())).collect();
    let decisions: Vec<Decision> = (0..4).map(|_| store.decide(&checks, &[])).collect();
    for decision in decisions {
        assert!(crate::model::answer(decision).await.is_allowed());
    }
    assert_eq!(client.stats().call_sizes.buckets()[0], 4);
}

/// Counts what Redis counts: a batch of coalesced calls is one call.
#[tokio::test]
async fn coalesced_calls_in_a_batch_count_as_one_call() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = store(&client, OnStoreFailure::Deny).coalesce(true);
    let redis = &mut server.connection();
    let ids: Vec<&str> = (0..300).map(|n| ["a", "b", "c"][n % 3]).collect();
    let verdicts = ask_at_once(&store, &ids, &rule(1, 1_000)).await;
    assert!(verdicts.iter().all(|verdict| verdict.source == Source::Redis));
    let sizes = &client.stats().call_sizes;
    assert_eq!((sizes.buckets().iter().sum::<u64>(), sizes.sum()), (script_calls(redis), 300));
    assert!(sizes.buckets()[7..].iter().sum::<u64>() > 0, "more than 64 requests in one call: {sizes:?}");
}

#[tokio::test]
async fn different_scripts_are_different_calls() {
    let server = RedisServer::start();
    let store = store(&server.connected_client().await, OnStoreFailure::Deny);
    let gcra = Rule::Gcra(TokenBucket::per_second(1, 5).unwrap());
    let hourly = Rule::Gcra(TokenBucket::new(1, Duration::from_secs(3_600), 5).unwrap());
    let rules = [&rule(1, 5), &gcra, &hourly];
    let asked: Vec<_> = (0..30)
        .map(|n| {
            let (store, rule) = (store.clone(), rules[n % 3].clone());
            tokio::spawn(async move { ask(&store, ["a", "b", "c"][n % 3], &rule).await })
        })
        .collect();
    for (n, asked) in asked.into_iter().enumerate() {
        let verdict = asked.await.unwrap();
        assert_eq!(
            (verdict.is_allowed(), verdict.remaining),
            (n < 15, Some(4_u64.saturating_sub(n as u64 / 3))),
            "{n}"
        );
    }
    assert_eq!(script_calls(&mut server.connection()), 3);
}

#[tokio::test]
async fn an_error_of_one_key_affects_its_caller_only() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = store(&client, OnStoreFailure::Local);
    redis::cmd("LPUSH").arg("gcra.{r.bad}").arg(1).exec(&mut server.connection()).unwrap();
    let gcra = Rule::Gcra(TokenBucket::per_second(1, 10).unwrap());
    let verdicts = ask_at_once(&store, &["a", "bad", "b", "bad"], &gcra).await;
    let sources: Vec<_> = verdicts.iter().map(|verdict| verdict.source).collect();
    assert_eq!(sources, [Source::Redis, Source::Fallback, Source::Redis, Source::Fallback]);
    assert_eq!(verdicts.iter().map(|verdict| verdict.remaining).collect::<Vec<_>>(), [9, 9, 9, 8].map(Some));
    assert_eq!((client.status().breaker(), client.status().live_connections()), (BreakerState::Closed, 1));
}

#[tokio::test]
async fn a_batch_with_a_flushed_script_charges_once() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = store(&client, OnStoreFailure::Deny);
    for left in [[9, 9, 8], [7, 8, 6]] {
        let verdicts = ask_at_once(&store, &["a", "b", "a"], &rule(1, 10)).await;
        assert_eq!(verdicts.iter().map(|verdict| verdict.remaining).collect::<Vec<_>>(), left.map(Some));
        redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection()).unwrap();
    }
    assert_eq!(client.stats().script_misses.get(), 2, "at first, and once more after the flush");
}

#[tokio::test]
async fn a_request_dropped_before_the_call_is_not_charged() {
    let server = RedisServer::start();
    let store = store(&server.connected_client().await, OnStoreFailure::Deny);
    let slow = rule(1, 10);
    let check = Check { key: BucketKey { scope: "r", id: b"a" }, rule: &slow, cost: 1 };
    let Decision::Pending(mut given_up) = store.decide(&[check], &[]) else { panic!("redis is called") };
    // Queued, but no other task has run yet.
    assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(given_up.as_mut().poll(cx).is_pending())).await);
    drop(given_up);
    assert_eq!(ask(&store, "a", &slow).await.remaining, Some(9));
}

#[tokio::test]
async fn without_batching_each_decision_is_a_call() {
    let server = RedisServer::start();
    let timeout = Duration::from_secs(20);
    let client =
        RedisClient::start(&RedisSettings { timeout, batch: false, ..RedisSettings::new(server.url()) }).unwrap();
    assert!(client.wait_connected(Duration::from_secs(10)).await);
    let store = store(&client, OnStoreFailure::Deny);
    let verdicts = ask_at_once(&store, &["a", "a", "b"], &rule(1, 10)).await;
    assert_eq!(verdicts.iter().map(|verdict| verdict.remaining).collect::<Vec<_>>(), [9, 8, 9].map(Some));
    assert_eq!(script_calls(&mut server.connection()), 3);
}

/// A late call does not count as a broken connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_call_keeps_the_connection() {
    let server = RedisServer::start();
    let client = server.connected_client_that_waits(Duration::from_millis(50)).await;
    let store = store(&client, OnStoreFailure::Deny);
    server.freeze();
    for _ in 0..2 {
        assert_eq!(ask(&store, "a", &rule(1, 10)).await.source, Source::Fallback);
    }
    let status = client.status();
    assert_eq!((status.live_connections(), client.stats().connects.get()), (1, 1), "{status:?}");
    server.thaw();
}

#[tokio::test]
async fn the_future_of_a_call_is_small_enough_for_the_allocators_lists_of_free_blocks() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = crate::support::store(&client, OnStoreFailure::Local);
    let (rule, key) = (rule(1, 20), BucketKey { scope: "orders", id: b"me" });
    let Decision::Pending(verdict) = store.decide(&[Check { key, rule: &rule, cost: 1 }], &[]) else {
        panic!("decided without Redis");
    };
    assert!(
        size_of_val(&*verdict) <= 1_032,
        "{} bytes: glibc keeps freed blocks up to 1,032 at hand",
        size_of_val(&*verdict)
    );
}
