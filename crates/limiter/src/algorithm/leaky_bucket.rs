//! Leaky bucket as a queue: requests get turns at even intervals and wait for them.
//!
//! Sources: nginx's `limit_req` (a queue of bounded length), Sentinel's pacing (a bounded wait) and Guava's
//! `SmoothRateLimiter` (the state is the next free turn, so a costly request delays later ones; and the warm-up).
//! Unlike in all three, a request that leaves while it waits returns its turn, and a later request can take it.
//!
//! Two turns are never closer than the interval, even after returned turns. Without a warm-up, a turn lasts exactly one
//! interval per token of its cost.

use serde::{Deserialize, Serialize};

use super::{Algorithm, Moment, RuleVerdict, State};
use crate::rule::{LeakyBucket, WarmUp};

/// Largest number of stored gaps. Further returned turns expire unused.
const MAX_GAPS: usize = 32;

/// State of a queue: 24 bytes, and a box if it has gaps or a warm-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueState {
    /// Next free turn at the end of the queue: microseconds.
    free_at_us: u64,
    /// Time of the last write. An earlier time now means that the clock was set back.
    at_us: u64,
    extra: Option<Box<Extra>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Extra {
    warm_up: Option<WarmUpState>,
    gaps: Box<[Gap]>,
}

/// Warm-up of a queue, under the rule that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct WarmUpState {
    /// Permits stored at `free_at_us`.
    permits: f64,
    /// Largest number of stored permits.
    max_permits: f64,
    /// Time at which the permits reach `max_permits` again, so that the state expires.
    idle_at_us: u64,
}

/// Time between turns that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Gap {
    from_us: u64,
    to_us: u64,
}

impl Algorithm for LeakyBucket {
    type State = QueueState;
    type Change = QueueState;

    /// For an allowed request, `delay` is the wait for its turn and `counted_at_us` the time of the turn.
    ///
    /// A denial writes only if the clock was set back. The whole queue then moves with the clock; otherwise no request
    /// would get a turn until the clock has caught up. A changed rule does not move assigned turns.
    fn decide(&self, state: Option<&QueueState>, now: Moment, cost: u64) -> (RuleVerdict, Option<QueueState>) {
        let now_us = now.now_us;
        let (mut queue, is_stale) = self.queue_at(state, now_us);
        if cost == 0 {
            let verdict = RuleVerdict::allowed(self.free_places(&queue, now_us), queue.free_at_us - now_us, now);
            return (verdict, is_stale.then(|| self.to_state(queue, now_us)));
        }
        let denied = |queue: Queue, retry_after_us| {
            let verdict =
                RuleVerdict::denied(self.free_places(&queue, now_us), retry_after_us, queue.free_at_us - now_us, now);
            (verdict, is_stale.then(|| self.to_state(queue, now_us)))
        };
        if cost > self.capacity() {
            return denied(queue, None);
        }
        let duration_us = cost * self.interval_us();
        let gap = queue.gaps.iter().position(|gap| gap.from_us + duration_us <= gap.to_us);
        let turn_us = gap.map_or(queue.free_at_us, |at| queue.gaps[at].from_us);
        let delay_us = turn_us - now_us;
        if delay_us > self.max_delay_us() {
            return denied(queue, Some(delay_us - self.max_delay_us()));
        }
        match gap {
            Some(at) => queue.take_from(at, duration_us),
            None => self.append(&mut queue, cost),
        }
        let verdict =
            RuleVerdict::allowed(self.free_places(&queue, now_us), queue.free_at_us.saturating_sub(now_us), now);
        let delay = std::time::Duration::from_micros(delay_us);
        (RuleVerdict { delay, counted_at_us: turn_us, ..verdict }, Some(self.to_state(queue, now_us)))
    }

    /// Returns the turn at `counted_at_us` of a request that leaves before it. A turn that has begun cannot be
    /// returned, since idle time is not stored. A higher cost moves the end of the queue.
    fn settle(&self, state: Option<&QueueState>, now: Moment, more: i64, counted_at_us: u64) -> Option<QueueState> {
        let (mut queue, is_stale) = self.queue_at(state, now.now_us);
        let changed = if more < 0 {
            let to_us = more.unsigned_abs().saturating_mul(self.interval_us()).saturating_add(counted_at_us);
            counted_at_us > now.now_us && queue.give_back(Gap { from_us: counted_at_us, to_us }, now.now_us)
        } else {
            let cost = more.unsigned_abs().min(self.places_at_end(&queue, now.now_us));
            self.append(&mut queue, cost);
            cost > 0
        };
        (changed || is_stale).then(|| self.to_state(queue, now.now_us))
    }

