//! The store while Redis is unreachable, slow, or refuses commands.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::store::redis::{BreakerState, RedisClient, RedisSettings, StoreError};
use tollgate_limiter::store::{Check, Decision, OnStoreFailure, Store};
use tollgate_limiter::verdict::{Outcome, Source};

use crate::support::{RedisServer, ask, eventually, rule, store};

fn failures(client: &RedisClient, kind: StoreError) -> u64 {
    client.stats().failures.by_reason().iter().find(|(known, _)| *known == kind).unwrap().1
}

/// Sends requests with a separate key until Redis decides. Returns the time that took.
async fn recovery(store: &impl Store) -> Duration {
    let probe = rule(1_000_000, 1_000_000);
    eventually("redis decides again", async || ask(store, "probe", &probe).await.source == Source::Redis).await
}

#[tokio::test]
async fn a_redis_that_is_down_at_start_is_found_later() {
    let mut server = RedisServer::stopped(&[]);
    let client = server.client();
    let store = store(&client, OnStoreFailure::Local);
    let verdict = ask(&store, "a", &rule(1, 1)).await;
    assert_eq!((verdict.outcome, verdict.source), (Outcome::Allowed, Source::Fallback));
    eventually("the error is reported", async || client.status().last_error().is_some()).await;
    assert!(!client.status().connected());
    server.launch();
    assert!(recovery(&store).await < Duration::from_secs(2));
    assert!(client.status().connected() && client.status().last_error().is_none());
}

#[tokio::test]
async fn each_policy_decides_at_once_after_redis_died() {
    let mut server = RedisServer::start();
    let client = server.connected_client().await;
    let slow = rule(1, 2);
    let local = store(&client, OnStoreFailure::Local);
    assert_eq!(ask(&local, "a", &slow).await.source, Source::Redis);
    server.kill();
    eventually("the loss is noticed without a request", async || !client.status().connected()).await;
    assert_eq!(client.status().breaker(), BreakerState::Open);

    let start = Instant::now();
    for (allowed, remaining) in [(true, Some(1)), (true, Some(0)), (false, Some(0))] {
        let verdict = ask(&local, "a", &slow).await;
        assert_eq!((verdict.is_allowed(), verdict.remaining, verdict.source), (allowed, remaining, Source::Fallback));
    }
    let allow = store(&client, OnStoreFailure::Allow);
    let deny = store(&client, OnStoreFailure::Deny);
    for _ in 0..10 {
        let verdict = ask(&allow, "a", &slow).await;
        assert_eq!((verdict.outcome, verdict.remaining, verdict.source), (Outcome::Allowed, None, Source::Fallback));
        let verdict = ask(&deny, "a", &slow).await;
        assert_eq!(verdict.outcome, Outcome::StoreUnavailable { retry_after: Duration::from_secs(1) });
        assert_eq!((verdict.remaining, verdict.source), (None, Source::Fallback));
    }
    assert!(start.elapsed() < Duration::from_secs(5), "none of them waited");
    assert!(failures(&client, StoreError::Disconnected) >= 23);

    server.launch();
    assert!(recovery(&local).await < Duration::from_secs(2));
    assert_eq!(client.status().breaker(), BreakerState::Closed);
}

#[tokio::test]
async fn without_a_connection_decisions_are_ready_at_once() {
    let server = RedisServer::stopped(&[]);
    let store = store(&server.client(), OnStoreFailure::Local);
    let decision = store.decide(&[Check { key: BucketKey { scope: "r", id: b"a" }, rule: &rule(1, 1), cost: 1 }], &[]);
    assert!(matches!(decision, Decision::Ready(_)));
}

#[tokio::test]
async fn a_hanging_redis_costs_a_few_timeouts_and_then_nothing() {
    let server = RedisServer::start();
    let client = server.connected_client_that_waits(Duration::from_millis(100)).await;
    let store = store(&client, OnStoreFailure::Local);
    let ample = rule(1_000, 1_000);
    ask(&store, "a", &ample).await;
    server.signal("STOP");
    for _ in 0..3 {
        let start = Instant::now();
        assert_eq!(ask(&store, "a", &ample).await.source, Source::Fallback);
        assert!((100..5_000).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    }
    assert_eq!((failures(&client, StoreError::Timeout), client.status().connected()), (3, false));
    let start = Instant::now();
    for _ in 0..1_000 {
        ask(&store, "a", &ample).await;
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?} for 1,000 decisions", start.elapsed());
    server.signal("CONT");
    assert!(recovery(&store).await < Duration::from_secs(2));
}

#[tokio::test]
async fn a_late_reply_reaches_no_other_request() {
    let server = RedisServer::start();
    let client = server.connected_client_that_waits(Duration::from_millis(500)).await;
    let store = store(&client, OnStoreFailure::Allow);
    server.signal("STOP");
    assert_eq!(ask(&store, "late", &rule(1, 5)).await.source, Source::Fallback);
    server.signal("CONT");
    let verdict = ask(&store, "other", &rule(1, 1_000)).await;
    assert_eq!((verdict.remaining, verdict.source), (Some(999), Source::Redis));
    assert!(ask(&store, "late", &rule(1, 5)).await.remaining >= Some(3), "it was sent at most once");
}

#[tokio::test]
async fn a_lost_idle_connection_is_replaced_before_the_next_request() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let redis = &mut server.connection();
    redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub").arg("SKIPME").arg("yes").exec(redis).unwrap();
    eventually("the connection is replaced", async || client.stats().connects.get() == 2).await;
    let store = store(&client, OnStoreFailure::Deny);
    assert_eq!(ask(&store, "a", &rule(1, 1)).await.source, Source::Redis);
}

