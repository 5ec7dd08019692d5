//! The leaky bucket as a queue: requests are given turns at even intervals, and wait for them.
//!
//! Sources: nginx's `limit_req` (a queue of bounded length), Sentinel's pacing (a bounded wait) and Guava's
//! `SmoothRateLimiter` (what is kept is when the next turn is, so that whoever takes much makes those behind him wait;
//! and the warm-up). Unlike all three a request that leaves while it waits gives its turn back, and a later one takes it.
//!
//! Two turns are never closer than the interval, whatever is given back. Without a warm-up a turn takes exactly one
//! interval for each token of its cost.

mod line;

pub use self::line::Line;
use self::line::{Free, Warmth};
use super::{Algorithm, Answer, Moment, State};
use crate::rule::{LeakyBucket, WarmUp};

/// Gaps that are remembered at most. Turns given back beyond that pass unused.
const MOST_GAPS: usize = 32;

impl Algorithm for LeakyBucket {
    type State = Line;
    type Change = Line;

    /// An allowed request's `delay` is how long it has to wait for its turn, and `counted_at_us` when that is. A denial
    /// writes only when the clock was set back: the whole line then moves along with it, or nobody would get a turn
    /// until the clock is where it was. A changed rule leaves the turns that were given as they are.
    fn decide(&self, state: Option<&Line>, now: Moment, cost: u64) -> (Answer, Option<Line>) {
        let now_us = now.now_us;
        let (mut line, is_stale) = self.line_at(state, now_us);
        if cost == 0 {
            let answer = Answer::allowed(self.places(&line, now_us), line.free_at_us - now_us, now);
            return (answer, is_stale.then(|| self.kept(line, now_us)));
        }
        let denied = |line: Present, retry_after_us| {
            let answer = Answer::denied(self.places(&line, now_us), retry_after_us, line.free_at_us - now_us, now);
            (answer, is_stale.then(|| self.kept(line, now_us)))
        };
        if cost > self.capacity() {
            return denied(line, None);
        }
        let takes_us = cost * self.interval_us();
        let gap = line.gaps.iter().position(|gap| gap.from_us + takes_us <= gap.to_us);
        let turn_us = gap.map_or(line.free_at_us, |at| line.gaps[at].from_us);
        let delay_us = turn_us - now_us;
        if delay_us > self.reach_us() {
            return denied(line, Some(delay_us - self.reach_us()));
        }
        match gap {
            Some(at) => line.take_from(at, takes_us),
            None => self.append(&mut line, cost),
        }
        let answer = Answer::allowed(self.places(&line, now_us), line.free_at_us.saturating_sub(now_us), now);
        let delay = std::time::Duration::from_micros(delay_us);
        (Answer { delay, counted_at_us: turn_us, ..answer }, Some(self.kept(line, now_us)))
    }

    /// Gives back the turn at `counted_at_us` of a request that leaves before it. A turn that has begun is not given
    /// back, since idle time is not kept. More of a cost moves the end of the line.
    fn settle(&self, state: Option<&Line>, now: Moment, more: i64, counted_at_us: u64) -> Option<Line> {
        let (mut line, is_stale) = self.line_at(state, now.now_us);
        let changed = if more < 0 {
            let to_us = more.unsigned_abs().saturating_mul(self.interval_us()).saturating_add(counted_at_us);
            counted_at_us > now.now_us && line.give_back(Free { from_us: counted_at_us, to_us }, now.now_us)
        } else {
            let takes = more.unsigned_abs().min(self.places_behind(&line, now.now_us));
            self.append(&mut line, takes);
            takes > 0
        };
        (changed || is_stale).then(|| self.kept(line, now.now_us))
    }

    #[inline]
    fn apply(_: Option<Line>, change: Line) -> Line {
        change
    }
}

/// A line as it is at some time: nothing in it is past.
#[derive(Clone, Debug, Default)]
struct Present {
    /// When the turn behind all that were given is, at the earliest now.
    free_at_us: u64,
    /// Permits that idle time has stored.
    permits: f64,
    /// Turns that were given back, in order, not touching each other nor the end of the line.
    gaps: Vec<Free>,
}

impl LeakyBucket {
    /// What was kept as it is at `now_us`, and whether the clock was set back since.
    fn line_at(&self, state: Option<&Line>, now_us: u64) -> (Present, bool) {
        let warm_up = self.warm_up_numbers();
        let most = warm_up.map_or(0.0, |warm_up| warm_up.most);
        let fresh = Present { free_at_us: now_us, permits: most, gaps: Vec::new() };
        let Some(line) = state else { return (fresh, false) };
        let back_us = line.at_us.saturating_sub(now_us);
        if line.rests_at_us() - back_us <= now_us {
            return (fresh, false);
        }
        let free_at_us = line.free_at_us - back_us;
        let gaps = line.gaps().iter().map(|gap| gap.moved_back(back_us)).filter(|gap| gap.to_us > now_us);
        let gaps = gaps.map(|gap| Free { from_us: gap.from_us.max(now_us), ..gap }).collect();
        let permits = match (warm_up, line.warmth()) {
            (Some(warm_up), Some(warmth)) => warm_up.permits_at(warmth, free_at_us, now_us),
            _ => most,
        };
        (Present { free_at_us: free_at_us.max(now_us), permits, gaps }, back_us > 0)
    }

