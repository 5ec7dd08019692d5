//! Sliding window, estimated from two counters.
//!
//! The previous window counts by the fraction that still overlaps with the last `window`. Decisions use whole tokens
//! times ticks (see the rule), so only the time is rounded, down to a tick.

use super::{Algorithm, Moment, RuleVerdict, State};
use crate::rule::SlidingWindowCounter;

/// State of the current and the previous window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// End of the current window: microseconds.
    ends_at_us: u64,
    /// Length of a window: microseconds.
    window_us: u64,
    /// Tokens consumed in the previous window.
    previous: u64,
    /// Tokens consumed in the current window.
    current: u64,
}

impl Algorithm for SlidingWindowCounter {
    type State = Counters;
    type Change = Counters;

    /// A denial writes only if the length of the window changed or the clock was set back.
    fn decide(&self, state: Option<&Counters>, now: Moment, cost: u64) -> (RuleVerdict, Option<Counters>) {
        let (counters, is_stale) = self.counters_at(state, now);
        let left = self.left(&counters, now.now_us);
        if cost <= left {
            let counters = Counters { current: counters.current + cost, ..counters };
            let verdict = RuleVerdict::allowed(left - cost, counters.reset_after_us(now.now_us), now);
            return (verdict, (cost > 0 || is_stale).then_some(counters));
        }
        let retry_after_us = (cost <= self.limit()).then(|| self.wait_us(&counters, now.now_us, cost));
        let verdict = RuleVerdict::denied(left, retry_after_us, counters.reset_after_us(now.now_us), now);
        (verdict, is_stale.then_some(counters))
    }

    /// Returns tokens to the window in which they were consumed, while that window counts.
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
    /// Returns the counters at `now`, and true if they must be written even if nothing is consumed. Each counter is at
    /// most the limit, even if more was consumed under a higher limit.
    ///
    /// Tokens of windows of another length, or of windows in the future after a clock change, count as consumed in the
    /// current window.
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

    /// Returns the whole tokens available.
    fn left(&self, counters: &Counters, now_us: u64) -> u64 {
        let ticks = self.ticks();
        let elapsed = counters.elapsed_us(now_us) / self.tick_us();
        let room = (self.limit() - counters.current) * ticks;
        room.saturating_sub(counters.previous * (ticks - elapsed)) / ticks
    }

    /// Returns the time until `cost`, at most the limit, is available if no other request consumes tokens.
    ///
    /// That is the first tick at which enough of the previous window no longer overlaps. It lies in the current window,
    /// or in the next one, where the current window is the previous.
    fn wait_us(&self, counters: &Counters, now_us: u64, cost: u64) -> u64 {
        let Counters { previous, current, window_us, .. } = *counters;
        let elapsed_us = counters.elapsed_us(now_us);
        let room = (self.limit() - cost) * self.ticks();
        // First time within a window at which the overlapping share of `previous` fits into `spare`.
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
    /// Returns the counters moved on to the window of `now_us`.
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

    /// Returns the numbers that lua/sliding_window_counter.lua stores: start of the current window, tokens consumed in
    /// the previous and in the current window, length of a window.
    #[cfg(feature = "redis")]
    pub(crate) fn to_stored(self) -> [u64; 4] {
        [self.ends_at_us.saturating_sub(self.window_us), self.previous, self.current, self.window_us]
    }

    /// Creates the counters from the result of [`to_stored`](Self::to_stored).
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

    /// Returns the time until no consumed token counts.
    fn reset_after_us(&self, now_us: u64) -> u64 {
        match *self {
            Self { previous: 0, current: 0, .. } => 0,
            _ => self.expires_at_us() - now_us,
        }
    }
}

impl State for Counters {
    const EMPTY: Self = Self { ends_at_us: 0, window_us: 0, previous: 0, current: 0 };

    #[inline]
    fn expires_at_us(&self) -> u64 {
        if self.current > 0 { self.ends_at_us.saturating_add(self.window_us) } else { self.ends_at_us }
    }
}

#[cfg(test)]
mod tests;
