//! Measures the longest call of each script in Redis, as the server's slow log reports it.
//!
//! `cargo run --release -p tollgate-tools --bin redis-worst-case [-- CALLS]`
//!
//! Starts a redis-server and prepares the state under which a script has most to do, for the rules that it allows at their
//! extremes. The last rows are calls that decide for several callers, as a gateway sends them. Exits with a failure if the
//! median of a row exceeds [`BOUND`].

#![allow(clippy::print_stdout)]

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use redis::{Connection, Value};
use tokio::task::JoinSet;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Rule, SlidingWindowLog, TokenBucket};
use tollgate_limiter::store::memory::{ManualClock, MemoryStore};
use tollgate_limiter::store::redis::{RedisClient, RedisSettings, RedisStore, key_names};
use tollgate_limiter::store::{Check, Decision, OnStoreFailure, Store};
use tollgate_tools::error::{ToolError, exit};
use tollgate_tools::redis_server::RedisServer;

/// Longest time for which one call may occupy Redis.
const BOUND: Duration = Duration::from_millis(5);

/// Start of the tests' clock, in seconds since 1970.
const START: u64 = 1_763_700_000;

/// Largest integer that Lua scripts count exactly: 2^53 - 1.
const MAX_SAFE_INTEGER: &str = "9007199254740991";

/// Entries of a log with the largest limit that keeps every microsecond, and its window in us.
const ENTRIES: u64 = 1_000;
const HOUR: u64 = 3_600_000_000;

/// Row of the table: a call, and the state before it.
struct Case {
    name: &'static str,
    script: &'static str,
    keys: Vec<String>,
    args: Vec<String>,
    /// Members of a sorted set under the first key, with their scores.
    state: Vec<(String, u64)>,
}

/// Splits arguments; `-` is an empty one.
fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(|word| if word == "-" { "" } else { word }.to_owned()).collect()
}

fn case(name: &'static str, script: &'static str, args: &str) -> Case {
    let keys = words(if script.contains("expected 2 keys") { "{k}a {k}b" } else { "{k}a" });
    Case { name, script, keys, args: words(args), state: Vec::new() }
}

const LOG: &str = include_str!("../../../lua/sliding_window_log.lua");

/// Returns a log under `windows`, each with its limit, and `count` entries of one token, `step` us apart.
fn members(windows: &[(u64, u64)], count: u64, step: u64) -> Vec<(String, u64)> {
    let note = |(length, limit): &(u64, u64)| (format!("{length}:{}:{limit}", (START + 60) * 1_000), 0);
    let entry = |n: u64| (format!("{n}:1"), START * 1_000_000 + n * step);
    windows.iter().map(note).chain((0..count).map(entry)).collect()
}

/// Returns a log of an hour with `ENTRIES` entries, a millisecond apart.
fn log(name: &'static str, args: &str) -> Case {
    Case { state: members(&[(HOUR, ENTRIES)], ENTRIES, 1_000), ..case(name, LOG, args) }
}

/// Returns a log of several windows, with four times as many entries: the window of the request is new, and old entries are merged.
fn case_of_windows(name: &'static str, args: &str) -> Case {
    let windows = [(1_000_000, 10), (2_000_000, 1_001), (HOUR, 1_001)];
    Case { state: members(&windows, 4 * ENTRIES, 10), ..case(name, LOG, args) }
}

