//! Compares the cost of decisions in Redis: `redis-benchmark` with a script, and the limiter as a library.
//!
//! ```sh
//! cargo run --release -p tollgate-tools --bin redis-load -- [--rounds 5] [--secs 1] [--only WORD,…]
//! ```
//!
//! Starts a redis-server on core 0; the callers run on core 1. The designs take turns in rotating order; the keys stay
//! between turns. Figures are medians of the turns, ratios are relative to `redis-benchmark` in the same round. `--only`
//! selects the designs with one of the words in their names; the base is always included.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod callers;
mod designs;
mod load;
mod outage;
mod server;

use std::process::Command;
use std::time::Duration;

use self::designs::{Design, Load, designs};
use self::load::Turn;
use self::server::Server;

const REDIS_CORE: &str = "0";
const LOAD_CORE: &str = "1";

struct Arguments {
    rounds: usize,
    turn: Duration,
    only: Vec<String>,
}

fn main() {
    let arguments = arguments();
    pin_to(LOAD_CORE);
    let server = Server::start(REDIS_CORE);
    let mut designs = designs(&server);
    let is_wanted = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|word| name.contains(word));
    designs.retain(|design| matches!(design.load, Load::Benchmark) || is_wanted(&design.name));
    // The first round warms up.
    for round in 0..=arguments.rounds {
        for turn in 0..designs.len() {
            let at = (turn + round) % designs.len();
            let turn = designs[at].turn(&server, arguments.turn);
            if round > 0 {
                designs[at].turns.push(turn);
            }
        }
    }
    print(&designs);
    drop(designs);
    if is_wanted("outage") {
        outage::measure(server);
    }
}

fn arguments() -> Arguments {
    let mut arguments = Arguments { rounds: 5, turn: Duration::from_secs(1), only: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(name) = words.next() {
        let value = words.next().unwrap_or_else(|| panic!("{name} needs a value"));
        match name.as_str() {
            "--rounds" => arguments.rounds = value.parse().expect("a number of rounds"),
            "--secs" => arguments.turn = Duration::from_secs_f64(value.parse().expect("a number of seconds")),
            "--only" => arguments.only = value.split(',').map(str::to_owned).collect(),
            _ => panic!("unknown: {name}"),
        }
    }
    arguments
}

/// Pins this process and its later children to one core, if `taskset` is installed.
fn pin_to(core: &str) {
    let _ = Command::new("taskset").args(["-cp", core, &std::process::id().to_string()]).output();
}

fn print(designs: &[Design]) {
    let base = &designs.iter().find(|design| matches!(design.load, Load::Benchmark)).expect("the base").turns;
    println!(
        "| design | decisions/s: median | best | × base | µs of Redis | × base | µs of the caller | calls | bytes \
         | p50 µs | p99 µs |\n|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for Design { name, turns, .. } in designs {
        let of = |figure: fn(&Turn) -> f64| median(turns.iter().map(figure));
        let ratio =
            |figure: fn(&Turn) -> f64| median(turns.iter().zip(base).map(|(turn, base)| figure(turn) / figure(base)));
        println!(
            "| {name} | {:.0} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {:.3} | {:.0} | {:.0} | {:.0} |",
            of(|turn| turn.rate),
            turns.iter().map(|turn| turn.rate).fold(0.0, f64::max),
            ratio(|turn| turn.rate),
            of(|turn| turn.redis_us),
            ratio(|turn| turn.redis_us),
            of(|turn| turn.caller_us),
            of(|turn| turn.calls),
            of(|turn| turn.bytes),
            of(|turn| turn.p50_us),
            of(|turn| turn.p99_us),
        );
    }
}

fn median(of: impl Iterator<Item = f64>) -> f64 {
    let mut of: Vec<f64> = of.collect();
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}
