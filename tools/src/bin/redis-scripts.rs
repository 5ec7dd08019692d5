//! Measures the cost of each script in Redis: processor time per decision and bytes per key.
//!
//! `cargo run --release -p tollgate-tools --bin redis-scripts [-- ROUNDS]`
//!
//! Starts a redis-server. The designs take turns in rotating order: 64 tasks over one connection call with random keys of
//! 100,000. The result is the processor time of Redis (`/proc/PID/schedstat`) per decision, as a median of the turns and
//! as a ratio to the base in the same round. The base is a plain token bucket in two strings.

#![allow(clippy::print_stdout)]

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use tokio::task::{LocalSet, spawn_local};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{
    Align, FixedWindow, LeakyBucket, Quota, Rule, SlidingWindowCounter, SlidingWindowLog, TokenBucket,
};
use tollgate_limiter::store::memory::MemoryStore;
use tollgate_limiter::store::redis::{RedisClient, RedisSettings, RedisStore};
use tollgate_limiter::store::{Check, Decision, OnStoreFailure, Store};
use tollgate_tools::error::{ToolError, exit};
use tollgate_tools::redis_server::RedisServer;

/// Number of keys.
const KEYS: u64 = 100_000;

/// Number of keys written to measure the memory per key.
const STORED: u64 = 200_000;

const TASKS: u64 = 64;

/// Duration of a turn.
const TURN: Duration = Duration::from_millis(700);

/// Base: a minimal token bucket with the caller's time and without validation.
const BASE: &str = "
local tokens = tonumber(redis.call('GET', KEYS[1])) or tonumber(ARGV[2])
local since = tonumber(redis.call('GET', KEYS[2])) or 0
local level = math.min(tonumber(ARGV[2]), tokens + math.max(0, ARGV[3] - since) * ARGV[1])
local allowed = level >= tonumber(ARGV[4])
if allowed then level = level - ARGV[4] end
redis.call('SETEX', KEYS[1], ARGV[5], level)
redis.call('SETEX', KEYS[2], ARGV[5], ARGV[3])
return {allowed and 1 or 0, level}";

/// Scopes of a list: the names of its rules are written, so they share a string.
const NAMED: [&str; 3] = ["orders#second", "orders#minute", "orders#hour"];

/// Scopes of a rule without a name and of those behind it.
const UNNAMED: [&str; 3] = ["orders", "orders#rule2", "orders#rule3"];

