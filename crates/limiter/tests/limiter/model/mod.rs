//! Random traces through a reference model, the memory store and a real Redis, for every algorithm.
//!
//! Models follow the definition, not the code: one file per algorithm and one line in [`KINDS`]. All three must agree on
//! every field of a verdict. `TOLLGATE_TRACES` sets the number of traces (3,000 with 24,191 decisions),
//! `TOLLGATE_FROM` the first seed, and `TOLLGATE_SEED` runs a single one. `TOLLGATE_MEMORY_ONLY=1` leaves out Redis.
//! A trace has its own rules and keys and consists of:
//!
//! - one to four rules in a decision, of any algorithm, in a list (`limiter#name`), shared (`#name`) or alone;
//! - costs from 0 to beyond every capacity; times that stand still, reach a promised time, skip days or move back;
//! - some of the rules in a decision only observe;
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
use self::stores::Expiry;
pub(crate) use self::stores::answer;
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

#[test]
fn every_algorithm_has_a_model() {
    let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
    assert_eq!(names, Algorithm::ALL.map(Algorithm::as_str));
}

pub(crate) fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// Runs one trace, and repeats it if it was so slow that keys may have expired.
async fn run(seed: u64, client: &Arc<RedisClient>) -> Result<u64, String> {
    let mut run = 0;
    loop {
        let start = Instant::now();
        match Trace::new(seed, run, client, None).run().await {
            Err(_) if start.elapsed() > KEYS_LAST && run < 20 => run += 1,
            result => return result.map_err(|problem| format!("TOLLGATE_SEED={seed}\n{problem}")),
        }
    }
}

async fn run_all(seeds: std::ops::Range<u64>, client: &Arc<RedisClient>) -> u64 {
    let (next, decisions) = (Arc::new(AtomicU64::new(seeds.start)), Arc::new(AtomicU64::new(0)));
    let mut tasks: tokio::task::JoinSet<Result<(), String>> = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        let (next, decisions, client, end) = (next.clone(), decisions.clone(), client.clone(), seeds.end);
        tasks.spawn(async move {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= end {
                    return Ok(());
                }
                decisions.fetch_add(run(seed, &client).await?, Ordering::Relaxed);
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
    let server = RedisServer::start();
    let client = server.connected_client().await;
    if let Some(seed) = number("TOLLGATE_SEED") {
        println!("{} decisions", run(seed, &client).await.unwrap_or_else(|problem| panic!("{problem}")));
        return;
    }
    for seed in REGRESSIONS {
        run(seed, &client).await.unwrap_or_else(|problem| panic!("{problem}"));
    }
    let (traces, start, mut decisions) = (number("TOLLGATE_TRACES").unwrap_or(3_000), Instant::now(), 0);
    let from = number("TOLLGATE_FROM").unwrap_or(0);
    for first in (from..from + traces).step_by(10_000) {
        decisions += run_all(first..(from + traces).min(first + 10_000), &client).await;
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
    }
    assert!(number("TOLLGATE_TRACES").is_some() || decisions >= 20_000, "{decisions} decisions");
    println!("{traces} traces from seed {from} of {decisions} decisions in {:?}", start.elapsed());
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
