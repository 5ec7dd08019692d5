//! How many decisions a second the Redis store makes over one connection: many tasks on one thread.
//!
//! `cargo run --release -p tollgate-filters --features redis --example redis_decisions -- redis://127.0.0.1:6379`, and
//! then, if they should differ, the number of tasks (64), of seconds (3) and of keys (100000). Beside it:
//! `redis-benchmark -c 50 -P 1 -r 100000 EVALSHA ...` of `lua/token_bucket.lua`.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
    let (tasks, seconds, keys) = (number(64)?, number(3)?, number(100_000)?);

    let client = RedisClient::start(&RedisSettings::new(url))?;
    if !client.wait_connected(Duration::from_secs(5)).await {
        return Err(client.status().last_error().unwrap_or_default().into());
    }
    let local = Arc::new(MemoryStore::new(NonZeroUsize::MIN.saturating_add(1_000_000)));
    let store = RedisStore::new(client, local, OnStoreFailure::Local);
    let rule = Rule::TokenBucket(TokenBucket::per_second(1_000, 1_000)?);
    let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);

    let start = Instant::now();
    let stop = start + Duration::from_secs(seconds);
    let mut running = JoinSet::new();
    for task in 0..tasks {
        running.spawn(ask_until(stop, store.clone(), rule.clone(), task, keys, Arc::clone(&counts)));
    }
    running.join_all().await;
    let took = start.elapsed();
    let [decided, degraded] = [0, 1].map(|n: usize| counts[n].load(Ordering::Relaxed));
    println!(
        "{:.0} decisions/s, {:.2} us each; {} of {} without redis",
        decided as f64 / took.as_secs_f64(),
        took.as_secs_f64() * 1e6 / decided as f64,
        degraded,
        decided
    );
    Ok(())
}

/// Asks for random keys; counts decisions, and those that Redis did not make.
async fn ask_until(stop: Instant, store: RedisStore, rule: Rule, task: u64, keys: u64, counts: Arc<[AtomicU64; 2]>) {
    let mut random = (task + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    while Instant::now() < stop {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let id = format!("{:012}", random % keys);
        let verdict = match store.decide(&[Check {
            key: BucketKey { scope: "orders", id: id.as_bytes() },
            rule: &rule,
            cost: 1,
        }]) {
            Decision::Ready(verdict) => verdict,
            Decision::Pending(verdict) => verdict.await,
        };
        counts[0].fetch_add(1, Ordering::Relaxed);
        counts[1].fetch_add(u64::from(verdict.source != Source::Redis), Ordering::Relaxed);
    }
}