    #[inline]
    fn apply(_: Option<QueueState>, change: QueueState) -> QueueState {
        change
    }
}

/// Queue at a given time: without turns and gaps in the past.
#[derive(Clone, Debug, Default)]
struct Queue {
    /// Next free turn at the end of the queue, now at the earliest.
    free_at_us: u64,
    /// Permits stored during idle time.
    permits: f64,
    /// Returned turns in order. They touch neither each other nor the end of the queue.
    gaps: Vec<Gap>,
}

impl LeakyBucket {
    /// Returns the queue at `now_us`, and true if the clock was set back since the state was written.
    fn queue_at(&self, state: Option<&QueueState>, now_us: u64) -> (Queue, bool) {
        let warm_up = self.warm_up_curve();
        let max_permits = warm_up.map_or(0.0, |warm_up| warm_up.max_permits);
        let fresh = Queue { free_at_us: now_us, permits: max_permits, gaps: Vec::new() };
        let Some(queue) = state else { return (fresh, false) };
        let back_us = queue.at_us.saturating_sub(now_us);
        if queue.expires_at_us() - back_us <= now_us {
            return (fresh, false);
        }
        let free_at_us = queue.free_at_us - back_us;
        let gaps = queue.gaps().iter().map(|gap| gap.moved_back(back_us)).filter(|gap| gap.to_us > now_us);
        let gaps = gaps.map(|gap| Gap { from_us: gap.from_us.max(now_us), ..gap }).collect();
        let permits = match (warm_up, queue.warm_up()) {
            (Some(warm_up), Some(warmth)) => warm_up.permits_at(warmth, free_at_us, now_us),
            _ => max_permits,
        };
        (Queue { free_at_us: free_at_us.max(now_us), permits, gaps }, back_us > 0)
    }

    /// Assigns the turn at the end of the queue to a request of `cost` tokens.
    fn append(&self, queue: &mut Queue, cost: u64) {
        let least_us = cost * self.interval_us();
        let duration_us = self.warm_up_curve().map_or(0, |warm_up| warm_up.spend(&mut queue.permits, cost));
        queue.free_at_us += duration_us.max(least_us);
    }

    /// Returns the free places after the last request, including the current turn.
    fn places_at_end(&self, queue: &Queue, now_us: u64) -> u64 {
        let last_us = now_us + self.max_delay_us();
        last_us.checked_sub(queue.free_at_us).map_or(0, |us| us / self.interval_us() + 1)
    }

    /// Returns all free places in the queue, including gaps.
    fn free_places(&self, queue: &Queue, now_us: u64) -> u64 {
        let last_us = now_us + self.max_delay_us() + self.interval_us();
        let in_gap = |gap: &Gap| gap.to_us.min(last_us).saturating_sub(gap.from_us) / self.interval_us();
        self.places_at_end(queue, now_us) + queue.gaps.iter().map(in_gap).sum::<u64>()
    }

    /// Returns the state to store.
    fn to_state(&self, queue: Queue, now_us: u64) -> QueueState {
        let warmth = self.warm_up_curve().map(|warm_up| {
            let cold_in_us = ((warm_up.max_permits - queue.permits) * warm_up.cool_down_us).ceil();
            WarmUpState {
                permits: queue.permits,
                max_permits: warm_up.max_permits,
                idle_at_us: queue.free_at_us + cold_in_us as u64,
            }
        });
        QueueState::new(queue.free_at_us, now_us, warmth, queue.gaps)
    }
}

impl QueueState {
    fn new(free_at_us: u64, at_us: u64, warm_up: Option<WarmUpState>, gaps: Vec<Gap>) -> Self {
        let has_more = warm_up.is_some() || !gaps.is_empty();
        Self { free_at_us, at_us, extra: has_more.then(|| Box::new(Extra { warm_up, gaps: gaps.into() })) }
    }

