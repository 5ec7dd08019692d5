//! One key that many ask for: decisions a second with and without what `redis.coalesce`, `redis.denial-cache` and `lease`
//! save, on one thread, and the requests for each call of Redis.
//!
//! `cargo run --release -p tollgate-filters --features redis --example hot_key -- redis://127.0.0.1:6379`, and then, if
//! they should differ, the number of tasks (64) and of seconds each (2). Beside it:
//! `redis-benchmark -c 50 -P 1 EVALSHA ...` of `lua/token_bucket.lua`.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_filters::limiter::key::BucketKey;
use tollgate_filters::limiter::rule::{Rule, TokenBucket};
use tollgate_filters::limiter::store::memory::MemoryStore;
use tollgate_filters::limiter::store::redis::{RedisClient, RedisSettings, RedisStore};
use tollgate_filters::limiter::store::{Check, Decision, OnStoreFailure, Store};
use tollgate_filters::limiter::verdict::Source;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let mut number = |default: u64| args.next().map_or(Ok(default), |text| text.parse());
    let (tasks, time) = (number(64)?, Duration::from_secs(number(2)?));
    let client = RedisClient::start(RedisSettings { timeout: Duration::from_secs(1), ..RedisSettings::new(&url) })?;
    if !client.wait_connected(Duration::from_secs(5)).await {
        return Err(client.status().last_error.unwrap_or_default().into());
    }
    let local = Arc::new(MemoryStore::new(NonZeroUsize::MIN.saturating_add(1_000)));
    let store = RedisStore::new(Arc::clone(&client), Arc::clone(&local), OnStoreFailure::Deny);
    let one_by_one = store.clone().coalesce(false).denial_cache(false);
    let ample = Rule::TokenBucket(TokenBucket::per_second(1_000, 1_000_000_000)?);
    let tight = Rule::TokenBucket(TokenBucket::per_second(10, 10)?);
    let lease = store.clone().lease(Some(Duration::from_millis(100)));
    for (what, store, rule) in [
        ("allowed, one by one", &one_by_one, &ample),
        ("allowed, together", &store, &ample),
        ("allowed, lease 100ms", &lease, &ample),
        ("denied, one by one", &one_by_one, &tight),
        ("denied, remembered", &store, &tight),
    ] {
        let calls = || client.status().call_sizes.calls.iter().sum::<u64>();
        let (before, start) = (calls(), Instant::now());
        let mut running = JoinSet::new();
        for _ in 0..tasks {
            running.spawn(ask_until(start + time, what, store.clone(), rule.clone()));
        }
        let counts = running.join_all().await;
        let decided: u64 = counts.iter().map(|(decided, _)| decided).sum();
        let degraded: u64 = counts.iter().map(|(_, degraded)| degraded).sum();
        println!(
            "{what:22} {:>9.0} decisions/s, {:.4} calls each, {degraded} without redis",
            decided as f64 / start.elapsed().as_secs_f64(),
            (calls() - before) as f64 / decided as f64,
        );
    }
    client.shutdown();
    let store = RedisStore::new(client, local, OnStoreFailure::Local);
    let (start, decisions) = (Instant::now(), 1_000_000_u32);
    for _ in 0..decisions {
        let check = Check { key: BucketKey { scope: "orders", id: b"hot" }, rule: &tight, cost: 1 };
        assert!(matches!(store.decide(&[check]), Decision::Ready(_)), "nobody waits without redis");
    }
    println!("without redis          {:?} a decision", start.elapsed() / decisions);
    Ok(())
}

/// Asks again and again; counts decisions, and those that Redis did not make.
async fn ask_until(stop: Instant, scope: &'static str, store: RedisStore, rule: Rule) -> (u64, u64) {
    let (mut decided, mut degraded) = (0_u64, 0_u64);
    while Instant::now() < stop {
        let check = Check { key: BucketKey { scope, id: b"hot" }, rule: &rule, cost: 1 };
        let verdict = match store.decide(&[check]) {
            // Others shall have their turn, as they have when requests come over sockets.
            Decision::Ready(verdict) => {
                if decided.is_multiple_of(64) {
                    tokio::task::yield_now().await;
                }
                verdict
            }
            Decision::Pending(verdict) => verdict.await,
        };
        decided += 1;
        degraded += u64::from(verdict.source == Source::Fallback);
    }
    (decided, degraded)
}