#[tokio::test]
async fn a_wrong_password_is_reported_without_repeating_it() {
    let server = RedisServer::start_with(&["--requirepass", "right"]);
    let url = |password: &str| format!("redis://:{password}@127.0.0.1:{}", server.port);
    let client = RedisClient::start(&RedisSettings::new(url("wr0ng-s3cret"))).unwrap();
    eventually("the error is reported", async || client.status().last_error().is_some()).await;
    let text = client.status().last_error().unwrap().to_owned();
    assert!(text.contains("WRONGPASS") && !text.contains("s3cret"), "{text}");
    assert_eq!(ask(&store(&client, OnStoreFailure::Allow), "a", &rule(1, 1)).await.source, Source::Fallback);
    assert_eq!((failures(&client, StoreError::Auth), failures(&client, StoreError::Disconnected)), (1, 0));

    let client = RedisClient::start(&RedisSettings::new(url("right"))).unwrap();
    assert!(client.wait_connected(Duration::from_secs(10)).await);
    assert_eq!(ask(&store(&client, OnStoreFailure::Deny), "a", &rule(1, 1)).await.source, Source::Redis);
}

#[tokio::test]
async fn a_missing_permission_has_its_own_reason() {
    let server = RedisServer::start();
    let acl = ["SETUSER", "u", "on", ">p", "~*", "+@all", "-setex"];
    redis::cmd("ACL").arg(&acl).exec(&mut server.connection()).unwrap();
    let client = RedisClient::start(&RedisSettings::new(format!("redis://u:p@127.0.0.1:{}", server.port))).unwrap();
    assert!(client.wait_connected(Duration::from_secs(10)).await);
    let store = store(&client, OnStoreFailure::Deny);
    assert_eq!(ask(&store, "a", &rule(1, 1)).await.source, Source::Fallback);
    assert_eq!(failures(&client, StoreError::NoPerm), 1);
}

#[tokio::test]
async fn a_redis_at_maxmemory_decides_again_once_it_has_room() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = store(&client, OnStoreFailure::Local);
    let redis = &mut server.connection();
    redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("1").exec(redis).unwrap();
    for _ in 0..5 {
        assert_eq!(ask(&store, "a", &rule(1, 100)).await.source, Source::Fallback);
    }
    assert_eq!((failures(&client, StoreError::Oom), client.status().breaker()), (5, BreakerState::Open));
    redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("0").exec(redis).unwrap();
    assert!(recovery(&store).await < Duration::from_secs(1));
    assert_eq!(client.stats().connects.get(), 1, "the connection was kept");
}

#[tokio::test]
async fn a_replica_is_abandoned_and_used_again_as_a_primary() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = store(&client, OnStoreFailure::Local);
    let redis = &mut server.connection();
    redis::cmd("REPLICAOF").arg("127.0.0.1").arg("1").exec(redis).unwrap();
    assert_eq!(ask(&store, "a", &rule(1, 100)).await.source, Source::Fallback);
    assert_eq!(failures(&client, StoreError::ReadOnly), 1);
    redis::cmd("REPLICAOF").arg("NO").arg("ONE").exec(redis).unwrap();
    assert!(recovery(&store).await < Duration::from_secs(2));
}

#[tokio::test]
async fn invalid_replies_are_an_outage() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"$999999999999\r\nHTTP/1.1 400 Bad Request\r\n\r\n*-7\r\n");
        }
    });
    let client = RedisClient::start(&RedisSettings::new(format!("redis://127.0.0.1:{port}"))).unwrap();
    eventually("the error is reported", async || client.status().last_error().is_some()).await;
    assert_eq!(ask(&store(&client, OnStoreFailure::Local), "a", &rule(1, 1)).await.source, Source::Fallback);
    assert_eq!(client.stats().connects.get(), 0);
}

#[tokio::test]
async fn a_client_fails_every_call_after_shutdown() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    client.shutdown();
    assert!(!client.status().connected());
    assert_eq!(ask(&store(&client, OnStoreFailure::Deny), "a", &rule(1, 1)).await.source, Source::Fallback);
}
