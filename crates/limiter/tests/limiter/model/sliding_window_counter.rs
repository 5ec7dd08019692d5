//! Model of the sliding window counter: the tokens of the current and the previous window.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_limiter::rule::{Rule, SlidingWindowCounter};

use super::definition::Model;
use super::rng::Rng;

/// Tokens by length of a window. Each length counts all tokens.
#[derive(Clone, Default)]
struct Lengths(BTreeMap<u64, Windows>);

/// Window that began at `start`: its tokens and those of the previous one.
#[derive(Clone, Copy, Default)]
struct Windows {
    start: u64,
    before: u64,
    current: u64,
    /// Last write of a rule with this length, if there are several lengths.
    used: Option<u64>,
}

/// Most lengths that count side by side.
const MAX_LENGTHS: usize = 4;

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
    Box::new(Lengths::default())
}

fn numbers(rule: &Rule) -> (u64, u64) {
    let Rule::SlidingWindowCounter(rule) = rule else { panic!("{rule:?}") };
    (rule.limit(), rule.window().as_micros() as u64)
}

impl Windows {
    /// Returns the state moved on to `now`. Tokens in the future count as consumed now.
    fn at(self, length: u64, now: u64) -> Self {
        let Self { start, before, current, .. } = self;
        let used = Some(self.used.unwrap_or(now).min(now));
        if now < start && self.counts() {
            Self { start: now - now % length, before: 0, current: before + current, used }
        } else if now < start + length {
            Self { used, ..self }
        } else if now < start + 2 * length {
            Self { start: start + length, before: current, current: 0, used }
        } else {
            Self { start: now - now % length, before: 0, current: 0, used }
        }
    }

    fn counts(self) -> bool {
        self.before > 0 || self.current > 0
    }

    fn ends(self, length: u64) -> u64 {
        self.start + if self.current > 0 { 2 * length } else { length }
    }
}

impl Lengths {
    /// Returns the windows of all used lengths at `now`, with those of `rule`. For a new length, the tokens of the longest
    /// window count at the latest possible time. Without any tokens, there is only the window of `rule`.
    fn at(&self, rule: &Rule, now: u64) -> Self {
        let (_, own) = numbers(rule);
        let start = now - now % own;
        let fresh = Windows { start, before: 0, current: 0, used: Some(now) };
        let mut all: BTreeMap<u64, Windows> =
            self.0.iter().map(|(length, windows)| (*length, windows.at(*length, now))).collect();
        let counting = all.iter().rfind(|(_, windows)| windows.counts());
        let Some(longest) = counting.map(|(_, windows)| *windows) else { return Self([(own, fresh)].into()) };
        let mine = match all.get(&own) {
            Some(known) if known.counts() => *known,
            Some(_) => fresh,
            None if longest.start > start => Windows { current: longest.before + longest.current, ..fresh },
            None if longest.start > start.saturating_sub(own) => {
                Windows { before: longest.before, current: longest.current, ..fresh }
            }
            None => Windows { current: longest.current, ..fresh },
        };
        all.insert(own, mine);
        all.retain(|length, windows| *length == own || now - windows.used.unwrap() < 2 * own.max(*length));
        Self(all)
    }

    fn own(&self, rule: &Rule) -> Windows {
        self.0.get(&numbers(rule).1).copied().unwrap_or_default()
    }

    /// Replaces the state by `new`. At most [`MAX_LENGTHS`] lengths stay: that of the rule, and those used last.
    fn write(&mut self, rule: &Rule, now: u64, mut new: Self) {
        let (_, own) = numbers(rule);
        while new.0.len() > MAX_LENGTHS {
            let others = new.0.iter().filter(|(length, _)| **length != own);
            let first = others.map(|(length, windows)| (windows.used, *length)).min();
            new.0.remove(&first.unwrap().1);
        }
        let several = new.0.len() > 1;
        if let Some(mine) = new.0.get_mut(&own) {
            mine.used = several.then_some(now);
        }
        *self = new;
    }
}

impl Model for Lengths {
    fn seen(&mut self, rule: &Rule, now: u64) {
        let (_, own) = numbers(rule);
        let was_set_back = self.0.values().any(|windows| now < windows.start && windows.counts());
        let moved = self.at(rule, now);
        if was_set_back || !self.0.contains_key(&own) && moved.own(rule).counts() {
            self.write(rule, now, moved);
        }
    }

    fn left(&self, rule: &Rule, now: u64) -> u64 {
        let (limit, length) = numbers(rule);
        let Windows { start, before, current, .. } = self.at(rule, now).own(rule);
        // before * (length - elapsed) / length + current + left <= limit, without rounding.
        let overlaps = if before > 0 { u128::from(before) * u128::from(length - (now - start)) } else { 0 };
        let free = u128::from(limit.saturating_sub(current)) * u128::from(length);
        (free.saturating_sub(overlaps) / u128::from(length)) as u64
    }

    fn take(&mut self, rule: &Rule, now: u64, cost: u64) {
        if cost > 0 {
            let mut moved = self.at(rule, now);
            moved.0.values_mut().for_each(|windows| windows.current += cost);
            self.write(rule, now, moved);
        }
    }

    /// Returns tokens to the windows in which they were consumed.
    fn settle(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        let amount = more.unsigned_abs();
        if more > 0 {
            return self.take(rule, now, amount.min(self.left(rule, now)));
        }
        let (mut moved, mut settled) = (self.at(rule, now), false);
        for (length, windows) in &mut moved.0 {
            let start = windows.start;
            let counter = match taken_at {
                at if (start..start + length).contains(&at) => &mut windows.current,
                at if (start.saturating_sub(*length)..start).contains(&at) => &mut windows.before,
                _ => continue,
            };
            settled |= *counter > 0 && amount > 0;
            *counter = counter.saturating_sub(amount);
        }
        if settled {
            self.write(rule, now, moved);
        }
    }

    fn spent_until(&self, rule: &Rule) -> u64 {
        let own = self.own(rule);
        if own.counts() { own.ends(numbers(rule).1) } else { 0 }
    }

    fn rests_at(&self, _: &Rule) -> u64 {
        self.0.iter().map(|(length, windows)| windows.ends(*length)).max().unwrap_or(0)
    }

    fn boxed(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
