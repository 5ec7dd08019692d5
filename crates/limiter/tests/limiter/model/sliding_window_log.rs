//! Model of the sliding window log: the times of all tokens.

use std::time::Duration;

use tollgate_limiter::rule::{Rule, SlidingWindowLog};

use super::definition::Model;
use super::rng::Rng;

/// Tokens with their times.
#[derive(Clone, Default)]
struct Withdrawal {
    log: Vec<(u64, u64)>,
    /// Time of the last write and the window then.
    written: (u64, u64),
}

pub(crate) fn rule(rng: &mut Rng) -> Rule {
    let limit = rng.pick(&[0, 1, 2, 3, 5, 10, 50]);
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
}

impl Model for Withdrawal {
    /// After a clock change, tokens with a time in the future count as consumed now.
    fn seen(&mut self, rule: &Rule, now: u64) {
        if self.log.iter().any(|(at, _)| *at > now) {
            self.log.iter_mut().for_each(|(at, _)| *at = now.min(*at));
            self.write(numbers(rule).1, now);
        }
    }

    fn left(&self, rule: &Rule, now: u64) -> u64 {
        let (limit, window) = numbers(rule);
        limit.saturating_sub(self.used(window, now))
    }

    fn take(&mut self, rule: &Rule, now: u64, cost: u64) {
        if cost > 0 {
            self.write(numbers(rule).1, now);
            self.log.push((now, cost));
        }
    }

    /// Returns tokens consumed in exactly that microsecond.
    fn settle(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        if more > 0 {
            return self.take(rule, now, more.unsigned_abs().min(self.left(rule, now)));
        }
        let mut amount = if now < taken_at + numbers(rule).1 { more.unsigned_abs() } else { 0 };
        for (_, cost) in self.log.iter_mut().filter(|(at, _)| *at == taken_at) {
            let gives = amount.min(*cost);
            (amount, *cost) = (amount - gives, *cost - gives);
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
