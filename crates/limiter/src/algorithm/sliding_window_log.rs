//! Exact sliding window: a log of admitted requests with their costs.
//!
//! Tokens consumed at `t` count while `now < t + window`. If the clock is set back, tokens with a time in the
//! future count as consumed now; they block a key for at most one window.
//!
//! An entry holds the requests of one grain, with the time of the last one. A grain is a microsecond, or with a limit above
//! [`EXACT_LIMIT`](SlidingWindowLog::EXACT_LIMIT) that fraction of the window. So a log has a bounded length, whatever
//! requests cost. Each write drops a bounded number of entries.
//!
//! Rules with several windows may use one log. It knows the windows in use, and a write drops what none of them needs:
//! entries older than the window, or followed by as many tokens as the limit. A window that is new to the log counts the
//! entries that the others still need.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

#[cfg(feature = "redis")]
pub(crate) use self::stored::StoredEntry;
use self::windows::UsedWindows;
use super::{Algorithm, Moment, RuleVerdict, State};
use crate::rule::SlidingWindowLog;

/// State: tokens consumed within the last window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    expires_at_us: u64,
    /// Boxed to keep the table slots of all keys small.
    runs: Option<Box<Runs>>,
}

/// A change of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    now_us: u64,
    limit: u64,
    window_us: u64,
    grain_us: u64,
    kind: Kind,
}

/// Most expired entries that one write drops.
const MOST_DROPPED: usize = 64;

/// Old entries among which one write merges those of one grain.
const MERGED: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Consumes tokens; 0 only notes the window, or corrects the log after a clock change.
    Take(u64),
    /// Returns tokens consumed at `taken_at_us`.
    GiveBack { taken_at_us: u64, count: u64 },
}

/// Consumed tokens by time, with prefix sums, so that a decision is a binary search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Runs {
    /// Sum of all dropped tokens.
    dropped: u64,
    list: VecDeque<Run>,
    windows: UsedWindows,
}

/// Tokens consumed within one grain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Run {
    /// Time of the last request.
    at_us: u64,
    sum: u64,
}

impl Algorithm for SlidingWindowLog {
    type State = Log;
    type Change = Entry;

    /// A denial writes only if the clock was set back, or its window was not used lately beside another one.
    fn decide(&self, state: Option<&Log>, now: Moment, cost: u64) -> (RuleVerdict, Option<Entry>) {
        let runs = state.and_then(|log| log.runs.as_deref());
        let span_us = runs.map_or(0, |runs| runs.span_us(now.now_us, self.window_us()));
        let used = runs.map_or(0, |runs| runs.used(now.now_us, span_us));
        let remaining = self.limit().saturating_sub(used);
        let is_ahead = runs.is_some_and(|runs| runs.newest_us() > now.now_us);
        // Time for which tokens consumed at `at_us` still count.
        let counts_us = |at_us: u64| at_us.min(now.now_us).saturating_add(self.window_us()) - now.now_us;
        let over_in_us = if used > 0 { runs.map_or(0, |runs| counts_us(runs.newest_us())) } else { 0 };
        if cost <= remaining {
            // A request that only reads does not note a window that is new.
            let unnoted_us = if is_ahead { 0 } else { self.window_us() - span_us };
            let over_in_us = over_in_us.saturating_sub(unnoted_us);
            let reset_after_us = if cost > 0 { self.window_us() } else { over_in_us };
            let change = (cost > 0 || is_ahead).then(|| self.entry(now, Kind::Take(cost)));
            return (RuleVerdict::allowed(remaining - cost, reset_after_us, now), change);
        }
        // All counted tokens except the newest `limit - cost` must expire first.
        let kept = self.limit().checked_sub(cost);
        let retry_after_us = kept.zip(runs).map(|(kept, runs)| counts_us(runs.nth_newest_us(kept)));
        let is_due = used > 0 && runs.is_some_and(|runs| runs.windows.is_due(self.window_us(), now.now_us));
        let change = (is_ahead || is_due).then(|| self.entry(now, Kind::Take(0)));
        (RuleVerdict::denied(remaining, retry_after_us, over_in_us, now), change)
    }

