//! Logs on which limits above and up to 1000 take turns, against an exact count: requests of a larger limit share entries.

use std::time::Duration;

use tollgate_limiter::rule::{Rule, SlidingWindowLog};
use tollgate_limiter::verdict::Outcome;

use crate::changes::{START, Stores};
use crate::model::Rng;
use crate::support::RedisServer;

const SECOND: u64 = 1_000_000;

/// Longest window of all rules, and the grain of its limits above 1000.
const WINDOW: u64 = 10 * SECOND;
const GRAIN: u64 = WINDOW / 1_000;

/// Random requests on one key.
struct Run {
    stores: Stores,
    rng: Rng,
    /// Times and costs of the admitted requests.
    admitted: Vec<(u64, u64)>,
    /// Rules and seed, for failure messages.
    name: String,
    /// True if a correction may have returned fewer tokens than it asked for.
    is_corrected: bool,
}

fn log(limit: u64, window_us: u64) -> Rule {
    Rule::SlidingWindowLog(SlidingWindowLog::new(limit, Duration::from_micros(window_us)).unwrap())
}

impl Run {
    fn used(&self, time: u64, now: u64) -> u64 {
        self.admitted.iter().filter(|(at, _)| at + time > now).map(|(_, cost)| cost).sum()
    }

    /// Sends a request, and compares the verdict with the exact count. Returns the retry delay of a denial in µs.
    async fn ask(&mut self, (limit, window): (u64, u64), cost: u64) -> Option<u64> {
        let now = self.stores.now();
        let verdict = self.stores.ask(&log(limit, window), cost).await;
        let least = if self.is_corrected { 0 } else { limit.saturating_sub(self.used(window + GRAIN - 1, now)) };
        let most = limit.saturating_sub(self.used(window, now));
        let taken = if verdict.is_allowed() { cost } else { 0 };
        let left = verdict.remaining.unwrap() + taken;
        assert!(
            (least..=most).contains(&left),
            "{}: {left} left, not {least} to {most}, of {limit} in {window} us",
            self.name
        );
        match verdict.outcome {
            Outcome::Allowed => {
                self.admitted.push((now, cost));
                None
            }
            Outcome::Denied { retry_after } => Some(retry_after.as_micros() as u64),
            other => panic!("{other:?}"),
        }
    }

    async fn step(&mut self, rules: &[(u64, u64)], corrects: bool) {
        let gap = self.rng.pick(&[0, 1, GRAIN / 7, GRAIN / 2, GRAIN, WINDOW / 50, WINDOW / 7]);
        self.stores.clock.set(self.stores.now() + gap);
        if corrects && self.rng.chance(1, 4) && !self.admitted.is_empty() {
            let at = self.rng.below(self.admitted.len() as u64) as usize;
            let (taken_at, cost) = self.admitted.remove(at);
            let (limit, window) = self.rng.pick(rules);
            self.stores.settle_taken_at(&log(limit, window), cost, -(cost as i64), taken_at).await;
            self.is_corrected = true;
            return;
        }
        let (rule, part) = (self.rng.pick(rules), self.rng.pick(&[1, 3, u64::MAX]));
        let cost = self.rng.pick(&[1, 1, 2, rule.0 / part]).max(1);
        let Some(wait) = self.ask(rule, cost).await else { return };
        if self.rng.chance(1, 2) {
            let until = self.stores.now() + wait;
            self.stores.clock.set(until - 1);
            assert_eq!(self.ask(rule, cost).await, Some(1), "a microsecond early, {cost} of {rule:?}");
            self.stores.clock.set(until);
            assert_eq!(self.ask(rule, cost).await, None, "after {wait} us as promised, {cost} of {rule:?}");
        }
    }
}

#[tokio::test]
async fn limits_across_a_thousand_return_nothing_and_count_at_most_a_grain_longer() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for rules in [
        &[(3, WINDOW), (5_000, WINDOW)][..],
        &[(40, WINDOW), (2_000, WINDOW), (500_000, WINDOW)],
        &[(1_000, WINDOW), (1_001, WINDOW)],
        &[(5_000, WINDOW), (10, SECOND)],
        &[(5_000, WINDOW), (3_000, SECOND)],
    ] {
        for seed in 0..40 {
            let name = format!("{rules:?}, seed {seed}");
            let stores = Stores::new(&client, &name);
            let mut run = Run { stores, rng: Rng::new(seed), admitted: Vec::new(), name, is_corrected: false };
            run.stores.clock.set(START + run.rng.below(GRAIN));
            for rule in rules {
                run.ask(*rule, 1).await;
            }
            for _ in 0..40 {
                run.step(rules, seed % 2 > 0).await;
            }
        }
    }
}
