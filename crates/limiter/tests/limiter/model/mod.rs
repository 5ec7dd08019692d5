//! Random traces through a reference model, the memory store and a real Redis, for every algorithm.
//!
//! Models follow the definition, not the code: one file per algorithm and one line in [`KINDS`]. All three must agree on
//! every field of a verdict. `TOLLGATE_TRACES` sets the number of traces (3,000 with 24,191 decisions),
//! `TOLLGATE_FROM` the first seed, and `TOLLGATE_SEED` runs a single one. `TOLLGATE_MEMORY_ONLY=1` leaves out Redis.
//! A trace has its own rules and keys and consists of:
//!
//! - one to four rules in a decision, of any algorithm, in a list (`limiter#name`, the first also `limiter`),
//!   shared (`#name`) or alone;
//! - costs from 0 to beyond every capacity; times that stand still, reach a promised time, skip days or move back;
//! - some of the rules in a decision only observe;
//! - restarts of the process, of which the next one gets a snapshot;
//! - changed rules, corrections, and grants to quotas;
//! - between any two decisions, another gateway or plan with other rules for the same keys, and resets of a key.

mod chance;
mod definition;
mod fixed_window;
mod leaky_bucket;
mod operations;
mod promises;
mod quota;
mod rng;
mod sliding_window_counter;
mod sliding_window_log;
mod stores;
mod token_bucket;
mod trace;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tollgate_limiter::rule::{Algorithm, Rule};
use tollgate_limiter::store::redis::RedisClient;

use self::definition::Kind;
pub(crate) use self::rng::Rng;
pub(crate) use self::stores::answer;
use self::stores::{Expiry, Keeper};
use self::trace::Trace;
use crate::support::RedisServer;

/// All algorithms.
pub(crate) const KINDS: &[Kind] = &[
    Kind {
        name: "token-bucket",
        rule: |rng| Rule::TokenBucket(token_bucket::numbers(rng)),
        key: token_bucket::key,
        bound: token_bucket::bound,
    },
    Kind {
        name: "gcra",
        rule: |rng| Rule::Gcra(token_bucket::numbers(rng)),
        key: token_bucket::key,
        bound: token_bucket::bound,
    },
    Kind { name: "fixed-window", rule: fixed_window::rule, key: fixed_window::key, bound: fixed_window::bound },
    Kind {
        name: "sliding-window-log",
        rule: sliding_window_log::rule,
        key: sliding_window_log::key,
        bound: sliding_window_log::bound,
    },
    Kind {
        name: "sliding-window-counter",
        rule: sliding_window_counter::rule,
        key: sliding_window_counter::key,
        bound: sliding_window_counter::bound,
    },
    Kind { name: "leaky-bucket", rule: leaky_bucket::rule, key: leaky_bucket::key, bound: leaky_bucket::bound },
    Kind { name: "quota", rule: quota::rule, key: quota::key, bound: quota::bound },
];

/// Seeds of traces that once failed.
const REGRESSIONS: [u64; 4] = [9_071_183, 20_172_272, 20_206_704, 30_032_338];

/// Number of concurrent traces. Their decisions share writes to Redis.
const AT_ONCE: usize = 64;

/// Shortest expiry of a key. The clock of Redis advances independently of a trace, so a slower trace may lose keys early.
const KEYS_LAST: Duration = Duration::from_millis(900);

/// Maximum number of repeats of a slow trace.
const REPEATS: u32 = 3;

#[test]
fn every_algorithm_has_a_model() {
    let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
    assert_eq!(names, Algorithm::ALL.map(Algorithm::as_str));
}

pub(crate) fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// A Redis server, with a client for all traces.
struct Redis {
    server: RedisServer,
    client: Arc<RedisClient>,
    /// Held by all traces, and by one that is repeated alone.
    turn: tokio::sync::RwLock<()>,
}

impl Redis {
    async fn start() -> Self {
        let server = RedisServer::start();
        let client = server.connected_client().await;
        Self { server, client, turn: tokio::sync::RwLock::default() }
    }