fn cases() -> Vec<Case> {
    let bucket = include_str!("../../../lua/token_bucket.lua");
    let gcra = include_str!("../../../lua/gcra.lua");
    let window = include_str!("../../../lua/fixed_window.lua");
    let counter = include_str!("../../../lua/sliding_window_counter.lua");
    let leaky = include_str!("../../../lua/leaky_bucket.lua");
    let quota = include_str!("../../../lua/quota.lua");
    let leases = include_str!("../../../lua/concurrency.lua");
    let usage = include_str!("../../../lua/request_counter.lua");
    let gateways = include_str!("../../../lua/gateways.lua");
    let owners = |count: u64, at: u64| (0..count).map(move |n| (format!("owner-{n}"), at)).collect();
    let increments: Vec<String> = (0..180).map(|n| format!("{n}.requests 999999999999999999")).collect();
    vec![
        case("token-bucket", bucket, &format!("4294967295 9007199254 {START} 9007199254")),
        case("gcra", gcra, &format!("4294967295 4294967295 {START} 4294967295")),
        case(
            "fixed-window",
            window,
            &format!("{MAX_SAFE_INTEGER} {MAX_SAFE_INTEGER} {START} {MAX_SAFE_INTEGER} first"),
        ),
        case(
            "sliding-window-counter",
            counter,
            &format!("{MAX_SAFE_INTEGER} 1000000 {START} {MAX_SAFE_INTEGER} 1000000"),
        ),
        case("leaky-bucket", leaky, &format!("1 315360000000000 {START} 1 {MAX_SAFE_INTEGER} 315360000000000")),
        case("quota", quota, &format!("{MAX_SAFE_INTEGER} take {START} {MAX_SAFE_INTEGER} - - - -")),
        case(
            "sliding-window-log, one request of a billion tokens",
            LOG,
            &format!("1000000000000 3600000000 {START} 1000000000"),
        ),
        log("sliding-window-log, admitted after all entries expired", &format!("1000 1000 {} 1", START + 20_000)),
        log("sliding-window-log, denied with a search", &format!("1000 3600000000 {} 800", START + 60)),
        case_of_windows("sliding-window-log, beside three windows", &format!("1000 60000000 {} 1", START + 60)),
        case_of_windows(
            "sliding-window-log, a token of one of four thousand entries returned",
            &format!("1000 3600000000 {} -1 {}", START + 60, START * 1_000_000 + 10_000),
        ),
        log("sliding-window-log, clock set back before all entries", &format!("1000 3600000000 {} 1", START - 60)),
        Case {
            args: words(&format!("1000 3600000000 {} -1 {}", START + 60, START * 1_000_000 + ENTRIES / 2 * 1_000)),
            ..log("sliding-window-log, a token of the middle entry returned", "")
        },
        Case {
            state: owners(100_000, START * 1_000_000 - 1),
            ..case(
                "ConcurrencyLimiter, 100,000 leases expired",
                leases,
                &format!("acquire me {MAX_SAFE_INTEGER} 30000000 {START}"),
            )
        },
        Case {
            state: owners(100_000, START * 1_000_000 + 1),
            ..case(
                "ConcurrencyLimiter, 100,000 leases held",
                leases,
                &format!("acquire me {MAX_SAFE_INTEGER} 30000000 {START}"),
            )
        },
        case("RequestCounter, 180 fields", usage, &format!("7 3600 3600 {}", increments.join(" "))),
        Case {
            state: owners(1_000, START * 1_000_000 - 10_000_000),
            ..case("heartbeat, 1,000 silent gateways", gateways, &format!("beat me 5000000 {START}"))
        },
    ]
}

/// Returns the times of `calls` calls in microseconds, in order.
fn measure(redis: &mut Connection, case: &Case, calls: usize) -> Result<Vec<u64>, ToolError> {
    let loaded: String = redis::cmd("SCRIPT").arg("LOAD").arg(case.script).query(redis)?;
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        redis::cmd("FLUSHALL").exec(redis)?;
        for part in case.state.chunks(1_000) {
            let mut add = redis::cmd("ZADD");
            add.arg(&case.keys[0]);
            for (member, score) in part {
                add.arg(score).arg(member);
            }
            add.exec(redis)?;
        }
        redis::cmd("SLOWLOG").arg("RESET").exec(redis)?;
        let mut call = redis::cmd("EVALSHA");
        let _: Value = call.arg(&loaded).arg(case.keys.len()).arg(&case.keys).arg(&case.args).query(redis)?;
        times.push(longest_call(redis)?);
    }
    times.sort_unstable();
    Ok(times)
}

/// Returns the time of the longest call of a script in the slow log, in microseconds.
fn longest_call(redis: &mut Connection) -> Result<u64, ToolError> {
    let log: Vec<(i64, i64, u64, Vec<String>)> = {
        let entries: Vec<Vec<Value>> = redis::cmd("SLOWLOG").arg("GET").arg(-1).query(redis)?;
        let entry = |entry: Vec<Value>| redis::from_redis_value(Value::Array(entry.into_iter().take(4).collect()));
        entries.into_iter().map(entry).collect::<Result<_, _>>().map_err(redis::RedisError::from)?
    };
    let evaluated = log.into_iter().filter(|(.., words)| words.first().is_some_and(|word| word.starts_with("EVAL")));
    let longest = evaluated.map(|(_, _, time, _)| time).max();
    longest.ok_or_else(|| ToolError::Reply("the slow log has no call of a script".to_owned()))
}

/// Requests that a gateway decides at the same moment, each under its own key.
struct SimultaneousRequests {
    name: &'static str,
    rule: Rule,
    /// Number of such rules of each request.
    rules: usize,
    requests: usize,
    cost: u64,
}

impl SimultaneousRequests {
    fn checks<'a>(&'a self, scopes: &'a [String], id: &'a str) -> Vec<Check<'a>> {
        let key = |scope: &'a String| BucketKey { scope, id: id.as_bytes() };
        scopes.iter().map(|scope| Check { key: key(scope), rule: &self.rule, cost: self.cost }).collect()
    }
}

