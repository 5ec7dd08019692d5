//! Rounds in turn, so that changes of the machine affect all competitors equally.

use std::time::Duration;

use crate::SIZES;
use crate::contest::{ALL, Decide, Make, timed};

/// Target duration of a turn.
const TURN: Duration = Duration::from_millis(100);

/// Row of the table: a competitor, with a shared store or one per thread.
struct Row {
    name: String,
    deciders: Vec<Decide>,
    checks: u64,
}

/// Prints a table of ns per check and thread: medians of the processor time and of the wall time. `only` selects competitors
/// by a part of their names.
pub(crate) fn run(rounds: usize, only: &[String]) {
    let selected = |(name, _): &&(&str, Make)| only.is_empty() || only.iter().any(|part| name.contains(&**part));
    for (size, keys) in SIZES {
        let mut cases: Vec<Row> =
            ALL.iter().filter(selected).map(|(name, make)| Row::new(name, vec![make(keys)])).collect();
        // Two threads without shared state: the control for contention of the machine itself.
        cases.push(Row::new("token-bucket, a store each", vec![ALL[1].1(keys), ALL[1].1(keys)]));
        let mut table: Vec<[Vec<[f64; 2]>; 2]> = cases.iter().map(|_| [Vec::new(), Vec::new()]).collect();
        for _ in 0..rounds {
            for (case, row) in cases.iter_mut().zip(&mut table) {
                for (threads, cell) in (1..).zip(row) {
                    cell.push(case.turn(threads, keys));
                }
            }
        }
        println!("\n| {size} | one thread | two threads |\n|---|---|---|");
        for (case, [one, two]) in cases.iter().zip(&mut table) {
            println!("| {} | {} | {} |", case.name, cell(one), cell(two));
        }
    }
}

fn cell(turns: &[[f64; 2]]) -> String {
    let median = |of: usize| {
        let mut ns: Vec<f64> = turns.iter().map(|turn| turn[of]).collect();
        ns.sort_by(f64::total_cmp);
        ns[ns.len() / 2]
    };
    format!("{:.0} ({:.0})", median(1), median(0))
}

impl Row {
    fn new(name: &str, deciders: Vec<Decide>) -> Self {
        Self { name: name.to_owned(), deciders, checks: 10_000 }
    }

    /// Nanoseconds per check and thread.
    fn turn(&mut self, threads: usize, keys: u64) -> [f64; 2] {
        let deciders: Vec<&Decide> = self.deciders.iter().cycle().take(threads).collect();
        let ns = timed(&deciders, keys, self.checks).map(|time| time.as_nanos() as f64 / self.checks as f64);
        self.checks = (TURN.as_nanos() as f64 / ns[0]) as u64;
        ns
    }
}
