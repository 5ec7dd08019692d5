//! Model of the fixed window: the tokens consumed in the open window of each length.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_limiter::rule::{Align, FixedWindow, Rule};

use super::definition::Model;
use super::rng::Rng;

/// Latest window of each length. Each length counts all tokens.
#[derive(Clone, Default)]
struct Lengths(BTreeMap<u64, Opened>);

/// Window: its end and the consumed tokens.
#[derive(Clone, Copy, Default)]
struct Opened {
    until: u64,
    taken: u64,
    /// Last write of a rule with this length, if there are several lengths.
    used: Option<u64>,
}

/// Most lengths that count side by side.
const MAX_LENGTHS: usize = 4;

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
    Box::new(Lengths::default())
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

impl Lengths {
    fn is_open(&self, now: u64) -> bool {
        self.0.values().any(|window| now < window.until)
    }

    /// Returns the windows of all used lengths at `now`, with an open one of `rule`. A new length begins with the tokens of
    /// the open window that has most. If none is open, there is only the window of `rule`.
    fn at(&self, rule: &Rule, now: u64) -> Self {
        let (_, own, _) = numbers(rule);
        let fresh = Opened { until: over_at(rule, now), taken: 0, used: Some(now) };
        if !self.is_open(now) {
            return Self([(own, fresh)].into());
        }
        let open = self.0.values().filter(|window| now < window.until);
        let most = open.map(|window| window.taken).max().unwrap_or(0);
        let mut all = BTreeMap::new();
        for (&length, window) in &self.0 {
            let until = window.until.min(if length == own { fresh.until } else { now + length });
            let used = window.used.unwrap_or(now).min(now);
            if length == own || now - used < 2 * own.max(length) {
                all.insert(length, Opened { until, used: Some(used), ..*window });
            }
        }
        let mine = match all.get(&own) {
            Some(window) if now < window.until => *window,
            Some(_) => fresh,
            None => Opened { taken: most, ..fresh },
        };
        all.insert(own, mine);
        Self(all)
    }

    /// Replaces the state by `new`. At most [`MAX_LENGTHS`] lengths stay: that of the rule, and those used last.
    fn write(&mut self, rule: &Rule, now: u64, mut new: Self) {
        let (_, own, _) = numbers(rule);
        while new.0.len() > MAX_LENGTHS {
            let others = new.0.iter().filter(|(length, _)| **length != own);
            let first = others.map(|(length, window)| (window.used, *length)).min();
            new.0.remove(&first.unwrap().1);
        }
        let several = new.0.len() > 1;
        if let Some(mine) = new.0.get_mut(&own) {
            mine.used = several.then_some(now);
        }
        *self = new;
    }

    fn own(&self, rule: &Rule, now: u64) -> Opened {
        self.at(rule, now).0[&numbers(rule).1]
    }
}

/// Counts `cost` tokens. A window that is over opens again.
fn count(windows: &mut BTreeMap<u64, Opened>, now: u64, cost: u64) {
    for (length, window) in windows {
        if now >= window.until {
            *window = Opened { until: now + length, taken: 0, ..*window };
        }
        window.taken += cost;
    }
}

impl Model for Lengths {
    /// No window ends later than one that opens now, after a changed alignment or a clock that was set back.
    fn seen(&mut self, rule: &Rule, now: u64) {
        let moved = self.at(rule, now);
        let is_cut = self.0.iter().any(|(length, window)| match numbers(rule).1 {
            own if own == *length => window.until > over_at(rule, now),
            _ => window.until > now + length,
        });
        let is_new = !self.0.contains_key(&numbers(rule).1) && moved.own(rule, now).taken > 0;
        if is_cut || is_new {
            self.write(rule, now, moved);
        }
    }

    fn left(&self, rule: &Rule, now: u64) -> u64 {
        numbers(rule).0.saturating_sub(self.own(rule, now).taken)
    }

    fn take(&mut self, rule: &Rule, now: u64, cost: u64) {
        if cost > 0 {
            let mut moved = self.at(rule, now);
            count(&mut moved.0, now, cost);
            self.write(rule, now, moved);
        }
    }

    /// The rule may be an earlier one: its correction adds no length and ends no window earlier.
    fn settle(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        let amount = more.unsigned_abs();
        if more > 0 && !self.is_open(now) {
            self.take(rule, now, amount.min(numbers(rule).0));
        } else if more > 0 {
            let takes = amount.min(self.left(rule, now));
            if let Some(window) = self.0.get_mut(&numbers(rule).1).filter(|window| takes > 0 && now >= window.until) {
                *window = Opened { until: over_at(rule, now), taken: 0, ..*window };
            }
            if takes > 0 {
                count(&mut self.0, now, takes);
            }
        } else {
            for (length, window) in &mut self.0 {
                if now < window.until && taken_at + length >= window.until {
                    window.taken = window.taken.saturating_sub(amount);
                }
            }
        }
    }

    /// A correction leaves the ends of the windows.
    fn corrected(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        self.settle(rule, now, more, taken_at);
    }

    fn spent_until(&self, rule: &Rule) -> u64 {
        self.0.get(&numbers(rule).1).filter(|window| window.taken > 0).map_or(0, |window| window.until)
    }

    fn rests_at(&self, _: &Rule) -> u64 {
        self.0.values().map(|window| window.until).max().unwrap_or(0)
    }

    fn boxed(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
