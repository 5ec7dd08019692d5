//! Limiters with a real Redis.

#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod conditions;

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::request_rate_limiter::{RequestRateLimiterLayer, Settings};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{LeakyBucket, Rule};
use tollgate_limiter::store::memory::MemoryStore;
use tollgate_limiter::store::redis::{RedisClient, RedisSettings, RedisStore};
use tollgate_limiter::store::{Check, Decision, OnStoreFailure, Store};
use tollgate_test_support::RedisServer;
use tower::{Layer, ServiceExt, service_fn};

async fn connected_store(server: &RedisServer) -> Arc<RedisStore> {
    let settings = RedisSettings { timeout: Duration::from_secs(20), ..RedisSettings::new(server.url()) };
    let client = RedisClient::start(&settings).unwrap();
    assert!(client.wait_connected(Duration::from_secs(10)).await);
    let memory = Arc::new(MemoryStore::new(NonZeroUsize::new(1_000).unwrap()));
    Arc::new(RedisStore::new(client, memory, OnStoreFailure::Deny))
}

/// Polls `done` every 2 ms. Panics with `what` after 10 s.
async fn eventually(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !done().await {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn two_gateways_share_one_queue_and_a_cancelled_request_frees_its_slot() {
    let server = RedisServer::start_with(&[]);
    let interval = Duration::from_millis(40);
    let paced = |interval, places| {
        Rule::LeakyBucket(
            LeakyBucket::new(1, interval)
                .unwrap()
                .with_max_wait(Duration::from_secs(600))
                .unwrap()
                .with_max_queue(places)
                .unwrap(),
        )
    };
    let calls = Arc::new(Mutex::new(Vec::new()));
    let gateways = [connected_store(&server).await, connected_store(&server).await];
    let send = |gateway: usize, scope: &str, rule: Rule| {
        let calls = Arc::clone(&calls);
        let settings = Settings { key_resolver: KeyResolver::parse("header:x-user").unwrap(), ..Settings::default() };
        let builder = RequestRateLimiterLayer::builder().rule(rule).settings(settings);
        let layer = builder.store(scope, gateways[gateway].clone()).build().unwrap();
        let service = layer.layer(service_fn(move |_: Request<()>| {
            calls.lock().unwrap().push(Instant::now());
            std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default())))
        }));
        tokio::spawn(service.oneshot(Request::builder().header("x-user", "ada").body(()).unwrap()))
    };

    let start = Instant::now();
    // A gateway whose replies are late leaves turns free, so the queue has more places than requests.
    let requests: Vec<_> = (0..7).map(|n| send(n % 2, "short", paced(interval, 600))).collect();
    for request in requests {
        assert_eq!(request.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    for (n, at) in (0..).zip(std::mem::take(&mut *calls.lock().unwrap())) {
        assert!(at - start >= interval * n, "request {n} arrived {:?} after the first was sent", at - start);
    }

    let long = paced(Duration::from_secs(60), 6);
    let free_slots = async || {
        let check = Check { key: BucketKey { scope: "long", id: b"ada" }, rule: &long, cost: 0 };
        let Decision::Pending(verdict) = gateways[0].decide(&[check], &[]) else {
            panic!("redis decides asynchronously")
        };
        verdict.await.remaining.unwrap()
    };
    assert_eq!(send(0, "long", long.clone()).await.unwrap().unwrap().status(), StatusCode::OK);
    eventually("no request waits", async || free_slots().await == 6).await;
    let waiting = send(1, "long", long.clone());
    eventually("the request holds a slot", async || free_slots().await == 5).await;
    waiting.abort();
    eventually("the slot is free", async || free_slots().await == 6).await;
    assert_eq!(calls.lock().unwrap().len(), 1);
}