    /// Gives the turn behind all others to a request that costs so much.
    fn append(&self, line: &mut Present, cost: u64) {
        let least_us = cost * self.interval_us();
        let takes_us = self.warm_up_numbers().map_or(0, |warm_up| warm_up.spend(&mut line.permits, cost));
        line.free_at_us += takes_us.max(least_us);
    }

    /// Free places in the queue behind the last request, the turn at hand included.
    fn places_behind(&self, line: &Present, now_us: u64) -> u64 {
        let last_us = now_us + self.reach_us();
        last_us.checked_sub(line.free_at_us).map_or(0, |us| us / self.interval_us() + 1)
    }

    /// Free places in the queue, gaps included.
    fn places(&self, line: &Present, now_us: u64) -> u64 {
        let last_us = now_us + self.reach_us() + self.interval_us();
        let in_gap = |gap: &Free| gap.to_us.min(last_us).saturating_sub(gap.from_us) / self.interval_us();
        self.places_behind(line, now_us) + line.gaps.iter().map(in_gap).sum::<u64>()
    }

    /// What is to be kept of a line.
    fn kept(&self, line: Present, now_us: u64) -> Line {
        let warmth = self.warm_up_numbers().map(|warm_up| {
            let cold_in_us = ((warm_up.most - line.permits) * warm_up.cool_down_us).ceil();
            Warmth { permits: line.permits, most: warm_up.most, cold_at_us: line.free_at_us + cold_in_us as u64 }
        });
        Line::new(line.free_at_us, now_us, warmth, line.gaps)
    }
}

impl Present {
    /// Takes the first `takes_us` of a gap that is long enough.
    fn take_from(&mut self, at: usize, takes_us: u64) {
        let gap = &mut self.gaps[at];
        gap.from_us += takes_us;
        if gap.from_us == gap.to_us {
            self.gaps.remove(at);
        }
    }

    /// Makes a gap of a turn, or shortens the line by it if it is the last. Returns whether that was possible: what is
    /// free already, or was never given, is not given back.
    fn give_back(&mut self, turn: Free, now_us: u64) -> bool {
        let at = self.gaps.partition_point(|gap| gap.to_us <= turn.from_us);
        let overlaps = self.gaps.get(at).is_some_and(|gap| gap.from_us < turn.to_us);
        if overlaps || turn.to_us > self.free_at_us {
            return false;
        }
        self.gaps.insert(at, turn);
        self.join(at);
        if let Some(before) = at.checked_sub(1) {
            self.join(before);
        }
        if self.gaps.last().is_some_and(|last| last.to_us == self.free_at_us) {
            self.free_at_us = self.gaps.pop().map_or(self.free_at_us, |last| last.from_us.max(now_us));
        }
        self.gaps.len() <= MOST_GAPS
    }

    /// Joins a gap with the next one if nothing is between them.
    fn join(&mut self, at: usize) {
        if let [gap, next, ..] = self.gaps[at..]
            && gap.to_us == next.from_us
        {
            self.gaps[at].to_us = next.to_us;
            self.gaps.remove(at + 1);
        }
    }
}

/// As `SmoothWarmingUp` computes, operation by operation; lua/leaky_bucket.lua does the same.
impl WarmUp {
    /// What idle time until `now_us` has made of the permits (`resync`), and a changed rule (`doSetRate`).
    fn permits_at(&self, warmth: &Warmth, free_at_us: u64, now_us: u64) -> f64 {
        let mut permits = warmth.permits;
        if warmth.most != self.most {
            permits = permits * self.most / warmth.most;
        }
        if now_us > free_at_us {
            permits = self.most.min(permits + (now_us - free_at_us) as f64 / self.cool_down_us);
        }
        permits
    }

    /// Takes permits for a request that costs so much, and returns how long its turn takes (`reserveEarliestAvailable`).
    fn spend(&self, permits: &mut f64, cost: u64) -> u64 {
        let cost = cost as f64;
        let stored = cost.min(*permits);
        let above = *permits - self.threshold;
        let (mut takes_us, mut rest) = (0.0, stored);
        if above > 0.0 {
            let taken = above.min(stored);
            let length = self.interval_at(above) + self.interval_at(above - taken);
            takes_us = (taken * length / 2.0).floor();
            rest -= taken;
        }
        takes_us += (self.interval_us * rest).floor();
        takes_us += ((cost - stored) * self.interval_us).floor();
        *permits -= stored;
        takes_us as u64
    }

    /// The interval with so many permits above the threshold (`permitsToTime`).
    fn interval_at(&self, above: f64) -> f64 {
        self.interval_us + above * self.slope
    }
}

#[cfg(test)]
mod tests;
