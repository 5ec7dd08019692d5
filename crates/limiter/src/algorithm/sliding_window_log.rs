//! Sliding windows, exact: a log of what was taken.
//!
//! What was taken at `t` counts while `now < t + window`. It is dropped by the first write after that, so a window that
//! grows finds only what had not been dropped under the shorter one. What seems to have been taken in the future, since
//! the clock was set back, counts as taken now: it holds nobody for longer than a window.

use std::collections::VecDeque;

use super::{Algorithm, Answer, Moment, State};
use crate::rule::SlidingWindowLog;

/// What was taken within the last window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    rests_at_us: u64,
    /// Boxed, so that a key that takes one request at a time does not pay in its slot for one that takes thousands.
    runs: Option<Box<Runs>>,
}

/// A change of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    now_us: u64,
    window_us: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// So much is taken; nothing, if the log is only put right.
    Take(u64),
    /// So much of what was taken at that time is given back.
    GiveBack { taken_at_us: u64, count: u64 },
}

/// What was taken, by time, each with the sum up to it, so that nothing need be added up to decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Runs {
    /// The sum of all that was dropped.
    dropped: u64,
    list: VecDeque<Run>,
}

/// All that was taken within a microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    at_us: u64,
    sum: u64,
}

impl Algorithm for SlidingWindowLog {
    type State = Log;
    type Change = Entry;

    /// A denial writes only when the clock was set back.
    fn decide(&self, state: Option<&Log>, now: Moment, cost: u64) -> (Answer, Option<Entry>) {
        let runs = state.and_then(|log| log.runs.as_deref());
        let used = runs.map_or(0, |runs| runs.used(now.now_us, self.window_us()));
        let left = self.limit().saturating_sub(used);
        let is_ahead = runs.is_some_and(|runs| runs.newest_us() > now.now_us);
        // What was taken at `at_us` counts for so long.
        let counts_us = |at_us: u64| at_us.min(now.now_us).saturating_add(self.window_us()) - now.now_us;
        let over_in_us = if used > 0 { runs.map_or(0, |runs| counts_us(runs.newest_us())) } else { 0 };
        if cost <= left {
            let reset_after_us = if cost > 0 { self.window_us() } else { over_in_us };
            let change = (cost > 0 || is_ahead).then(|| self.entry(now, Kind::Take(cost)));
            return (Answer::allowed(left - cost, reset_after_us, now), change);
        }
        // Of what counts, all but the newest `limit - cost` must go.
        let kept = self.limit().checked_sub(cost);
        let retry_after_us = kept.zip(runs).map(|(kept, runs)| counts_us(runs.nth_newest_us(kept)));
        let change = is_ahead.then(|| self.entry(now, Kind::Take(0)));
        (Answer::denied(left, retry_after_us, over_in_us, now), change)
    }

    /// Gives back only what is in the log under that very microsecond.
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
        let taken = if counts { runs?.taken_at(counted_at_us) } else { 0 };
        let count = more.unsigned_abs().min(taken);
        (count > 0).then(|| self.entry(now, Kind::GiveBack { taken_at_us: counted_at_us, count }))
    }

    fn apply(state: Option<Log>, change: Entry) -> Log {
        let mut log = state.unwrap_or(Log::VACANT);
        let runs = log.runs.get_or_insert_default();
        match change.kind {
            Kind::Take(count) => {
                runs.drop_before(change.now_us, change.window_us);
                runs.set_back(change.now_us);
                runs.take(change.now_us, count);
                log.rests_at_us = change.now_us.saturating_add(change.window_us);
            }
            Kind::GiveBack { taken_at_us, count } => {
                runs.give_back(taken_at_us, count);
                if runs.list.is_empty() {
                    log.rests_at_us = change.now_us.max(1);
                }
            }
        }
        log
    }
}

impl SlidingWindowLog {
    fn entry(&self, now: Moment, kind: Kind) -> Entry {
        Entry { now_us: now.now_us, window_us: self.window_us(), kind }
    }
}

impl Runs {
    fn newest_us(&self) -> u64 {
        self.list.back().map_or(0, |run| run.at_us)
    }

    /// The sum of all that was ever taken and not given back.
    fn sum(&self) -> u64 {
        self.list.back().map_or(self.dropped, |run| run.sum)
    }

    /// The sum of all runs before that one.
    fn sum_before(&self, index: usize) -> u64 {
        index.checked_sub(1).and_then(|before| self.list.get(before)).map_or(self.dropped, |run| run.sum)
    }

    /// What of it counts at `now_us`.
    fn used(&self, now_us: u64, window_us: u64) -> u64 {
        let over = self.list.partition_point(|run| run.at_us.saturating_add(window_us) <= now_us);
        self.sum() - self.sum_before(over)
    }

    /// When the token that `newer` followed was taken.
    fn nth_newest_us(&self, newer: u64) -> u64 {
        let sum = self.sum() - newer;
        self.list.get(self.list.partition_point(|run| run.sum < sum)).map_or(0, |run| run.at_us)
    }

    /// How much was taken at that time.
    fn taken_at(&self, at_us: u64) -> u64 {
        match self.list.binary_search_by_key(&at_us, |run| run.at_us) {
            Ok(index) => self.list[index].sum - self.sum_before(index),
            Err(_) => 0,
        }
    }

    fn drop_before(&mut self, now_us: u64, window_us: u64) {
        while let Some(over) = self.list.pop_front_if(|run| run.at_us.saturating_add(window_us) <= now_us) {
            self.dropped = over.sum;
        }
    }

    /// Counts what was taken after `now_us` as taken then.
    fn set_back(&mut self, now_us: u64) {
        let sum = self.sum();
        while self.list.pop_back_if(|run| run.at_us > now_us).is_some() {}
        self.take(now_us, sum - self.sum());
    }

    fn take(&mut self, now_us: u64, count: u64) {
        let sum = self.sum() + count;
        match self.list.back_mut() {
            _ if count == 0 => {}
            Some(newest) if newest.at_us == now_us => newest.sum = sum,
            _ => self.list.push_back(Run { at_us: now_us, sum }),
        }
    }

    fn give_back(&mut self, at_us: u64, count: u64) {
        let Ok(index) = self.list.binary_search_by_key(&at_us, |run| run.at_us) else { return };
        self.list.range_mut(index..).for_each(|run| run.sum -= count);
        if self.list[index].sum == self.sum_before(index) {
            self.list.remove(index);
        }
    }
}

impl State for Log {
    const VACANT: Self = Self { rests_at_us: 0, runs: None };

    #[inline]
    fn rests_at_us(&self) -> u64 {
        self.rests_at_us
    }

    fn owned_bytes(&self) -> usize {
        self.runs.as_ref().map_or(0, |runs| size_of::<Runs>() + runs.list.capacity() * size_of::<Run>())
    }
}

#[cfg(test)]
mod tests;