    fn warm_up(&self) -> Option<&WarmUpState> {
        self.extra.as_ref()?.warm_up.as_ref()
    }

    fn gaps(&self) -> &[Gap] {
        self.extra.as_ref().map_or(&[], |extra| &extra.gaps)
    }
}

impl State for QueueState {
    const EMPTY: Self = Self { free_at_us: 0, at_us: 0, extra: None };

    #[inline]
    fn expires_at_us(&self) -> u64 {
        self.warm_up().map_or(self.free_at_us, |warm_up| warm_up.idle_at_us)
    }

    fn heap_bytes(&self) -> usize {
        self.extra.as_ref().map_or(0, |extra| size_of::<Extra>() + size_of_val(&*extra.gaps))
    }
}

impl Gap {
    fn moved_back(self, by_us: u64) -> Self {
        Self { from_us: self.from_us.saturating_sub(by_us), to_us: self.to_us - by_us }
    }
}

impl Queue {
    /// Takes the first `duration_us` of gap `at`, which must be long enough.
    fn take_from(&mut self, at: usize, duration_us: u64) {
        let gap = &mut self.gaps[at];
        gap.from_us += duration_us;
        if gap.from_us == gap.to_us {
            self.gaps.remove(at);
        }
    }

    /// Turns `turn` into a gap, or shortens the queue if it is the last turn.
    ///
    /// Returns false if the turn is already free or was never assigned.
    fn give_back(&mut self, turn: Gap, now_us: u64) -> bool {
        let at = self.gaps.partition_point(|gap| gap.to_us <= turn.from_us);
        let overlaps = self.gaps.get(at).is_some_and(|gap| gap.from_us < turn.to_us);
        if overlaps || turn.to_us > self.free_at_us {
            return false;
        }
        self.gaps.insert(at, turn);
        self.merge_with_next(at);
        if let Some(before) = at.checked_sub(1) {
            self.merge_with_next(before);
        }
        if self.gaps.last().is_some_and(|last| last.to_us == self.free_at_us) {
            self.free_at_us = self.gaps.pop().map_or(self.free_at_us, |last| last.from_us.max(now_us));
        }
        self.gaps.len() <= MAX_GAPS
    }

    /// Merges gap `at` with the next one if they touch.
    fn merge_with_next(&mut self, at: usize) {
        if let [gap, next, ..] = self.gaps[at..]
            && gap.to_us == next.from_us
        {
            self.gaps[at].to_us = next.to_us;
            self.gaps.remove(at + 1);
        }
    }
}

/// The computations of Guava's `SmoothWarmingUp`, operation by operation, as in lua/leaky_bucket.lua.
impl WarmUp {
    /// Returns the permits after idle time until `now_us` (`resync`) and a changed rule (`doSetRate`).
    fn permits_at(&self, warmth: &WarmUpState, free_at_us: u64, now_us: u64) -> f64 {
        let mut permits = warmth.permits;
        if warmth.max_permits != self.max_permits {
            permits = permits * self.max_permits / warmth.max_permits;
        }
        if now_us > free_at_us {
            permits = self.max_permits.min(permits + (now_us - free_at_us) as f64 / self.cool_down_us);
        }
        permits
    }

    /// Consumes permits for a request of `cost` tokens and returns the duration of its turn (`reserveEarliestAvailable`).
    fn spend(&self, permits: &mut f64, cost: u64) -> u64 {
        let cost = cost as f64;
        let stored = cost.min(*permits);
        let above = *permits - self.threshold;
        let (mut duration_us, mut rest) = (0.0, stored);
        if above > 0.0 {
            let taken = above.min(stored);
            let length = self.interval_at(above) + self.interval_at(above - taken);
            duration_us = (taken * length / 2.0).floor();
            rest -= taken;
        }
        duration_us += (self.interval_us * rest).floor();
        duration_us += ((cost - stored) * self.interval_us).floor();
        *permits -= stored;
        duration_us as u64
    }

    /// Returns the interval at `above` permits above the threshold (`permitsToTime`).
    fn interval_at(&self, above: f64) -> f64 {
        self.interval_us + above * self.slope
    }
}

#[cfg(test)]
mod tests;
