//! Model of the sliding window log: the times of all tokens.

use std::time::Duration;

use tollgate_limiter::rule::{Rule, SlidingWindowLog};

use super::definition::Model;
use super::rng::Rng;

/// Tokens with their times, one entry for each grain.
#[derive(Clone, Default)]
struct Withdrawal {
    log: Vec<(u64, u64)>,
    /// Time of the last write and the window then.
    written: (u64, u64),
    /// True if the present step found tokens with a time in the future.
    was_ahead: bool,
}

pub(crate) fn rule(rng: &mut Rng) -> Rule {
    let limit = rng.pick(&[0, 1, 2, 3, 5, 10, 50, 10_000]);
    let window = rng.pick(&[1, 1_000, 500_000, 1_000_000, 2_000_000, 60_000_000, 86_400_000_000]);
    Rule::SlidingWindowLog(SlidingWindowLog::new(limit, Duration::from_micros(window)).unwrap())
}

/// Returns the limit times the windows that cover a stretch of time.
pub(crate) fn bound(rule: &Rule, time: u64) -> u128 {
    let (limit, window) = numbers(rule);
    u128::from(limit) * u128::from(time / window + 1)
}

pub(crate) fn key() -> Box<dyn Model> {
    Box::new(Withdrawal::default())
}

/// Returns the number of the grain at `at`: requests of one share an entry.
fn grain(rule: &Rule, at: u64) -> u64 {
    let Rule::SlidingWindowLog(rule) = rule else { panic!("{rule:?}") };
    let window = rule.window().as_micros() as u64;
    at / if rule.limit() > 1_000 { window.div_ceil(1_000) } else { 1 }
}

fn numbers(rule: &Rule) -> (u64, u64) {
    let Rule::SlidingWindowLog(rule) = rule else { panic!("{rule:?}") };
    (rule.limit(), rule.window().as_micros() as u64)
}

impl Withdrawal {
    fn used(&self, window: u64, now: u64) -> u64 {
        self.log.iter().filter(|(at, _)| now < at + window).map(|(_, cost)| cost).sum()
    }

    /// Only writes drop entries, so a longer window finds entries that no write has dropped.
    fn write(&mut self, window: u64, now: u64) {
        self.log.retain(|(at, _)| now < at + window);
        self.written = (now, window);
    }

    /// Adds an entry, or adds to that of the same grain, which then counts from now.
    fn push(&mut self, rule: &Rule, now: u64, cost: u64) {
        match self.log.last_mut() {
            Some(last) if grain(rule, last.0) == grain(rule, now) => *last = (now, last.1 + cost),
            _ => self.log.push((now, cost)),
        }
    }
}

impl Model for Withdrawal {
    /// After a clock change, tokens with a time in the future count as consumed now.
    fn seen(&mut self, rule: &Rule, now: u64) {
        self.was_ahead = self.log.iter().any(|(at, _)| *at > now);
        if self.was_ahead {
            let ahead: u64 = self.log.extract_if(.., |(at, _)| *at > now).map(|(_, cost)| cost).sum();
            self.write(numbers(rule).1, now);
            self.push(rule, now, ahead);
        }
    }

    fn left(&self, rule: &Rule, now: u64) -> u64 {
        let (limit, window) = numbers(rule);
        limit.saturating_sub(self.used(window, now))
    }

    fn take(&mut self, rule: &Rule, now: u64, cost: u64) {
        if cost > 0 {
            self.write(numbers(rule).1, now);
            self.push(rule, now, cost);
        }
    }

    /// Returns tokens of the entry that holds that time. Rules with other grains may have written further entries of its
    /// grain. A step that finds a clock set back returns none: their times have changed.
    fn settle(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        if more > 0 {
            return self.take(rule, now, more.unsigned_abs().min(self.left(rule, now)));
        }
        let counts = now < taken_at + numbers(rule).1 && !self.was_ahead;
        let amount = if counts { more.unsigned_abs() } else { 0 };
        let of_grain = |at: u64| at >= taken_at && grain(rule, at) == grain(rule, taken_at);
        if let Some((_, cost)) = self.log.iter_mut().find(|(at, _)| of_grain(*at)) {
            *cost -= amount.min(*cost);
        }
        self.log.retain(|(_, cost)| *cost > 0);
    }

    fn spent_until(&self, rule: &Rule) -> u64 {
        self.log.iter().map(|(at, _)| at + numbers(rule).1).max().unwrap_or(0)
    }

    fn rests_at(&self, _: &Rule) -> u64 {
        let (now, window) = self.written;
        if self.log.is_empty() { 0 } else { now + window }
    }

    fn boxed(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
