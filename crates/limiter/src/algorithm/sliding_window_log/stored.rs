//! A log as its script stores it: the windows in use as texts, and the entries.

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
    /// Creates a log from its windows, and from entries in the order of their times; `None` if a window has another format
    /// or the entries do not follow each other.
    pub(crate) fn from_stored<'t>(windows: impl IntoIterator<Item = &'t str>, entries: &[StoredEntry]) -> Option<Self> {
        let windows = windows.into_iter().map(UsedWindow::from_stored).collect::<Option<Vec<_>>>()?;
        let windows = UsedWindows::from_stored(windows)?;
        let mut runs = Runs { dropped: entries.first()?.before, windows, ..Runs::default() };
        for entry in entries {
            let is_next = runs.sum() % WRAP == entry.before && runs.newest_us() < entry.at_us && entry.count > 0;
            let sum = runs.sum().checked_add(entry.count).filter(|_| is_next)?;
            runs.list.push_back(Run { at_us: entry.at_us, sum });
        }
        // The expiry is known to Redis.
        Some(Self { expires_at_us: u64::MAX, runs: Some(Box::new(runs)) })
    }

    /// Returns the windows and the entries to store.
    pub(crate) fn to_stored(&self) -> (Vec<String>, Vec<StoredEntry>) {
        let Some(runs) = self.runs.as_deref() else { return Default::default() };
        let entry = |(index, run): (usize, &Run)| {
            let before = runs.sum_before(index);
            StoredEntry { at_us: run.at_us, before: before % WRAP, count: run.sum - before }
        };
        let windows = runs.windows.iter().map(UsedWindow::to_stored).collect();
        (windows, runs.list.iter().enumerate().map(entry).collect())
    }

    /// Returns the time for which a rule in use needs an entry of `now_us`.
    pub(crate) fn kept_us(&self, now_us: u64, window_us: u64) -> u64 {
        self.runs.as_deref().map_or(window_us, |runs| runs.kept_us(now_us, window_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: u64 = 1 << 50;

    #[test]
    fn stored_entries_are_read_across_the_modulus() {
        let entries = [(5, WRAP - 3, 2), (9, WRAP - 1, 4), (10, 3, 1)].map(|(after_us, before, count)| StoredEntry {
            at_us: T + after_us,
            before,
            count,
        });
        let log = Log::from_stored([], &entries);
        assert_eq!(log.as_ref().map(Log::to_stored), Some((vec![], entries.to_vec())));
        assert_eq!(log.and_then(|log| log.runs).map(|runs| runs.used(T + 11, 5)), Some(5));
    }

    #[test]
    fn windows_are_stored_beside_the_entries() {
        let windows = UsedWindows::default().noted(10, 1_000_000, T).noted(5_000, 3_600_000_000, T);
        let list = [Run { at_us: T, sum: 7 }, Run { at_us: T + 1, sum: 9 }].into();
        let log = Log { expires_at_us: u64::MAX, runs: Some(Box::new(Runs { dropped: 4, list, windows })) };
        let (windows, entries) = log.to_stored();
        assert_eq!(windows, ["1000000:1125899906843:10", "3600000000:1125899906843:1001"]);
        assert_eq!(Log::from_stored(windows.iter().rev().map(String::as_str), &entries), Some(log));
        for wrong in ["1000000:7", "1000000:7:10:1", "1000000:7:1024", "9007199254740992:7:10", "0:7:10", "a:7:10"] {
            assert_eq!(Log::from_stored([wrong], &entries), None, "{wrong}");
        }
    }

    #[test]
    fn entries_that_do_not_follow_each_other_are_invalid() {
        let entry = |after_us, before, count| StoredEntry { at_us: T + after_us, before, count };
        for entries in
            [[entry(5, 0, 2), entry(6, 3, 1)], [entry(5, 0, 2), entry(5, 2, 1)], [entry(5, 0, 2), entry(6, 2, 0)]]
        {
            assert_eq!(Log::from_stored([], &entries), None, "{entries:?}");
        }
    }
}
