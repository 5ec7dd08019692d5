//! Sliding window, estimated from two counters.
//!
//! The previous window counts by the fraction that still overlaps with the last `window`. Decisions use whole tokens
//! times ticks (see the rule), so only the time is rounded, down to a tick.
//!
//! While rules with other windows use the same key, each length has counters of its own, and every request is counted in
//! all of them. So tokens age under each rule, and each rule counts what the others admit. A limit never cuts a counter.

mod counters;

pub use self::counters::Counters;
use self::counters::Windows;
use super::lengths::Counted;
use super::{Algorithm, Moment, RuleVerdict};
use crate::rule::SlidingWindowCounter;

impl Algorithm for SlidingWindowCounter {
    type State = Counters;
    type Change = Counters;

    /// A denial writes only if the length of the window is new to the key, or the clock was set back.
    fn decide(&self, state: Option<&Counters>, now: Moment, cost: u64) -> (RuleVerdict, Option<Counters>) {
        let Counted { mut rule_window, mut others, is_stale } = self.counted(state, now);
        let remaining = self.remaining(&rule_window, now.now_us);
        if cost <= remaining {
            rule_window.current += cost;
            others.iter_mut().for_each(|other| other.window.current += cost);
            let verdict = RuleVerdict::allowed(remaining - cost, rule_window.reset_after_us(now.now_us), now);
            return (verdict, (cost > 0 || is_stale).then(|| Counters::new(rule_window, others, now.now_us)));
        }
        let retry_after_us = (cost <= self.limit()).then(|| self.wait_us(&rule_window, now.now_us, cost));
        let verdict = RuleVerdict::denied(remaining, retry_after_us, rule_window.reset_after_us(now.now_us), now);
        (verdict, is_stale.then(|| Counters::new(rule_window, others, now.now_us)))
    }

    /// Returns tokens to the windows in which they were consumed, while those windows count.
    fn settle(&self, state: Option<&Counters>, now: Moment, more: i64, counted_at_us: u64) -> Option<Counters> {
        let mut counted = self.counted(state, now);
        let mut changed = counted.is_stale;
        let taken =
            if more > 0 { more.unsigned_abs().min(self.remaining(&counted.rule_window, now.now_us)) } else { 0 };
        for windows in
            std::iter::once(&mut counted.rule_window).chain(counted.others.iter_mut().map(|other| &mut other.window))
        {
            changed |= taken > 0 || more < 0 && windows.give_back(more.unsigned_abs(), counted_at_us);
            windows.current += taken;
        }
        changed.then(|| Counters::new(counted.rule_window, counted.others, now.now_us))
    }

    #[inline]
    fn apply(_: Option<Counters>, change: Counters) -> Counters {
        change
    }
}

impl SlidingWindowCounter {
    /// Returns the counters at `now`.
    fn counted(&self, state: Option<&Counters>, now: Moment) -> Counted<Windows> {
        let window_us = self.window_us();
        let fresh = Windows::starting(now.now_us.saturating_add(window_us - now.wall_us % window_us), window_us);
        state.map_or(Counted::fresh(fresh), |counters| counters.at(fresh, now))
    }

    /// Returns the whole tokens available; 0 if a higher limit admitted more than this one.
    fn remaining(&self, windows: &Windows, now_us: u64) -> u64 {
        let ticks = self.ticks();
        let elapsed = windows.elapsed_us(now_us) / self.tick_us();
        let room = u128::from(self.limit().saturating_sub(windows.current)) * u128::from(ticks);
        let overlapping = u128::from(windows.previous) * u128::from(ticks - elapsed);
        (room.saturating_sub(overlapping) / u128::from(ticks)) as u64
    }

    /// Returns the time until `cost`, at most the limit, is available if no other request consumes tokens.
    ///
    /// That is the first tick at which enough of the previous window no longer overlaps. It lies in the current window,
    /// or in the next one, where the current window is the previous.
    fn wait_us(&self, windows: &Windows, now_us: u64, cost: u64) -> u64 {
        let (Windows { previous, current, .. }, window_us) = (*windows, windows.window_us());
        let elapsed_us = windows.elapsed_us(now_us);
        let room = (self.limit() - cost) * self.ticks();
        // First time within a window at which the overlapping share of `previous` fits into `spare`.
        let passes_at_us = |spare: u64, previous: u64| {
            let may_count = spare.checked_div(previous).unwrap_or(u64::MAX);
            (self.ticks().saturating_sub(may_count) * self.tick_us()).min(window_us)
        };
        match room.checked_sub(current.saturating_mul(self.ticks())) {
            Some(spare) => passes_at_us(spare, previous) - elapsed_us,
            None => window_us - elapsed_us + passes_at_us(room, current),
        }
    }
}

#[cfg(test)]
mod tests;
