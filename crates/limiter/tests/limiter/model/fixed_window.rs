//! Model of the fixed window: the tokens consumed in the open window.

use std::time::Duration;

use tollgate_limiter::rule::{Align, FixedWindow, Rule};

use super::definition::Model;
use super::rng::Rng;

/// Open window: its end and the consumed tokens.
#[derive(Clone, Default)]
struct Opened {
    until: u64,
    taken: Vec<u64>,
}

pub(crate) fn rule(rng: &mut Rng) -> Rule {
    let limit = rng.pick(&[0, 1, 2, 3, 5, 10, 20, 1_000_000]);
    let window = rng.pick(&[1, 999, 1_000, 100_000, 1_000_000, 7_000_000, 60_000_000, 3_600_000_000, 86_400_000_000]);
    let align = rng.pick(&[Align::First, Align::Clock]);
    Rule::FixedWindow(FixedWindow::new(limit, Duration::from_micros(window), align).unwrap())
}

/// Returns the limit times the windows that a stretch of time can touch.
pub(crate) fn bound(rule: &Rule, time: u64) -> u128 {
    let (limit, window, _) = numbers(rule);
    u128::from(limit) * u128::from(time.div_ceil(window) + 1)
}

pub(crate) fn key() -> Box<dyn Model> {
    Box::new(Opened::default())
}

fn numbers(rule: &Rule) -> (u64, u64, Align) {
    let Rule::FixedWindow(rule) = rule else { panic!("{rule:?}") };
    (rule.limit(), rule.window().as_micros() as u64, rule.align())
}

/// Returns the end of a window that opens now.
fn over_at(rule: &Rule, now: u64) -> u64 {
    match numbers(rule) {
        (_, window, Align::Clock) => (now / window + 1) * window,
        (_, window, _) => now + window,
    }
}

impl Opened {
    fn used(&self, now: u64) -> u64 {
        if now < self.until { self.taken.iter().sum() } else { 0 }
    }

    fn set(&mut self, rule: &Rule, now: u64, used: u64) {
        if now >= self.until {
            self.until = over_at(rule, now);
        }
        self.taken = vec![used];
    }
}

impl Model for Opened {
    /// A window keeps its end unless one that opens now would end earlier, after a changed rule or a clock that was set
    /// back.
    fn seen(&mut self, rule: &Rule, now: u64) {
        if now < self.until {
            self.until = self.until.min(over_at(rule, now));
        }
    }

    fn left(&self, rule: &Rule, now: u64) -> u64 {
        numbers(rule).0.saturating_sub(self.used(now))
    }

    fn take(&mut self, rule: &Rule, now: u64, cost: u64) {
        if cost > 0 {
            if now >= self.until {
                *self = Self { until: over_at(rule, now), taken: Vec::new() };
            }
            self.taken.push(cost);
        }
    }

    /// The start of a window is its end minus the length under this rule, which may be an earlier one.
    fn settle(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        let ((limit, window, _), used, amount) = (numbers(rule), self.used(now), more.unsigned_abs());
        if more > 0 {
            let takes = amount.min(limit.saturating_sub(used));
            self.take(rule, now, takes);
        } else if used > 0 && taken_at + window >= self.until {
            self.set(rule, now, used.saturating_sub(amount));
        }
    }

    /// A correction leaves the end of the window.
    fn corrected(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        self.settle(rule, now, more, taken_at);
    }

    fn spent_until(&self, _: &Rule) -> u64 {
        if self.taken.iter().sum::<u64>() > 0 { self.until } else { 0 }
    }

    fn rests_at(&self, _: &Rule) -> u64 {
        self.until
    }

    fn boxed(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
