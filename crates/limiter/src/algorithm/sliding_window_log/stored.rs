//! Entries of a log as its script stores them: a time, the tokens consumed before the entry, and the tokens of the entry.
//!
//! The windows in use stand before the entries in the form of entries, so that former versions take them for old ones:
//! the length is the time, and the use is the number of tokens.

use super::windows::{UsedWindow, UsedWindows};
use super::{Log, Run, Runs};

/// Modulus of the stored numbers of tokens.
const WRAP: u64 = 1 << 52;

/// Entry of a log in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredEntry {
    /// Time of the last request, unix time in microseconds.
    pub(crate) at_us: u64,
    /// Tokens consumed before, modulo 2^52.
    pub(crate) before: u64,
    /// Tokens of the entry.
    pub(crate) count: u64,
}

impl Log {
    /// Creates a log from entries in the order of their times; `None` if they do not follow each other.
    pub(crate) fn from_stored(entries: &[StoredEntry]) -> Option<Self> {
        let (windows, entries) = entries.split_at(Self::windows_of(entries));
        let window = |entry: &StoredEntry| UsedWindow { length_us: entry.at_us, use_and_limit: entry.count };
        let windows = UsedWindows::from_stored(&windows.iter().map(window).collect::<Vec<_>>())?;
        let mut runs = Runs { dropped: entries.first()?.before, windows, ..Runs::default() };
        for entry in entries {
            let is_next = runs.sum() % WRAP == entry.before && runs.newest_us() < entry.at_us && entry.count > 0;
            let sum = runs.sum().checked_add(entry.count).filter(|_| is_next)?;
            runs.list.push_back(Run { at_us: entry.at_us, sum });
        }
        // The expiry is known to Redis.
        Some(Self { expires_at_us: u64::MAX, runs: Some(Box::new(runs)) })
    }

    /// Returns the entries to store.
    pub(crate) fn to_stored(&self) -> Vec<StoredEntry> {
        let Some(runs) = self.runs.as_deref() else { return Vec::new() };
        let entry = |(index, run): (usize, &Run)| {
            let before = runs.sum_before(index);
            StoredEntry { at_us: run.at_us, before: before % WRAP, count: run.sum - before }
        };
        let entries: Vec<_> = runs.list.iter().enumerate().map(entry).collect();
        let mut first = entries.first().map_or(0, |entry| entry.before);
        let window = |window: UsedWindow| {
            let count = window.use_and_limit;
            first = first.wrapping_sub(count) % WRAP;
            StoredEntry { at_us: window.length_us, before: first, count }
        };
        let mut stored: Vec<_> = runs.windows.iter().rev().map(window).collect();
        stored.reverse();
        stored.extend(entries);
        stored
    }

    /// Returns the number of windows at the beginning of stored entries.
    pub(crate) fn windows_of(entries: &[StoredEntry]) -> usize {
        entries.partition_point(|entry| entry.at_us <= UsedWindow::MAX_LENGTH_US)
    }

    /// Returns the time for which a rule in use needs an entry of `now_us`.
    pub(crate) fn kept_us(&self, now_us: u64, window_us: u64) -> u64 {
        self.runs.as_deref().map_or(window_us, |runs| runs.kept_us(now_us, window_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time later than every length of a window.
    const T: u64 = 1 << 50;

    #[test]
    fn stored_entries_are_read_across_the_modulus() {
        let entries = [(5, WRAP - 3, 2), (9, WRAP - 1, 4), (10, 3, 1)].map(|(after_us, before, count)| StoredEntry {
            at_us: T + after_us,
            before,
            count,
        });
        let log = Log::from_stored(&entries);
        assert_eq!(log.as_ref().map(Log::to_stored), Some(entries.to_vec()));
        assert_eq!(log.and_then(|log| log.runs).map(|runs| runs.used(T + 11, 5)), Some(5));
    }

    #[test]
    fn windows_are_stored_as_a_chain_before_the_entries() {
        let windows = UsedWindows::default().noted(10, 1_000_000, T).noted(5_000, 3_600_000_000, T);
        let list = [Run { at_us: T, sum: 7 }, Run { at_us: T + 1, sum: 9 }].into();
        let log = Log { expires_at_us: u64::MAX, runs: Some(Box::new(Runs { dropped: 4, list, windows })) };
        let stored = log.to_stored();
        assert_eq!(stored.iter().map(|entry| entry.at_us).collect::<Vec<_>>(), [1_000_000, 3_600_000_000, T, T + 1]);
        let follows = |pair: &[StoredEntry]| (pair[0].before + pair[0].count) % WRAP == pair[1].before;
        assert!(stored.windows(2).all(follows), "{stored:?}");
        assert_eq!(Log::from_stored(&stored), Some(log));
    }

    #[test]
    fn entries_that_do_not_follow_each_other_are_invalid() {
        let entry = |after_us, before, count| StoredEntry { at_us: T + after_us, before, count };
        for entries in
            [[entry(5, 0, 2), entry(6, 3, 1)], [entry(5, 0, 2), entry(5, 2, 1)], [entry(5, 0, 2), entry(6, 2, 0)]]
        {
            assert_eq!(Log::from_stored(&entries), None, "{entries:?}");
        }
    }
}