    /// Returns only tokens of the entry with that time.
    fn settle(&self, state: Option<&Log>, now: Moment, more: i64, counted_at_us: u64) -> Option<Entry> {
        let runs = state.and_then(|log| log.runs.as_deref());
        let span_us = runs.map_or(0, |runs| runs.span_us(now.now_us, self.window_us()));
        let is_ahead = runs.is_some_and(|runs| runs.newest_us() > now.now_us);
        if more > 0 {
            let used = runs.map_or(0, |runs| runs.used(now.now_us, span_us));
            let take = more.unsigned_abs().min(self.limit().saturating_sub(used));
            return (take > 0 || is_ahead).then(|| self.entry(now, Kind::Take(take)));
        }
        if is_ahead {
            return Some(self.entry(now, Kind::Take(0)));
        }
        let counts = counted_at_us.saturating_add(span_us) > now.now_us;
        let taken = if counts { runs?.taken_at(counted_at_us, self.grain_us()) } else { 0 };
        let count = more.unsigned_abs().min(taken);
        (count > 0).then(|| self.entry(now, Kind::GiveBack { taken_at_us: counted_at_us, count }))
    }

    fn apply(state: Option<Log>, change: Entry) -> Log {
        let mut log = state.unwrap_or(Log::EMPTY);
        let runs = log.runs.get_or_insert_default();
        let now_us = change.now_us;
        match change.kind {
            Kind::Take(count) => {
                runs.note(&change);
                runs.drop_unneeded(now_us, change.window_us);
                runs.merge_old(now_us);
                let grain_us = runs.windows.grain_us(change.grain_us, now_us);
                runs.set_back(now_us, grain_us);
                runs.take(now_us, count, grain_us);
                log.expires_at_us = runs.newest_us().saturating_add(runs.kept_us(now_us, change.window_us)).max(1);
            }
            Kind::GiveBack { taken_at_us, count } => {
                runs.give_back(taken_at_us, count, change.grain_us);
                if runs.list.is_empty() {
                    log.expires_at_us = now_us.max(1);
                }
            }
        }
        log
    }
}

impl SlidingWindowLog {
    fn entry(&self, now: Moment, kind: Kind) -> Entry {
        let (limit, window_us, grain_us) = (self.limit(), self.window_us(), self.grain_us());
        Entry { now_us: now.now_us, limit, window_us, grain_us, kind }
    }
}

impl Runs {
    fn newest_us(&self) -> u64 {
        self.list.back().map_or(0, |run| run.at_us)
    }

    /// Returns the sum of all tokens ever consumed and not returned.
    fn sum(&self) -> u64 {
        self.list.back().map_or(self.dropped, |run| run.sum)
    }

    /// Returns the sum of all runs before `index`.
    fn sum_before(&self, index: usize) -> u64 {
        index.checked_sub(1).and_then(|before| self.list.get(before)).map_or(self.dropped, |run| run.sum)
    }

    /// Returns the time for which entries count under a rule: its window, unless it is new to the log. Then entries that
    /// no window in use needs may have been dropped, and count no longer.
    fn span_us(&self, now_us: u64, window_us: u64) -> u64 {
        let longest_us = self.windows.longest_us(now_us);
        let is_over = self.newest_us().saturating_add(longest_us) <= now_us;
        let span_us = if self.windows.is_live(window_us, now_us) { window_us } else { longest_us.min(window_us) };
        if is_over { 0 } else { span_us }
    }

    /// Returns the time for which some rule needs an entry.
    fn kept_us(&self, now_us: u64, window_us: u64) -> u64 {
        self.windows.longest_us(now_us).max(window_us)
    }

    /// Notes the use of a window. If it is new to the log, all entries that it does not count are dropped.
    fn note(&mut self, change: &Entry) {
        let (now_us, window_us) = (change.now_us, change.window_us);
        let longest_us = self.windows.longest_us(now_us);
        let is_over = self.newest_us().saturating_add(longest_us) <= now_us;
        let counted_us = if is_over { 0 } else { longest_us };
        if counted_us < window_us && !self.windows.is_live(window_us, now_us) {
            let over = |run: &Run, span_us: u64| run.at_us.saturating_add(span_us) <= now_us;
            let first = self.list.partition_point(|run| over(run, window_us));
            if self.list.get(first).is_some_and(|run| over(run, counted_us)) {
                let over = self.list.partition_point(|run| over(run, counted_us));
                self.dropped = self.list.drain(..over).next_back().map_or(self.dropped, |run| run.sum);
            }
        }
        if is_over {
            self.windows = UsedWindows::default();
        }
        self.windows = self.windows.noted(change.limit, window_us, now_us);
    }

