//! Sliding windows, estimated from two counters.
//!
//! Of what was taken in the previous window, the part counts by which it still overlaps with the last `window`. All of
//! it is decided in whole tokens times ticks (see the rule), so nothing is rounded but the time, down to a tick.

use super::{Algorithm, Answer, Moment, State};
use crate::rule::SlidingWindowCounter;

/// What is remembered of a key's last two windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// When the current window is over: microseconds.
    ends_at_us: u64,
    /// How long it is: microseconds.
    window_us: u64,
    /// What was taken in the window before it.
    previous: u64,
    /// What was taken in it.
    current: u64,
}

impl Algorithm for SlidingWindowCounter {
    type State = Counters;
    type Change = Counters;

    /// A denial writes only when the length of the window changed or the clock was set back.
    fn decide(&self, state: Option<&Counters>, now: Moment, cost: u64) -> (Answer, Option<Counters>) {
        let (counters, is_stale) = self.counters_at(state, now);
        let left = self.left(&counters, now.now_us);
        if cost <= left {
            let counters = Counters { current: counters.current + cost, ..counters };
            let answer = Answer::allowed(left - cost, counters.reset_after_us(now.now_us), now);
            return (answer, (cost > 0 || is_stale).then_some(counters));
        }
        let retry_after_us = (cost <= self.limit()).then(|| self.wait_us(&counters, now.now_us, cost));
        let answer = Answer::denied(left, retry_after_us, counters.reset_after_us(now.now_us), now);
        (answer, is_stale.then_some(counters))
    }

    /// Gives back to the window that it was taken in, as long as that one counts.
    fn settle(&self, state: Option<&Counters>, now: Moment, more: i64, counted_at_us: u64) -> Option<Counters> {
        let (kept, is_stale) = self.counters_at(state, now);
        let Counters { mut previous, mut current, ends_at_us, window_us } = kept;
        let (amount, began_at_us) = (more.unsigned_abs(), ends_at_us.saturating_sub(window_us));
        if more > 0 {
            current += amount.min(self.left(&kept, now.now_us));
        } else if (began_at_us..ends_at_us).contains(&counted_at_us) {
            current = current.saturating_sub(amount);
        } else if (began_at_us.saturating_sub(window_us)..began_at_us).contains(&counted_at_us) {
            previous = previous.saturating_sub(amount);
        }
        let settled = Counters { previous, current, ..kept };
        (is_stale || settled != kept).then_some(settled)
    }

    #[inline]
    fn apply(_: Option<Counters>, change: Counters) -> Counters {
        change
    }
}

impl SlidingWindowCounter {
    /// The counters at `now`, and whether what was kept must be written anew even if nothing is taken. They hold no
    /// more than the limit each, even if more was taken under a higher one.
    ///
    /// Windows of another length, or that have not begun because the clock was set back, are counted as if all of it
    /// had been taken in the window that is current now.
    fn counters_at(&self, state: Option<&Counters>, now: Moment) -> (Counters, bool) {
        let window_us = self.window_us();
        let ends_at_us = now.now_us.saturating_add(window_us - now.wall_us % window_us);
        let fresh = Counters { ends_at_us, window_us, previous: 0, current: 0 };
        let kept = state.map_or(fresh, |counters| counters.moved_on(now.now_us));
        let (previous, current) = (kept.previous.min(self.limit()), kept.current.min(self.limit()));
        if kept.previous == 0 && kept.current == 0 {
            (fresh, false)
        } else if kept.window_us == window_us && kept.began_by(now.now_us) {
            (Counters { previous, current, ..kept }, false)
        } else {
            (Counters { current: (previous + current).min(self.limit()), ..fresh }, true)
        }
    }

    /// Whole tokens that can be taken.
    fn left(&self, counters: &Counters, now_us: u64) -> u64 {
        let ticks = self.ticks();
        let elapsed = counters.elapsed_us(now_us) / self.tick_us();
        let room = (self.limit() - counters.current) * ticks;
        room.saturating_sub(counters.previous * (ticks - elapsed)) / ticks
    }

    /// How long it takes until `cost`, no more than the limit, can be taken by somebody who is alone: up to the tick in
    /// which enough of the previous window has slid out, in this window or in the next one, where this one is the
    /// previous.
    fn wait_us(&self, counters: &Counters, now_us: u64, cost: u64) -> u64 {
        let Counters { previous, current, window_us, .. } = *counters;
        let elapsed_us = counters.elapsed_us(now_us);
        let room = (self.limit() - cost) * self.ticks();
        // The first moment of a window at which `spare` has room for what is left of its `previous` one.
        let passes_at_us = |spare: u64, previous: u64| {
            let may_count = spare.checked_div(previous).unwrap_or(u64::MAX);
            (self.ticks().saturating_sub(may_count) * self.tick_us()).min(window_us)
        };
        match room.checked_sub(current * self.ticks()) {
            Some(spare) => passes_at_us(spare, previous) - elapsed_us,
            None => window_us - elapsed_us + passes_at_us(room, current),
        }
    }
}

impl Counters {
    /// The same as they stand at `now_us`, windows having gone by.
    fn moved_on(&self, now_us: u64) -> Self {
        let Self { ends_at_us, window_us, current, .. } = *self;
        let next_ends_at_us = ends_at_us.saturating_add(window_us);
        if now_us < ends_at_us {
            *self
        } else if now_us < next_ends_at_us {
            Self { ends_at_us: next_ends_at_us, window_us, previous: current, current: 0 }
        } else {
            Self { previous: 0, current: 0, ..*self }
        }
    }

    /// The counters as lua/sliding_window_counter.lua keeps them: when the current window began, what was taken before it
    /// and in it, and its length.
    #[cfg(feature = "redis")]
    pub(crate) fn to_stored(self) -> [u64; 4] {
        [self.ends_at_us.saturating_sub(self.window_us), self.previous, self.current, self.window_us]
    }

    /// What [`to_stored`](Self::to_stored) made of them.
    #[cfg(feature = "redis")]
    pub(crate) fn from_stored([start_us, previous, current, window_us]: [u64; 4]) -> Self {
        Self { ends_at_us: start_us.saturating_add(window_us), window_us, previous, current }
    }

    fn began_by(&self, now_us: u64) -> bool {
        self.ends_at_us.saturating_sub(self.window_us) <= now_us
    }

    fn elapsed_us(&self, now_us: u64) -> u64 {
        self.window_us - (self.ends_at_us - now_us)
    }

    /// Until nothing of it counts.
    fn reset_after_us(&self, now_us: u64) -> u64 {
        match *self {
            Self { previous: 0, current: 0, .. } => 0,
            _ => self.rests_at_us() - now_us,
        }
    }
}

impl State for Counters {
    const VACANT: Self = Self { ends_at_us: 0, window_us: 0, previous: 0, current: 0 };

    #[inline]
    fn rests_at_us(&self) -> u64 {
        if self.current > 0 { self.ends_at_us.saturating_add(self.window_us) } else { self.ends_at_us }
    }
}

#[cfg(test)]
mod tests;