    /// Runs one trace. If it fails, and was so slow that keys may have expired, it is repeated alone with kept keys.
    async fn run(&self, seed: u64) -> Result<u64, String> {
        let turn = self.turn.read().await;
        let start = Instant::now();
        let mut result = Trace::new(seed, 0, &self.client, None).run().await;
        let mut slowest = start.elapsed();
        drop(turn);
        for run in 1..=REPEATS {
            if result.is_ok() || slowest <= KEYS_LAST {
                break;
            }
            let _alone = self.turn.write().await;
            let mut keeper = Keeper::new(self.server.connection(), seed);
            result = Trace::new(seed, run, &self.client, None).kept_by(&mut keeper).run().await;
            slowest = keeper.slowest_step();
        }
        result.map_err(|problem| format!("TOLLGATE_SEED={seed}, the slowest step took {slowest:?}\n{problem}"))
    }
}

async fn run_all(seeds: std::ops::Range<u64>, redis: &Arc<Redis>) -> u64 {
    let (next, decisions) = (Arc::new(AtomicU64::new(seeds.start)), Arc::new(AtomicU64::new(0)));
    let mut tasks: tokio::task::JoinSet<Result<(), String>> = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        let (next, decisions, redis, end) = (next.clone(), decisions.clone(), redis.clone(), seeds.end);
        tasks.spawn(async move {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= end {
                    return Ok(());
                }
                decisions.fetch_add(redis.run(seed).await?, Ordering::Relaxed);
            }
        });
    }
    while let Some(result) = tasks.join_next().await {
        if let Err(problem) = result.unwrap() {
            panic!("{problem}");
        }
    }
    decisions.load(Ordering::Relaxed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_the_memory_and_redis_agree_on_every_trace() {
    let redis = Arc::new(Redis::start().await);
    if let Some(seed) = number("TOLLGATE_SEED") {
        println!("{} decisions", redis.run(seed).await.unwrap_or_else(|problem| panic!("{problem}")));
        return;
    }
    for seed in REGRESSIONS {
        redis.run(seed).await.unwrap_or_else(|problem| panic!("{problem}"));
    }
    let (traces, start, mut decisions) = (number("TOLLGATE_TRACES").unwrap_or(3_000), Instant::now(), 0);
    let from = number("TOLLGATE_FROM").unwrap_or(0);
    for first in (from..from + traces).step_by(10_000) {
        decisions += run_all(first..(from + traces).min(first + 10_000), &redis).await;
        redis::cmd("FLUSHALL").exec(&mut redis.server.connection()).unwrap();
    }
    assert!(number("TOLLGATE_TRACES").is_some() || decisions >= 20_000, "{decisions} decisions");
    println!("{traces} traces from seed {from} of {decisions} decisions in {:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_slower_than_the_expiry_of_keys_is_compared_all_the_same() {
    let redis = Arc::new(Redis::start().await);
    let mut traces = tokio::task::JoinSet::new();
    for seed in 0..AT_ONCE as u64 {
        let redis = Arc::clone(&redis);
        traces.spawn(async move {
            let mut keeper = Keeper::new(redis.server.connection(), seed).with_pause(KEYS_LAST / 3);
            Trace::new(seed, 0, &redis.client, None).kept_by(&mut keeper).run().await
        });
    }
    for result in traces.join_all().await {
        result.unwrap_or_else(|problem| panic!("{problem}"));
    }
}

#[tokio::test]
async fn dropping_expired_states_immediately_loses_nothing() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let mut expiry = Expiry::new(server.connection());
    let traces = number("TOLLGATE_TRACES").map_or(500, |traces| traces / 20);
    let seeds = number("TOLLGATE_SEED").map_or(1 << 40..(1 << 40) + traces, |seed| seed..seed + 1);
    for seed in seeds {
        let result = Trace::new(seed, 0, &client, Some(&mut expiry)).run().await;
        result.unwrap_or_else(|problem| panic!("TOLLGATE_SEED={seed}\n{problem}"));
        expiry.clear();
    }
}
