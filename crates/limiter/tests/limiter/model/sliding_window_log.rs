//! Model of the sliding window log: the times of all tokens.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_limiter::rule::{Rule, SlidingWindowLog};

use super::definition::Model;
use super::rng::Rng;

/// Tokens with their times, one entry for each grain.
#[derive(Clone, Default)]
struct Withdrawal {
    log: Vec<(u64, u64)>,
    /// Windows in use by length: the time of the last use in milliseconds, and the largest limit up to 1001.
    windows: BTreeMap<u64, (u64, u64)>,
    /// Time from which no window in use needs an entry.
    rests_at: u64,
    /// Time of the present step.
    now: u64,
    /// True if the present step found tokens with a time in the future.
    was_ahead: bool,
}

/// Most windows in use.
const MAX_WINDOWS: usize = 4;

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

fn grain_of(window: u64, limit: u64) -> u64 {
    if limit > 1_000 { window.div_ceil(1_000) } else { 1 }
}

fn age(used_ms: u64, now: u64) -> u64 {
    now.saturating_sub(used_ms * 1_000)
}

impl Withdrawal {
    /// Windows in use: a window is silent after three times its length.
    fn live(&self, now: u64) -> BTreeMap<u64, (u64, u64)> {
        self.windows
            .iter()
            .map(|(length, used)| (*length, *used))
            .filter(|(length, (used, _))| age(*used, now) < 3 * length)
            .collect()
    }

    /// Returns the longest window in use; `None` if there is no window or no entry that it needs.
    fn longest(&self, now: u64) -> Option<u64> {
        let longest = self.live(now).into_keys().max().unwrap_or(0);
        self.log.last().filter(|(newest, _)| newest + longest > now).map(|_| longest)
    }

    /// Returns the time for which entries count. A window that is new counts what the others need.
    fn span(&self, window: u64, now: u64) -> u64 {
        let is_live = self.live(now).contains_key(&window);
        self.longest(now).map_or(0, |longest| if is_live { window } else { longest.min(window) })
    }

    fn used(&self, window: u64, now: u64) -> u64 {
        let span = self.span(window, now);
        self.log.iter().filter(|(at, _)| now < at + span).map(|(_, cost)| cost).sum()
    }

    /// Notes the window of `rule` and drops what no window in use needs.
    fn write(&mut self, rule: &Rule, now: u64) {
        let ((limit, window), now_ms) = (numbers(rule), now.div_ceil(1_000));
        let (counted, mut live) = (self.longest(now), self.live(now));
        if !live.contains_key(&window) {
            let others = counted.unwrap_or(0);
            self.log.retain(|(at, _)| others >= window || now < at + others);
        }
        if counted.is_none() {
            live.clear();
        }
        live.values_mut().for_each(|(used, _)| *used = now_ms.min(*used));
        let own = live.entry(window).or_insert((now_ms, 0));
        if 4 * age(own.0, now) >= window || limit.min(1_001) > own.1 {
            *own = (now_ms, limit.min(1_001).max(own.1));
        }
        if live.len() > MAX_WINDOWS {
            let others = live.iter().filter(|(length, _)| **length != window);
            let first = others.map(|(length, (used, _))| (*used, *length)).min();
            live.remove(&first.unwrap().1);
        }
        self.windows = live;
        let all: u64 = self.log.iter().map(|(_, cost)| cost).sum();
        let mut before = 0;
        self.log.retain(|(at, cost)| {
            before += cost;
            let is_full = |length: u64, limit: u64| length != window && limit <= 1_000 && all - before >= limit;
            self.windows.iter().any(|(length, (_, limit))| now < at + length && !is_full(*length, *limit))
        });
        self.rest(now);
    }

    fn rest(&mut self, now: u64) {
        let longest = self.live(now).into_keys().max().unwrap_or(0);
        self.rests_at = self.log.last().map_or(0, |(newest, _)| newest + longest);
    }

    /// Adds an entry, or adds to that of the same grain, which then counts from now. The finest grain applies: of the
    /// windows in use and of `rule`, whose limit may be smaller than the largest one of its window.
    fn push(&mut self, rule: &Rule, now: u64, cost: u64) {
        let (limit, window) = numbers(rule);
        let grains = self.windows.iter().map(|(length, (_, limit))| grain_of(*length, *limit));
        let grain = grains.fold(grain_of(window, limit), u64::min);
        match self.log.last_mut() {
            Some(last) if last.0 / grain == now / grain => *last = (now, last.1 + cost),
            _ => self.log.push((now, cost)),
        }
        self.rest(now);
    }
}

impl Model for Withdrawal {
    /// After a clock change, tokens with a time in the future count as consumed now.
    fn seen(&mut self, rule: &Rule, now: u64) {
        self.now = now;
        self.was_ahead = self.log.iter().any(|(at, _)| *at > now);
        if self.was_ahead {
            self.write(rule, now);
            let ahead: u64 = self.log.extract_if(.., |(at, _)| *at > now).map(|(_, cost)| cost).sum();
            if ahead > 0 {
                self.push(rule, now, ahead);
            }
        }
    }

    fn left(&self, rule: &Rule, now: u64) -> u64 {
        let (limit, window) = numbers(rule);
        limit.saturating_sub(self.used(window, now))
    }

    /// A denial notes a window that is new, or was not noted for longer than its length.
    fn denied(&mut self, rule: &Rule, now: u64) {
        let (_, window) = numbers(rule);
        let is_recent = self.live(now).get(&window).is_some_and(|(used, _)| 2 * age(*used, now) < 3 * window);
        if !is_recent && self.used(window, now) > 0 {
            self.write(rule, now);
        }
    }

    fn take(&mut self, rule: &Rule, now: u64, cost: u64) {
        if cost > 0 {
            self.write(rule, now);
            self.push(rule, now, cost);
        }
    }

    /// Returns tokens of the entry that holds that time. Rules with other grains may have written further entries of its
    /// grain. A step that finds a clock set back returns none: their times have changed.
    fn settle(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        if more > 0 {
            return self.take(rule, now, more.unsigned_abs().min(self.left(rule, now)));
        }
        let counts = now < taken_at + self.span(numbers(rule).1, now) && !self.was_ahead;
        let amount = if counts { more.unsigned_abs() } else { 0 };
        let of_grain = |at: u64| at >= taken_at && grain(rule, at) == grain(rule, taken_at);
        if let Some((_, cost)) = self.log.iter_mut().find(|(at, _)| of_grain(*at)) {
            *cost -= amount.min(*cost);
        }
        self.log.retain(|(_, cost)| *cost > 0);
    }

    fn spent_until(&self, rule: &Rule) -> u64 {
        let (_, window) = numbers(rule);
        let counts = self.used(window, self.now) > 0;
        self.log.last().filter(|_| counts).map_or(0, |(at, _)| at + self.span(window, self.now))
    }

    fn rests_at(&self, _: &Rule) -> u64 {
        if self.log.is_empty() { 0 } else { self.rests_at }
    }

    fn boxed(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
