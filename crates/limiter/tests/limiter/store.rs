//! The store with a healthy Redis.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::store::redis::{BreakerState, RedisClient, RedisSettings, RedisSettingsError};
use tollgate_limiter::store::{Check, Decision, OnStoreFailure, Store};
use tollgate_limiter::verdict::{Outcome, Source};

use crate::support::{RedisServer, ask, eventually, memory, rule, store};

/// Returns the number of calls of a command.
fn calls(redis: &mut redis::Connection, command: &str) -> u64 {
    let info: String = redis::cmd("INFO").arg("commandstats").query(redis).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn decides_in_redis_with_one_call_for_each_decision() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = store(&client, OnStoreFailure::Deny);
    let redis = &mut server.connection();
    // The first call loads the script.
    ask(&store, "warm", &rule(1, 3)).await;
    redis::cmd("CONFIG").arg("RESETSTAT").exec(redis).unwrap();
    let slow = rule(1, 3);
    let mut left = Vec::new();
    for _ in 0..3 {
        let verdict = ask(&store, "a", &slow).await;
        assert_eq!((verdict.outcome, verdict.source), (Outcome::Allowed, Source::Redis));
        left.push(verdict.remaining.unwrap());
    }
    assert_eq!(left, [2, 1, 0]);
    let denied = ask(&store, "a", &slow).await;
    let Outcome::Denied { retry_after } = denied.outcome else { panic!("{denied:?}") };
    assert!(retry_after <= Duration::from_secs(1) && retry_after > Duration::from_millis(100));
    assert_eq!(calls(redis, "evalsha"), 4);
    assert_eq!((calls(redis, "mget"), calls(redis, "setex"), calls(redis, "time")), (4, 6, 4));
    for command in ["ping", "eval", "script|load", "hello", "unwatch"] {
        assert_eq!(calls(redis, command), 0, "{command}");
    }
    let status = client.status();
    assert!(status.connected() && status.breaker() == BreakerState::Closed && status.last_error().is_none());
    assert!(client.stats().failures.by_reason().iter().all(|&(_, count)| count == 0));
}

#[tokio::test]
async fn no_more_than_the_burst_is_admitted() {
    let server = RedisServer::start();
    let store = store(&server.connected_client().await, OnStoreFailure::Deny);
    let verdict = ask(&store, "a", &rule(1, 0)).await;
    assert_eq!((verdict.outcome, verdict.source), (Outcome::NeverAdmitted, Source::Redis));
}

#[tokio::test]
async fn a_flushed_script_is_loaded_again_and_charges_once() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = store(&client, OnStoreFailure::Deny);
    let slow = rule(1, 10);
    assert_eq!(ask(&store, "a", &slow).await.remaining, Some(9));
    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection()).unwrap();
    let verdict = ask(&store, "a", &slow).await;
    assert_eq!((verdict.remaining, verdict.source), (Some(8), Source::Redis));
    assert_eq!(
        (client.stats().script_misses.get(), client.stats().connects.get()),
        (2, 1),
        "at first, and after the flush"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clones_and_clients_share_one_bucket() {
    let server = RedisServer::start();
    let one = store(&server.connected_client().await, OnStoreFailure::Deny);
    let settings = RedisSettings { connections: 3.try_into().unwrap(), ..RedisSettings::new(server.url()) };
    let other_client = RedisClient::start(&RedisSettings { timeout: Duration::from_secs(10), ..settings }).unwrap();
    eventually("three connections", async || other_client.status().live_connections() == 3).await;
    let other = store(&other_client, OnStoreFailure::Deny);
    let start = Instant::now();
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let store = if n % 2 == 0 { one.clone() } else { other.clone() };
            tokio::spawn(async move {
                let (mut admitted, mut by_redis) = (0, 0);
                for _ in 0..50 {
                    let verdict = ask(&store, "hot", &rule(1, 100)).await;
                    by_redis += u64::from(verdict.source != Source::Fallback);
                    admitted += u64::from(verdict.is_allowed());
                }
                (admitted, by_redis)
            })
        })
        .collect();
    let (mut admitted, mut by_redis) = (0, 0);
    for task in tasks {
        let (a, r) = task.await.unwrap();
        admitted += a;
        by_redis += r;
    }
    assert!(by_redis >= 200, "the client with the long timeout always gets a reply: {by_redis}");
    assert!((100..=100 + start.elapsed().as_secs() + 1).contains(&admitted), "{admitted}");
}

#[tokio::test]
async fn hostile_keys_neither_collide_nor_leave_their_hash_tag() {
    let server = RedisServer::start();
    let store = store(&server.connected_client().await, OnStoreFailure::Deny);
    // Its keys outlive the test on the slowest machine.
    let slow = rule(1, 1000);
    let ids: [&[u8]; 7] = [b"}.x{", b"\0\r\n", b"\xff\xfe", b"", b"%7D", b"b.c", &[b'k'; 1_000_000]];
    for scope in ["r", "r.b", "{", "r}"] {
        for id in ids {
            let check = Check { key: BucketKey { scope, id }, rule: &slow, cost: 1 };
            let Decision::Pending(verdict) = store.decide(&[check], &[]) else { panic!() };
            assert!(verdict.await.is_allowed(), "{scope:?} {id:?}");
        }
    }
    let names: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut server.connection()).unwrap();
    assert_eq!(names.len(), 4 * 7 * 2);
    assert!(names.iter().all(|name| name.matches(['{', '}']).count() == 2 && name.len() < 200), "{names:?}");
}

#[tokio::test]
async fn secret_keys_reach_redis_as_a_hash() {
    let server = RedisServer::start();
    let store = store(&server.connected_client().await, OnStoreFailure::Deny).hash_keys(true);
    assert!(ask(&store, "s3cret", &rule(1, 1)).await.is_allowed());
    let names: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut server.connection()).unwrap();
    assert!(names.len() == 2 && names.iter().all(|name| name.contains("{r.#") && !name.contains("s3cret")));
}

#[tokio::test]
async fn a_dropped_client_closes_its_connections() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let redis = &mut server.connection();
    let mut clients = move || redis::cmd("CLIENT").arg("LIST").query::<String>(redis).unwrap().lines().count();
    assert_eq!(clients(), 2);
    drop(client);
    eventually("its connection is closed", async || clients() == 1).await;
}

#[test]
fn a_client_needs_a_runtime_and_valid_settings() {
    let start = |url: &str| RedisClient::start(&RedisSettings::new(url));
    assert!(matches!(start("redis://localhost"), Err(RedisSettingsError::NoRuntime)));
    let _ = (Arc::strong_count(&memory().0), start("soup").map(drop).unwrap_err());
}