    /// Returns the tokens that count at `now_us`.
    fn used(&self, now_us: u64, window_us: u64) -> u64 {
        let over = self.list.partition_point(|run| run.at_us.saturating_add(window_us) <= now_us);
        self.sum() - self.sum_before(over)
    }

    /// Returns the time of the token that is followed by `newer` tokens.
    fn nth_newest_us(&self, newer: u64) -> u64 {
        let sum = self.sum() - newer;
        self.list.get(self.list.partition_point(|run| run.sum < sum)).map_or(0, |run| run.at_us)
    }

    /// Returns the index of the entry with the tokens consumed at `at_us`. Later requests of the same grain move it.
    fn index_of(&self, at_us: u64, grain_us: u64) -> Option<usize> {
        let index = self.list.partition_point(|run| run.at_us < at_us);
        self.list.get(index).filter(|run| run.at_us / grain_us == at_us / grain_us).map(|_| index)
    }

    /// Returns the tokens of the entry with those consumed at `at_us`.
    fn taken_at(&self, at_us: u64, grain_us: u64) -> u64 {
        // In Redis all entries on one side are rewritten.
        let is_bounded =
            |index: &usize| (*index).min(self.list.len() - 1 - index) <= SlidingWindowLog::EXACT_LIMIT as usize;
        let index = self.index_of(at_us, grain_us).filter(is_bounded);
        index.map_or(0, |index| self.list[index].sum - self.sum_before(index))
    }

    /// Drops the first entries that no window in use needs.
    fn drop_unneeded(&mut self, now_us: u64, window_us: u64) {
        let (sum, windows) = (self.sum(), self.windows);
        for _ in 0..MOST_DROPPED {
            let may_drop = |run: &&Run| windows.may_drop(run.at_us, sum - run.sum, window_us, now_us);
            let Some(over) = self.list.front().filter(may_drop) else { break };
            self.dropped = over.sum;
            self.list.pop_front();
        }
    }

    /// Merges some entries of one grain behind the newest thousand. Limits up to that number are used up without them,
    /// and rules with larger limits count grains. The time selects the entries, so that all get their turn.
    fn merge_old(&mut self, now_us: u64) {
        let old = self.list.len().saturating_sub(SlidingWindowLog::EXACT_LIMIT as usize);
        if old < MERGED || !self.windows.may_merge(now_us) {
            return;
        }
        let start = (now_us % (old - MERGED + 1) as u64) as usize;
        for index in (start..start + MERGED - 1).rev() {
            let grain = |at: usize| self.windows.old_grain(self.list[at].at_us, now_us);
            if grain(index).is_some() && grain(index) == grain(index + 1) {
                self.list.remove(index);
            }
        }
    }

    /// Moves tokens with a time after `now_us` to `now_us`.
    fn set_back(&mut self, now_us: u64, grain_us: u64) {
        let sum = self.sum();
        self.list.truncate(self.list.partition_point(|run| run.at_us <= now_us));
        self.take(now_us, sum - self.sum(), grain_us);
    }

    fn take(&mut self, now_us: u64, count: u64, grain_us: u64) {
        let sum = self.sum() + count;
        match self.list.back_mut() {
            _ if count == 0 => {}
            Some(newest) if newest.at_us / grain_us == now_us / grain_us => *newest = Run { at_us: now_us, sum },
            _ => self.list.push_back(Run { at_us: now_us, sum }),
        }
    }

    fn give_back(&mut self, at_us: u64, count: u64, grain_us: u64) {
        let Some(index) = self.index_of(at_us, grain_us) else { return };
        self.list.range_mut(index..).for_each(|run| run.sum -= count);
        if self.list[index].sum == self.sum_before(index) {
            self.list.remove(index);
        }
    }
}

impl State for Log {
    const EMPTY: Self = Self { expires_at_us: 0, runs: None };

    #[inline]
    fn expires_at_us(&self) -> u64 {
        self.expires_at_us
    }

    fn heap_bytes(&self) -> usize {
        self.runs.as_ref().map_or(0, |runs| size_of::<Runs>() + runs.list.capacity() * size_of::<Run>())
    }
}

#[cfg(feature = "redis")]
mod stored;
#[cfg(test)]
mod tests;
mod windows;
