//! Model of the leaky bucket: a queue of turns, each as long as its cost, or longer in a warm-up.
//!
//! The warm-up is Guava's `SmoothWarmingUp`, with the fields and operations of its source, since the order of operations
//! affects the last bit.

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
    /// Warm-up under the rule of the last write.
    warmth: Option<Warmth>,
}

/// Permits stored at the end of the queue.
#[derive(Clone, Copy)]
struct Warmth {
    stored: f64,
    max: f64,
    /// Time from which the queue is cold again.
    cold_at: u64,
}

/// Curve of a warm-up: `SmoothWarmingUp` in Guava.
struct Curve {
    stable: f64,
    threshold: f64,
    max: f64,
    slope: f64,
    cool_down: f64,
}

pub(crate) fn rule(rng: &mut Rng) -> Rule {
    let rate = rng.pick(&[1, 2, 3, 10, 100]);
    let period = rng.pick(&[1, 1, 1, 60]);
    let wait = rng.pick(&[0, 1, 300, 1_000, 5_000, 3_600_000]);
    let queue = rng.pick(&[0, 1, 3, 10, 50]);
    let times = (Duration::from_secs(period), Duration::from_millis(wait));
    let warm_up = Duration::from_millis(rng.pick(&[0, 0, 0, 1, 2_500, 10_000, 600_000]));
    Rule::LeakyBucket(
        LeakyBucket::new(rate, times.0)
            .unwrap()
            .with_max_wait(times.1)
            .unwrap()
            .with_max_queue(queue)
            .unwrap()
            .with_warm_up(warm_up)
            .unwrap(),
    )
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
    /// Longest wait.
    reach: u64,
    curve: Option<Curve>,
}

impl Numbers {
    fn of(rule: &Rule) -> Self {
        let Rule::LeakyBucket(rule) = rule else { panic!("{rule:?}") };
        let interval = rule.interval().as_micros() as u64;
        let reach = (rule.max_queue() * interval).min(rule.max_wait().as_micros() as u64);
        let warm_up = rule.warm_up().as_micros() as f64;
        let curve = (warm_up > 0.0).then(|| Curve::new(interval as f64, warm_up));
        Self { interval, reach, curve }
    }
}

impl Curve {
    /// `doSetRate`, with a cold factor of 3.
    fn new(stable: f64, warm_up: f64) -> Self {
        let cold = stable * 3.0;
        let threshold = 0.5 * warm_up / stable;
        let max = threshold + 2.0 * warm_up / (stable + cold);
        Self { stable, threshold, max, slope: (cold - stable) / (max - threshold), cool_down: warm_up / max }
    }

    /// `storedPermitsToWaitTime` and the time of the fresh permits.
    fn time_of(&self, stored: f64, permits: f64) -> u64 {
        let to_spend = permits.min(stored);
        let (mut micros, mut below) = (0, to_spend);
        if stored > self.threshold {
            let above = stored - self.threshold;
            let taken = above.min(to_spend);
            let time_at = |permits: f64| self.stable + permits * self.slope;
            micros = (taken * (time_at(above) + time_at(above - taken)) / 2.0) as u64;
            below -= taken;
        }
        micros + (self.stable * below) as u64 + ((permits - to_spend) * self.stable) as u64
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

    fn expires_at(&self) -> u64 {
        self.warmth.map_or(self.free_at, |warmth| warmth.cold_at)
    }

    /// `resync`: returns the permits stored by now.
    fn stored(&self, curve: &Curve, now: u64) -> f64 {
        match self.warmth {
            Some(warmth) if now < self.expires_at() => {
                let stored =
                    if warmth.max == curve.max { warmth.stored } else { warmth.stored * curve.max / warmth.max };
                let idle = now.saturating_sub(self.free_at) as f64;
                if idle > 0.0 { curve.max.min(stored + idle / curve.cool_down) } else { stored }
            }
            _ => curve.max,
        }
    }

    /// Drops turns in the past, and stores the permits that are left after `spent`.
    fn write(&mut self, rule: &Rule, now: u64, spent: u64) {
        let curve = Numbers::of(rule).curve;
        let stored = curve.as_ref().map(|curve| {
            let stored = self.stored(curve, now);
            stored - stored.min(spent as f64)
        });
        self.turns.retain(|(_, ends)| *ends > now);
        self.free_at = self.turns.last().map_or(now, |(_, ends)| *ends);
        self.written_at = now;
        self.warmth = curve.zip(stored).map(|(Curve { max, cool_down, .. }, stored)| {
            let cold_at = self.free_at + ((max - stored) * cool_down).ceil() as u64;
            Warmth { stored, max, cold_at }
        });
    }

    /// Assigns the turn at the end of the queue.
    fn append(&mut self, rule: &Rule, now: u64, cost: u64) {
        let Numbers { interval, curve, .. } = Numbers::of(rule);
        let long = curve.map_or(0, |curve| curve.time_of(self.stored(&curve, now), cost as f64));
        let from = self.free_at.max(now);
        self.turns.push((from, from + long.max(cost * interval)));
        self.write(rule, now, cost);
    }
}

impl Model for Line {
    /// If the clock is set back, the queue moves along.
    fn seen(&mut self, rule: &Rule, now: u64) {
        let back = self.written_at.saturating_sub(now);
        if back > 0 && self.expires_at() > self.written_at {
            self.turns.iter_mut().for_each(|turn| *turn = (turn.0 - back, turn.1 - back));
            self.free_at -= back;
            if let Some(warmth) = &mut self.warmth {
                warmth.cold_at -= back;
            }
            self.write(rule, now, 0);
        }
    }

    /// Counts the requests that could follow each other at the full rate.
    fn left(&self, rule: &Rule, now: u64) -> u64 {
        let (mut line, Numbers { interval, .. }) = (self.clone(), Numbers::of(rule));
        let mut left = 0;
        while line.fits(rule, now, 1) {
            let from = line.free_stretch(now, interval);
            line.turns.push((from, from + interval));
            line.turns.sort_unstable();
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
            if from >= self.free_at {
                return self.append(rule, now, cost);
            }
            self.turns.push((from, from + long));
            self.turns.sort_unstable();
            self.write(rule, now, 0);
        }
    }

    /// Returns a turn that has not begun; a higher cost extends the end of the queue.
    fn settle(&mut self, rule: &Rule, now: u64, more: i64, taken_at: u64) {
        let (Numbers { interval, reach, .. }, amount) = (Numbers::of(rule), more.unsigned_abs());
        if more > 0 {
            let free_at = self.free_at.max(now);
            let behind = (now + reach).checked_sub(free_at).map_or(0, |time| time / interval + 1);
            let takes = amount.min(behind);
            if takes > 0 {
                self.append(rule, now, takes);
            }
        } else if let Some(turn) = self.turns.iter_mut().find(|turn| turn.0 == taken_at)
            && taken_at > now
            && amount > 0
        {
            turn.0 += amount * interval;
            self.turns.retain(|turn| turn.0 < turn.1);
            self.write(rule, now, 0);
        }
    }

    fn spent_until(&self, _: &Rule) -> u64 {
        self.free_at
    }

    fn rests_at(&self, _: &Rule) -> u64 {
        self.expires_at()
    }

    fn boxed(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
