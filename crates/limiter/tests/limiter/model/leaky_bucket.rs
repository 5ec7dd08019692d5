//! Model of the leaky bucket: a queue of turns, each as long as its cost. Without a warm-up.

use std::time::Duration;

use tollgate_limiter::rule::{LeakyBucket, Rule};

use super::definition::Model;
use super::rng::Rng;

/// Assigned turns.
#[derive(Clone, Default)]
struct Line {
    /// Start and end of each turn, in order.
    turns: Vec<(u64, u64)>,
    /// End of the queue. A returned last turn shortens it.
    free_at: u64,
    written_at: u64,
}

pub(crate) fn rule(rng: &mut Rng) -> Rule {
    let rate = rng.pick(&[1, 2, 3, 10, 100]);
    let period = rng.pick(&[1, 1, 1, 60]);
    let wait = rng.pick(&[0, 1, 300, 1_000, 5_000, 3_600_000]);
    let queue = rng.pick(&[0, 1, 3, 10, 50]);
    let times = (Duration::from_secs(period), Duration::from_millis(wait));
    Rule::LeakyBucket(LeakyBucket::new(rate, times.0, times.1, queue).unwrap())
}

/// Returns one turn, one more per interval, and the cost of the last one.
pub(crate) fn bound(rule: &Rule, time: u64) -> u128 {
    let Numbers { interval, .. } = Numbers::of(rule);
    u128::from(time / interval) + u128::from(rule.capacity())
}

pub(crate) fn key() -> Box<dyn Model> {
    Box::new(Line::default())
}

struct Numbers {
    interval: u64,
    /// Returns the longest wait.
    reach: u64,
}

impl Numbers {
    fn of(rule: &Rule) -> Self {
        let Rule::LeakyBucket(rule) = rule else { panic!("{rule:?}") };
        let interval = rule.interval().as_micros() as u64;
        Self { interval, reach: (rule.max_queue() * interval).min(rule.max_wait().as_micros() as u64) }
    }
}

impl Line {
    /// Returns the start of the first free interval of that length, from now on.
    fn free_stretch(&self, now: u64, long: u64) -> u64 {
        let mut from = now;
        for &(begins, ends) in &self.turns {
            if begins >= from + long {
                return from;
            }
            from = from.max(ends);
        }
        from
    }

    /// Drops turns in the past.
    fn write(&mut self, now: u64) {
        self.turns.retain(|(_, ends)| *ends > now);
        self.free_at = self.turns.last().map_or(now, |(_, ends)| *ends);
        self.written_at = now;
    }
}

impl Model for Line {
    /// If the clock is set back, the queue moves along.
    fn seen(&mut self, _: &Rule, now: u64) {
        let back = self.written_at.saturating_sub(now);
        if back > 0 && self.free_at > self.written_at {
            self.turns.iter_mut().for_each(|turn| *turn = (turn.0 - back, turn.1 - back));
            self.write(now);
        }
    }

    /// Counts the requests that could follow each other.
    fn left(&self, rule: &Rule, now: u64) -> u64 {
        let mut line = self.clone();
        let mut left = 0;
        while line.fits(rule, now, 1) {
            line.take(rule, now, 1);
            left += 1;
        }
        left
    }

    fn fits(&self, rule: &Rule, now: u64, cost: u64) -> bool {
        cost == 0 || cost <= rule.capacity() && self.delay(rule, now, cost) <= Numbers::of(rule).reach
    }

    fn delay(&self, rule: &Rule, now: u64, cost: u64) -> u64 {
        if cost == 0 { 0 } else { self.free_stretch(now, cost * Numbers::of(rule).interval) - now }
    }

    fn take(&mut self, rule: &Rule, now: u64, cost: u64) {
        if cost > 0 {
            let long = cost * Numbers::of(rule).interval;
            let from = self.free_stretch(now, long);
            self.turns.push((from, from + long));
            self.turns.sort_unstable();
            self.write(now);
        }
    }

    /// Returns a turn that has not begun; a higher cost extends the end of the queue.
    fn settle(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        let (Numbers { interval, reach }, amount) = (Numbers::of(rule), more.unsigned_abs());
        if more > 0 {
            let free_at = self.free_at.max(now);
            let behind = (now + reach).checked_sub(free_at).map_or(0, |time| time / interval + 1);
            let takes = amount.min(behind);
            if takes > 0 {
                self.turns.push((free_at, free_at + takes * interval));
                self.write(now);
            }
        } else if let Some(turn) = self.turns.iter_mut().find(|turn| turn.0 == taken_at)
            && taken_at > now
            && amount > 0
        {
            turn.0 += amount * interval;
            self.turns.retain(|turn| turn.0 < turn.1);
            self.write(now);
        }
    }

    fn spent_until(&self, _: &Rule) -> u64 {
        self.free_at
    }

    fn boxed(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