fn simultaneous_requests() -> Result<Vec<SimultaneousRequests>, ToolError> {
    let gcra = Rule::Gcra(TokenBucket::per_second(10, 20).map_err(ToolError::design)?);
    let log = SlidingWindowLog::new(ENTRIES, Duration::from_secs(3_600)).map_err(ToolError::design)?;
    let log = Rule::SlidingWindowLog(log);
    let token_bucket = Rule::TokenBucket(TokenBucket::per_second(10, 20).map_err(ToolError::design)?);
    let of = |name, rule: &Rule, rules, requests, cost| SimultaneousRequests {
        name,
        rule: rule.clone(),
        rules,
        requests,
        cost,
    };
    Ok(vec![
        of("64 requests, token-bucket", &token_bucket, 1, 64, 1),
        of("64 requests, gcra", &gcra, 1, 64, 1),
        of("64 requests, six gcra in one string", &gcra, 6, 64, 1),
        of("64 requests, sliding-window-log, denied with a search", &log, 1, 64, 800),
        of("8 requests, six sliding-window-log, denied with a search", &log, 6, 8, 800),
    ])
}

/// Returns the times of the longest call of each of `rounds` rounds in microseconds, in order.
async fn measure_simultaneous(
    server: &RedisServer,
    redis: &mut Connection,
    requests: &SimultaneousRequests,
    rounds: usize,
) -> Result<Vec<u64>, ToolError> {
    let settings = RedisSettings { timeout: Duration::from_secs(20), ..RedisSettings::new(server.url()) };
    let client = RedisClient::start(&settings).map_err(ToolError::design)?;
    if !client.wait_connected(Duration::from_secs(10)).await {
        return Err(ToolError::WithoutRedis);
    }
    let clock = Arc::new(ManualClock::default());
    clock.set((START + 60) * 1_000_000);
    let local = Arc::new(MemoryStore::new(NonZeroUsize::MIN));
    let store = RedisStore::new(client, local, OnStoreFailure::Deny).with_clock(clock).denial_cache(false);
    let scopes: Vec<String> = (0..requests.rules).map(|at| format!("r#rule{at}")).collect();
    let ids: Vec<String> = (0..requests.requests).map(|at| format!("client-{at}")).collect();
    let mut times = Vec::new();
    for _ in 0..rounds {
        redis::cmd("FLUSHALL").exec(redis)?;
        if let Rule::SlidingWindowLog(_) = requests.rule {
            for name in ids.iter().flat_map(|id| key_names(&requests.checks(&scopes, id), false, false)) {
                let mut add = redis::cmd("ZADD");
                add.arg(name);
                for (member, score) in members(&[(HOUR, ENTRIES)], ENTRIES, 1_000) {
                    add.arg(score).arg(member);
                }
                add.exec(redis)?;
            }
        }
        redis::cmd("SLOWLOG").arg("RESET").exec(redis)?;
        let mut decisions = JoinSet::new();
        for id in &ids {
            match store.decide(&requests.checks(&scopes, id), &[]) {
                Decision::Pending(verdict) => decisions.spawn(verdict),
                Decision::Ready(_) => return Err(ToolError::WithoutRedis),
            };
        }
        decisions.join_all().await;
        times.push(longest_call(redis)?);
    }
    times.sort_unstable();
    Ok(times)
}

fn main() -> ExitCode {
    exit(run())
}

fn run() -> Result<ExitCode, ToolError> {
    let calls = match std::env::args().nth(1) {
        Some(calls) => {
            let number = calls.parse::<NonZeroUsize>();
            number.map_err(|_| ToolError::Argument(format!("`{calls}` is not a number of calls, such as 21")))?.get()
        }
        None => 21,
    };
    let server = RedisServer::start(None, &["--slowlog-log-slower-than", "0", "--slowlog-max-len", "65536"])?;
    let mut redis = server.connection()?;
    let mut within = true;
    println!("| longest call | us, median | us, most |\n|---|---|---|");
    let mut report = |name: &str, times: &[u64]| {
        let median = times[times.len() / 2];
        within &= Duration::from_micros(median) <= BOUND;
        println!("| {name} | {median} | {} |", times[times.len() - 1]);
    };
    for case in cases() {
        report(case.name, &measure(&mut redis, &case, calls)?);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for requests in simultaneous_requests()? {
        report(requests.name, &runtime.block_on(measure_simultaneous(&server, &mut redis, &requests, calls))?);
    }
    Ok(if within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
