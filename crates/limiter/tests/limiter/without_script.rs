//! Servers and proxies without `SCRIPT`, such as Envoy's and Codis: scripts are sent with `EVAL`.

use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::concurrency::redis::RedisSlots;
use tollgate_limiter::concurrency::{Acquisition, Concurrency, MemorySlots, SlotStore};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Quota, Rule, TokenBucket};
use tollgate_limiter::store::redis::{BreakerState, RedisClient, RedisSettings};
use tollgate_limiter::store::{Check, OnStoreFailure, Store};
use tollgate_limiter::verdict::Source;

use crate::model::answer;
use crate::support::{RedisServer, ask, connected, eventually, store};

const HOUR: Duration = Duration::from_secs(3_600);

fn without(command: &str) -> RedisServer {
    RedisServer::start_with(&["--rename-command", command, ""])
}

fn hourly(burst: u64) -> Rule {
    Rule::Gcra(TokenBucket::new(1, HOUR, burst).unwrap())
}

fn key(id: &str) -> BucketKey<'_> {
    BucketKey { scope: "r", id: id.as_bytes() }
}

fn assert_served_by_redis(client: &RedisClient) {
    let status = client.status();
    assert!(client.stats().failures.by_reason().iter().all(|&(_, count)| count == 0), "{status:?}");
    assert_eq!((status.breaker(), client.stats().connects.get()), (BreakerState::Closed, 1));
}

#[tokio::test]
async fn three_gateways_without_script_share_one_limit() {
    let server = without("SCRIPT");
    let mut admitted = 0;
    for _ in 0..3 {
        let client = server.connected_client().await;
        let store = store(&client, OnStoreFailure::Local);
        // At once, so that most decisions are made in batches.
        let asked: Vec<_> = (0..20)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move { ask(&store, "k", &hourly(20)).await })
            })
            .collect();
        for asked in asked {
            admitted += u32::from(asked.await.unwrap().is_allowed());
        }
        let rules = [("r#a", hourly(5)), ("r#b", hourly(6))];
        let checks: Vec<_> =
            rules.iter().map(|(scope, rule)| Check { key: BucketKey { scope, id: b"list" }, rule, cost: 1 }).collect();
        assert_eq!(answer(store.decide(&checks, &[])).await.source, Source::Redis);
        assert_served_by_redis(&client);
    }
    assert_eq!(admitted, 20);
}

#[tokio::test]
async fn quotas_and_slots_are_kept_in_a_redis_without_script() {
    let server = without("SCRIPT");
    let client = server.connected_client().await;
    let (quota, ids) = (Quota::new(10).unwrap(), ["a", "b", "c"]);
    let wanted = ids.map(|id| (key(id), 4));
    let taken = store(&client, OnStoreFailure::Deny).withdraw_quotas(&quota, &wanted).await.unwrap();
    assert!(taken.iter().all(|taken| taken.as_ref().is_ok_and(|taken| taken.remaining == 6)), "{taken:?}");
    let rule = Concurrency::new(1).unwrap().with_ttl(Duration::from_millis(600)).unwrap();
    let local = MemorySlots::new(Arc::default(), rule, Arc::default());
    let slots = RedisSlots::new(Arc::clone(&client), local, OnStoreFailure::Deny, Arc::default());
    let acquire = async || {
        let Acquisition::Pending(acquired) = slots.acquire(key("k")) else { panic!("redis is called") };
        acquired.await
    };
    let held = acquire().await;
    assert!(held.slot.is_some() && acquire().await.slot.is_none());
    assert_served_by_redis(&client);
}

#[tokio::test]
async fn scripts_are_loaded_where_eval_is_refused() {
    let server = without("EVAL");
    let client = server.connected_client().await;
    assert_eq!(ask(&store(&client, OnStoreFailure::Deny), "k", &hourly(9)).await.source, Source::Redis);
    assert_served_by_redis(&client);
}

#[tokio::test]
async fn an_unknown_hello_is_reported_with_the_setting_for_it() {
    let server = without("HELLO");
    let client = RedisClient::start(&RedisSettings::new(server.url())).unwrap();
    eventually("the error is reported", async || client.status().last_error().is_some()).await;
    let text = client.status().last_error().unwrap().to_owned();
    assert!(text.contains("the protocol RESP2"), "{text}");
    let client = connected(&RedisSettings { resp2: true, timeout: HOUR, ..RedisSettings::new(server.url()) }).await;
    assert_eq!(ask(&store(&client, OnStoreFailure::Deny), "k", &hourly(9)).await.source, Source::Redis);
}
