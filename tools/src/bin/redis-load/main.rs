//! Compares the cost of decisions in Redis: `redis-benchmark` with a script, and the limiter as a library.
//!
//! ```sh
//! cargo run --release -p tollgate-tools --bin redis-load -- [--rounds 5] [--secs 1] [--only WORD,…]
//! ```
//!
//! Starts a redis-server on core 0; the callers run on core 1. The designs take turns in rotating order; the keys stay
//! between turns. Figures are medians of the turns, ratios are relative to `redis-benchmark` in the same round. `--only`
//! selects the designs with one of the words in their names; the base is always included.

#![allow(clippy::print_stdout)]

mod callers;
mod designs;
mod load;
mod outage;
mod server;

use std::process::{Command, ExitCode};
use std::time::Duration;

use self::designs::{Design, Load, designs};
use self::load::Turn;
use self::server::Server;
use tollgate_tools::error::{ToolError, exit};

const REDIS_CORE: &str = "0";
const LOAD_CORE: &str = "1";

struct Arguments {
    rounds: usize,
    turn: Duration,
    only: Vec<String>,
}

fn main() -> ExitCode {
    exit(run())
}

fn run() -> Result<ExitCode, ToolError> {
    let arguments = arguments(std::env::args().skip(1))?;
    pin_to(LOAD_CORE);
    let server = Server::start(REDIS_CORE)?;
    let mut designs = designs(&server)?;
    let is_wanted = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|word| name.contains(word));
    designs.retain(|design| matches!(design.load, Load::Benchmark) || is_wanted(&design.name));
    // The first round warms up.
    for round in 0..=arguments.rounds {
        for turn in 0..designs.len() {
            let at = (turn + round) % designs.len();
            let turn = designs[at].turn(&server, arguments.turn)?;
            if round > 0 {
                designs[at].turns.push(turn);
            }
        }
    }
    print(&designs);
    drop(designs);
    if is_wanted("outage") {
        outage::measure(server)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<Arguments, ToolError> {
    let mut arguments = Arguments { rounds: 5, turn: Duration::from_secs(1), only: Vec::new() };
    while let Some(name) = words.next() {
        let value = words.next().ok_or_else(|| ToolError::Argument(format!("`{name}` needs a value")))?;
        let bad = |expected: &str| ToolError::Argument(format!("`{name}` must be {expected}, got `{value}`"));
        match name.as_str() {
            "--rounds" => arguments.rounds = value.parse().map_err(|_| bad("a number of rounds, such as 5"))?,
            "--secs" => {
                let turn = value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                arguments.turn = turn.ok_or_else(|| bad("a number of seconds, such as 0.5"))?;
            }
            "--only" => arguments.only = value.split(',').map(str::to_owned).collect(),
            _ => return Err(ToolError::Argument(format!("unknown option `{name}`; use --rounds, --secs or --only"))),
        }
    }
    Ok(arguments)
}

/// Pins this process and its later children to one core, if `taskset` is installed.
fn pin_to(core: &str) {
    let _ = Command::new("taskset").args(["-cp", core, &std::process::id().to_string()]).output();
}

fn print(designs: &[Design]) {
    let Some(base) = designs.iter().find(|design| matches!(design.load, Load::Benchmark)) else { return };
    let base = &base.turns;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(words: &[&str]) -> String {
        match arguments(words.iter().map(|word| (*word).to_owned())) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn invalid_arguments_are_refused_with_the_expected_form() {
        for (words, expected) in [
            (&["--rounds", "many"][..], "`--rounds` must be a number of rounds, such as 5, got `many`"),
            (&["--secs", "-1"], "`--secs` must be a number of seconds, such as 0.5, got `-1`"),
            (&["--secs", "1e300"], "`--secs` must be a number of seconds, such as 0.5, got `1e300`"),
            (&["--only"], "`--only` needs a value"),
            (&["--colour", "red"], "unknown option `--colour`; use --rounds, --secs or --only"),
            (&["--rounds", "2", "--secs", "0.5", "--only", "gcra,hot"], ""),
        ] {
            assert_eq!(refused(words), expected);
        }
    }
}
