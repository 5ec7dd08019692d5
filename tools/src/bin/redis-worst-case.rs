//! Measures the longest call of each script in Redis, as the server's slow log reports it.
//!
//! `cargo run --release -p tollgate-tools --bin redis-worst-case [-- CALLS]`
//!
//! Starts a redis-server and prepares the state under which a script has most to do, for the rules that it allows at their
//! extremes. Exits with a failure if the median of a row exceeds [`BOUND`].

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use redis::{Connection, Value};

/// Longest time for which one call may occupy Redis.
const BOUND: Duration = Duration::from_millis(5);

/// Start of the tests' clock, in seconds since 1970.
const START: u64 = 1_763_700_000;

/// Largest number that scripts count exactly.
const MOST: &str = "9007199254740991";

/// Entries of a log with the largest limit that keeps every microsecond.
const ENTRIES: u64 = 1_000;

struct Server(Child, Connection);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start() -> Server {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let process = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--slowlog-log-slower-than", "0", "--slowlog-max-len", "16"])
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed");
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let connection = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap().get_connection().unwrap();
    Server(process, connection)
}

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
    let two = script.contains("expected 2 keys");
    let keys = if two { words("{k}a {k}b") } else { words("{k}a") };
    Case { name, script, keys, args: words(args), state: Vec::new() }
}

const LOG: &str = include_str!("../../../lua/sliding_window_log.lua");

/// Log of `ENTRIES` entries of one token, a millisecond apart.
fn log(name: &'static str, args: &str) -> Case {
    let entry = |n: u64| (format!("{n}:1"), START * 1_000_000 + n * 1_000);
    Case { state: (0..ENTRIES).map(entry).collect(), ..case(name, LOG, args) }
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
    let fields = (0..180).map(|n| format!("{n}.requests")).collect::<Vec<_>>();
    let increments: Vec<String> = fields.iter().map(|field| format!("{field} 999999999999999999")).collect();
    vec![
        case("token-bucket", bucket, &format!("4294967295 9007199254 {START} 9007199254")),
        case("gcra", gcra, &format!("4294967295 4294967295 {START} 4294967295")),
        case("fixed-window", window, &format!("{MOST} {MOST} {START} {MOST} first")),
        case("sliding-window-counter", counter, &format!("{MOST} 1000000 {START} {MOST} 1000000")),
        case("leaky-bucket", leaky, &format!("1 315360000000000 {START} 1 {MOST} 315360000000000")),
        case("quota", quota, &format!("{MOST} take {START} {MOST} - - - -")),
        case(
            "sliding-window-log, one request of a billion tokens",
            LOG,
            &format!("1000000000000 3600000000 {START} 1000000000"),
        ),
        log("sliding-window-log, admitted after all entries expired", &format!("1000 1000 {} 1", START + 60)),
        log("sliding-window-log, denied with a search", &format!("1000 3600000000 {} 800", START + 60)),
        log("sliding-window-log, clock set back before all entries", &format!("1000 3600000000 {} 1", START - 60)),
        Case {
            args: words(&format!("1000 3600000000 {} -1 {}", START + 60, START * 1_000_000 + ENTRIES / 2 * 1_000)),
            ..log("sliding-window-log, a token of the middle entry returned", "")
        },
        Case {
            state: owners(100_000, START * 1_000_000 - 1),
            ..case("ConcurrencyLimiter, 100,000 leases expired", leases, &format!("acquire me {MOST} 30000000 {START}"))
        },
        Case {
            state: owners(100_000, START * 1_000_000 + 1),
            ..case("ConcurrencyLimiter, 100,000 leases held", leases, &format!("acquire me {MOST} 30000000 {START}"))
        },
        case("RequestCounter, 180 fields", usage, &format!("7 3600 3600 {}", increments.join(" "))),
        Case {
            state: owners(1_000, START * 1_000_000 - 10_000_000),
            ..case("heartbeat, 1,000 silent gateways", gateways, &format!("beat me 5000000 {START}"))
        },
    ]
}

/// Returns the times of `calls` calls in microseconds, in order.
fn measure(redis: &mut Connection, case: &Case, calls: usize) -> Vec<u64> {
    let loaded: String = redis::cmd("SCRIPT").arg("LOAD").arg(case.script).query(redis).unwrap();
    let mut times: Vec<u64> = (0..calls)
        .map(|_| {
            redis::cmd("FLUSHALL").exec(redis).unwrap();
            for part in case.state.chunks(1_000) {
                let mut add = redis::cmd("ZADD");
                add.arg(&case.keys[0]);
                for (member, score) in part {
                    add.arg(score).arg(member);
                }
                add.exec(redis).unwrap();
            }
            redis::cmd("SLOWLOG").arg("RESET").exec(redis).unwrap();
            let mut call = redis::cmd("EVALSHA");
            let _: Value = call.arg(&loaded).arg(case.keys.len()).arg(&case.keys).arg(&case.args).query(redis).unwrap();
            let log: Vec<Vec<Value>> = redis::cmd("SLOWLOG").arg("GET").query(redis).unwrap();
            let evaluated = |entry: &&Vec<Value>| {
                let words: Vec<String> = redis::from_redis_value(entry[3].clone()).unwrap();
                words[0] == "EVALSHA"
            };
            redis::from_redis_value(log.iter().find(evaluated).expect("the call is logged")[2].clone()).unwrap()
        })
        .collect();
    times.sort_unstable();
    times
}

fn main() -> ExitCode {
    let calls = std::env::args().nth(1).and_then(|calls| calls.parse().ok()).unwrap_or(21).max(1);
    let mut server = start();
    let mut within = true;
    println!("| longest call | us, median | us, most |\n|---|---|---|");
    for case in cases() {
        let times = measure(&mut server.1, &case, calls);
        let median = times[times.len() / 2];
        within &= Duration::from_micros(median) <= BOUND;
        println!("| {} | {median} | {} |", case.name, times[times.len() - 1]);
    }
    if within { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
