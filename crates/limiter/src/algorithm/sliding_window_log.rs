//! Exact sliding window: a log of admitted requests with their costs.
//!
//! Tokens consumed at `t` count while `now < t + window`. Writes after that drop them, so a longer window
//! finds only the tokens not yet dropped under the shorter one. If the clock is set back, tokens with a time in the
//! future count as consumed now; they block a key for at most one window.
//!
//! An entry holds the requests of one grain, with the time of the last one. A grain is a microsecond, or with a limit above
//! [`EXACT_LIMIT`](SlidingWindowLog::EXACT_LIMIT) that fraction of the window. So a log has a bounded length, whatever
//! requests cost. Each write drops a bounded number of entries.

use std::collections::VecDeque;

#[cfg(feature = "redis")]
pub(crate) use self::stored::StoredEntry;
use super::{Algorithm, Moment, RuleVerdict, State};
use crate::rule::SlidingWindowLog;

/// State: tokens consumed within the last window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    expires_at_us: u64,
    /// Boxed to keep the table slots of all keys small.
    runs: Option<Box<Runs>>,
}

/// A change of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    now_us: u64,
    window_us: u64,
    grain_us: u64,
    kind: Kind,
}

/// Most expired entries that one write drops.
const MOST_DROPPED: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Consumes tokens; 0 only corrects the log after a clock change.
    Take(u64),
    /// Returns tokens consumed at `taken_at_us`.
    GiveBack { taken_at_us: u64, count: u64 },
}

/// Consumed tokens by time, with prefix sums, so that a decision is a binary search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Runs {
    /// Sum of all dropped tokens.
    dropped: u64,
    list: VecDeque<Run>,
}

/// Tokens consumed within one grain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// Time of the last request.
    at_us: u64,
    sum: u64,
}

impl Algorithm for SlidingWindowLog {
    type State = Log;
    type Change = Entry;

    /// A denial writes only if the clock was set back.
    fn decide(&self, state: Option<&Log>, now: Moment, cost: u64) -> (RuleVerdict, Option<Entry>) {
        let runs = state.and_then(|log| log.runs.as_deref());
        let used = runs.map_or(0, |runs| runs.used(now.now_us, self.window_us()));
        let left = self.limit().saturating_sub(used);
        let is_ahead = runs.is_some_and(|runs| runs.newest_us() > now.now_us);
        // Time for which tokens consumed at `at_us` still count.
        let counts_us = |at_us: u64| at_us.min(now.now_us).saturating_add(self.window_us()) - now.now_us;
        let over_in_us = if used > 0 { runs.map_or(0, |runs| counts_us(runs.newest_us())) } else { 0 };
        if cost <= left {
            let reset_after_us = if cost > 0 { self.window_us() } else { over_in_us };
            let change = (cost > 0 || is_ahead).then(|| self.entry(now, Kind::Take(cost)));
            return (RuleVerdict::allowed(left - cost, reset_after_us, now), change);
        }
        // All counted tokens except the newest `limit - cost` must expire first.
        let kept = self.limit().checked_sub(cost);
        let retry_after_us = kept.zip(runs).map(|(kept, runs)| counts_us(runs.nth_newest_us(kept)));
        let change = is_ahead.then(|| self.entry(now, Kind::Take(0)));
        (RuleVerdict::denied(left, retry_after_us, over_in_us, now), change)
    }

    /// Returns only tokens of the entry with that time.
    fn settle(&self, state: Option<&Log>, now: Moment, more: i64, counted_at_us: u64) -> Option<Entry> {
        let runs = state.and_then(|log| log.runs.as_deref());
        let is_ahead = runs.is_some_and(|runs| runs.newest_us() > now.now_us);
        if more > 0 {
            let used = runs.map_or(0, |runs| runs.used(now.now_us, self.window_us()));
            let take = more.unsigned_abs().min(self.limit().saturating_sub(used));
            return (take > 0 || is_ahead).then(|| self.entry(now, Kind::Take(take)));
        }
        if is_ahead {
            return Some(self.entry(now, Kind::Take(0)));
        }
        let counts = counted_at_us.saturating_add(self.window_us()) > now.now_us;
        let taken = if counts { runs?.taken_at(counted_at_us, self.grain_us()) } else { 0 };
        let count = more.unsigned_abs().min(taken);
        (count > 0).then(|| self.entry(now, Kind::GiveBack { taken_at_us: counted_at_us, count }))
    }

    fn apply(state: Option<Log>, change: Entry) -> Log {
        let mut log = state.unwrap_or(Log::EMPTY);
        let runs = log.runs.get_or_insert_default();
        match change.kind {
            Kind::Take(count) => {
                runs.drop_before(change.now_us, change.window_us);
                runs.set_back(change.now_us, change.grain_us);
                runs.take(change.now_us, count, change.grain_us);
                log.expires_at_us = change.now_us.saturating_add(change.window_us);
            }
            Kind::GiveBack { taken_at_us, count } => {
                runs.give_back(taken_at_us, count, change.grain_us);
                if runs.list.is_empty() {
                    log.expires_at_us = change.now_us.max(1);
                }
            }
        }
        log
    }
}

impl SlidingWindowLog {
    fn entry(&self, now: Moment, kind: Kind) -> Entry {
        Entry { now_us: now.now_us, window_us: self.window_us(), grain_us: self.grain_us(), kind }
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
        self.index_of(at_us, grain_us).map_or(0, |index| self.list[index].sum - self.sum_before(index))
    }

    fn drop_before(&mut self, now_us: u64, window_us: u64) {
        for _ in 0..MOST_DROPPED {
            let Some(over) = self.list.pop_front_if(|run| run.at_us.saturating_add(window_us) <= now_us) else { break };
            self.dropped = over.sum;
        }
    }

    /// Moves tokens with a time after `now_us` to `now_us`.
    fn set_back(&mut self, now_us: u64, grain_us: u64) {
        let sum = self.sum();
        while self.list.pop_back_if(|run| run.at_us > now_us).is_some() {}
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