/// Row of the table.
#[derive(Clone)]
struct Design {
    name: &'static str,
    scopes: [&'static str; 3],
    rules: Vec<Rule>,
    cost: u64,
    turns: Vec<[f64; 2]>,
}

/// Calls for the duration of a turn and returns the number of calls.
async fn call_for_a_turn(
    connection: &MultiplexedConnection,
    store: &RedisStore,
    design: &Design,
) -> Result<u64, ToolError> {
    let (stop, calls) = (Instant::now() + TURN, Rc::new(Cell::new(0)));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (calls, store, design) = (Rc::clone(&calls), store.clone(), design.clone());
            let mut connection = connection.clone();
            spawn_local(async move {
                let mut random = (task + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                while Instant::now() < stop {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    decide(&mut connection, &store, &design, design.cost, random % KEYS).await?;
                    calls.set(calls.get() + 1);
                }
                Ok::<_, ToolError>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(calls.get())
}

async fn decide(
    connection: &mut MultiplexedConnection,
    store: &RedisStore,
    design: &Design,
    cost: u64,
    number: u64,
) -> Result<(), ToolError> {
    let id = format!("{number:016x}");
    if design.rules.is_empty() {
        let keys = ["tokens", "timestamp"].map(|suffix| format!("request_rate_limiter.{{orders.{id}}}.{suffix}"));
        let mut call = redis::cmd("EVALSHA");
        call.arg(redis::Script::new(BASE).get_hash()).arg(2).arg(&keys).arg(&[10, 100_000, 1_763_700_000]);
        let _: (i64, f64) = call.arg(cost).arg(3_600).query_async(connection).await?;
        return Ok(());
    }
    let key = |n: usize| BucketKey { scope: design.scopes[n], id: id.as_bytes() };
    let checks: Vec<_> = design.rules.iter().enumerate().map(|(n, rule)| Check { key: key(n), rule, cost }).collect();
    let verdict = match store.decide(&checks, &[]) {
        Decision::Ready(verdict) => verdict,
        Decision::Pending(verdict) => verdict.await,
    };
    verdict.remaining.map(|_| ()).ok_or(ToolError::WithoutRedis)
}

/// Returns all compared designs. The rules are wide enough to admit every request that is not meant to be denied.
fn designs() -> Result<Vec<Design>, ToolError> {
    let hour = Duration::from_secs(3_600);
    let bucket = Rule::TokenBucket(TokenBucket::new(1_000_000, hour, 1_000_000).map_err(ToolError::design)?);
    let second = Rule::TokenBucket(TokenBucket::per_second(10, 100_000).map_err(ToolError::design)?);
    let gcra = Rule::Gcra(TokenBucket::per_second(10, 100_000).map_err(ToolError::design)?);
    let window = Rule::FixedWindow(FixedWindow::new(1_000_000, hour, Align::First).map_err(ToolError::design)?);
    let log = |limit| SlidingWindowLog::new(limit, hour).map(Rule::SlidingWindowLog).map_err(ToolError::design);
    let counter = Rule::SlidingWindowCounter(SlidingWindowCounter::new(1_000_000, hour).map_err(ToolError::design)?);
    let pace = LeakyBucket::new(1_000, Duration::from_secs(1))
        .and_then(|pace| pace.with_max_wait(hour))
        .and_then(|pace| pace.with_max_queue(1_000_000))
        .map_err(ToolError::design)?;
    let quota = Rule::Quota(Quota::new(1_000_000).map_err(ToolError::design)?);
    let design = |name, rules: &[&Rule], cost| Design {
        name,
        scopes: if rules.len() == 1 { UNNAMED } else { NAMED },
        rules: rules.iter().map(|rule| (*rule).clone()).collect(),
        cost,
        turns: Vec::new(),
    };
    Ok(vec![
        design("base: two strings", &[], 1),
        design("token-bucket", &[&second], 1),
        design("token-bucket, per hour", &[&bucket], 1),
        design("token-bucket, denied", &[&second], 100_001),
        design("gcra", &[&gcra], 1),
        design("gcra, denied", &[&gcra], 100_001),
        design("fixed-window", &[&window], 1),
        design("sliding-window-log", &[&log(1_000_000)?], 1),
        design("sliding-window-log, denied", &[&log(0)?], 1),
        design("sliding-window-counter", &[&counter], 1),
        design("leaky-bucket", &[&Rule::LeakyBucket(pace)], 1),
        design("quota", &[&quota], 1),
        design("three gcra rules", &[&gcra; 3], 1),
        design("three token-bucket rules", &[&second; 3], 1),
        design("token-bucket, gcra and fixed-window", &[&second, &gcra, &window], 1),
        Design { scopes: UNNAMED, ..design("three gcra rules without names", &[&gcra; 3], 1) },
        Design { scopes: UNNAMED, ..design("three token-bucket rules without names", &[&second; 3], 1) },
    ])
}

fn used_memory(info: &str) -> Result<f64, ToolError> {
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok());
    used.ok_or_else(|| ToolError::form("INFO memory", info))
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

async fn measure(rounds: usize) -> Result<(), ToolError> {
    let server = RedisServer::start(None, &[])?;
    let settings = RedisSettings { timeout: Duration::from_secs(20), ..RedisSettings::new(server.url()) };
    let client = RedisClient::start(&settings).map_err(ToolError::design)?;
    if !client.wait_connected(Duration::from_secs(10)).await {
        return Err(ToolError::WithoutRedis);
    }
    let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    redis::cmd("SCRIPT").arg("LOAD").arg(BASE).exec_async(&mut connection).await?;
    let local = Arc::new(MemoryStore::new(NonZeroUsize::MIN));
    let store = RedisStore::new(client, local, OnStoreFailure::Deny);
    let mut designs = designs()?;
    for round in 0..=rounds {
        for turn in 0..designs.len() {
            let at = (turn + round) % designs.len();
            redis::cmd("FLUSHALL").exec_async(&mut connection).await?;
            let before = server.on_cpu()?;
            let calls = call_for_a_turn(&connection, &store, &designs[at]).await?;
            let each = (server.on_cpu()? - before).as_secs_f64() * 1e6 / calls as f64;
            // The first round is a warm-up.
            if round > 0 {
                designs[at].turns.push([each, calls as f64 / TURN.as_secs_f64()]);
            }
        }
    }
    println!("| design | us of Redis | of the base | decisions/s | bytes a key |\n|---|---|---|---|---|");
    let base: Vec<f64> = designs[0].turns.iter().map(|turn| turn[0]).collect();
    for design in &designs {
        redis::cmd("FLUSHALL").exec_async(&mut connection).await?;
        let info = async |connection: &mut MultiplexedConnection| {
            used_memory(&redis::cmd("INFO").arg("memory").query_async::<String>(connection).await?)
        };
        let before = info(&mut connection).await?;
        for number in 0..STORED {
            decide(&mut connection, &store, design, design.cost * 997, number).await?;
        }
        let bytes = (info(&mut connection).await? - before).max(0.0) / STORED as f64;
        let ratio = median(design.turns.iter().zip(&base).map(|(turn, base)| turn[0] / base).collect());
        let column = |n: usize| median(design.turns.iter().map(|turn| turn[n]).collect());
        println!("| {} | {:.2} | {ratio:.2} | {:.0} | {bytes:.0} |", design.name, column(0), column(1));
    }
    Ok(())
}

fn main() -> ExitCode {
    let measured = || {
        let rounds = match std::env::args().nth(1) {
            Some(rounds) => rounds
                .parse()
                .map_err(|_| ToolError::Argument(format!("`{rounds}` is not a number of rounds, such as 5")))?,
            None => 5,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        LocalSet::new().block_on(&runtime, measure(rounds))?;
        Ok(ExitCode::SUCCESS)
    };
    exit(measured())
}
