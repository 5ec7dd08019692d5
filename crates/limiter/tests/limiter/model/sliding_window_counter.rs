//! Model of the sliding window counter: the tokens of the current and the previous window.

use std::time::Duration;

use tollgate_limiter::rule::{Rule, SlidingWindowCounter};

use super::definition::Model;
use super::rng::Rng;

/// Window that began at `start`: its tokens and those of the previous one.
#[derive(Clone, Default)]
struct Windows {
    start: u64,
    window: u64,
    before: u64,
    current: u64,
}

pub(crate) fn rule(rng: &mut Rng) -> Rule {
    let limit = rng.pick(&[0, 1, 2, 3, 5, 10, 20, 1_000]);
    let window = rng.pick(&[1, 1_000, 777_777, 1_000_000, 2_000_000, 60_000_000, 86_400_000_000]);
    Rule::SlidingWindowCounter(SlidingWindowCounter::new(limit, Duration::from_micros(window)).unwrap())
}

/// Returns the bound: less than twice the limit per window.
pub(crate) fn bound(rule: &Rule, time: u64) -> u128 {
    let (limit, window) = numbers(rule);
    u128::from(limit) * u128::from(2 * (time / window + 1))
}

pub(crate) fn key() -> Box<dyn Model> {
    Box::new(Windows::default())
}

fn numbers(rule: &Rule) -> (u64, u64) {
    let Rule::SlidingWindowCounter(rule) = rule else { panic!("{rule:?}") };
    (rule.limit(), rule.window().as_micros() as u64)
}

impl Windows {
    /// Returns the state moved on to `now`.
    fn at(&self, now: u64) -> Self {
        let Self { start, window, current, .. } = *self;
        if window == 0 || now < start + window {
            self.clone()
        } else if now < start + 2 * window {
            Self { start: start + window, window, before: current, current: 0 }
        } else {
            Self::default()
        }
    }
}

impl Model for Windows {
    /// Tokens of windows of another length, or in the future, count as consumed now; no window counts above the limit.
    fn seen(&mut self, rule: &Rule, now: u64) {
        let (limit, window) = numbers(rule);
        let mut moved = self.at(now);
        if moved.before == 0 && moved.current == 0 {
            return;
        }
        (moved.before, moved.current) = (moved.before.min(limit), moved.current.min(limit));
        if moved.window != window || moved.start > now {
            let current = (moved.before + moved.current).min(limit);
            *self = Self { start: now - now % window, window, before: 0, current };
        }
    }

    fn left(&self, rule: &Rule, now: u64) -> u64 {
        let (limit, window) = numbers(rule);
        let Self { start, before, current, .. } = self.at(now);
        let (before, current) = (before.min(limit), current.min(limit));
        // before * (window - elapsed) / window + current + left <= limit, without rounding.
        let overlaps = if before > 0 { u128::from(before) * u128::from(window - (now - start)) } else { 0 };
        let free = u128::from(limit - current) * u128::from(window);
        (free.saturating_sub(overlaps) / u128::from(window)) as u64
    }

    fn take(&mut self, rule: &Rule, now: u64, cost: u64) {
        if cost > 0 {
            let (limit, window) = numbers(rule);
            let moved = self.at(now);
            let (before, current) = (moved.before.min(limit), moved.current.min(limit) + cost);
            *self = Self { start: now - now % window, window, before, current };
        }
    }

    /// Returns tokens to the window in which they were consumed.
    fn settle(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        let (limit, amount) = (numbers(rule).0, more.unsigned_abs());
        if more > 0 {
            return self.take(rule, now, amount.min(self.left(rule, now)));
        }
        let mut moved = self.at(now);
        (moved.before, moved.current) = (moved.before.min(limit), moved.current.min(limit));
        let Self { start, window, .. } = moved;
        let counter = match taken_at {
            at if (start..start + window).contains(&at) => &mut moved.current,
            at if (start.saturating_sub(window)..start).contains(&at) => &mut moved.before,
            _ => return,
        };
        let settled = counter.saturating_sub(amount);
        if settled != *counter {
            *counter = settled;
            *self = moved;
        }
    }

    /// Under a limit of 0 nothing counts.
    fn spent_until(&self, rule: &Rule) -> u64 {
        match *self {
            _ if numbers(rule).0 == 0 => 0,
            Self { start, window, current: 1.., .. } => start + 2 * window,
            Self { start, window, before: 1.., .. } => start + window,
            _ => 0,
        }
    }

    fn rests_at(&self, _: &Rule) -> u64 {
        self.start + if self.current > 0 { 2 * self.window } else { self.window }
    }

    fn boxed(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
