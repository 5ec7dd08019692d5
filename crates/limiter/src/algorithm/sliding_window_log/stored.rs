//! Entries of a log as its script stores them: a time, the tokens consumed before the entry, and the tokens of the entry.

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
        let mut runs = Runs { dropped: entries.first()?.before, ..Runs::default() };
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
        runs.list.iter().enumerate().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_entries_are_read_across_the_modulus() {
        let entries = [(5, WRAP - 3, 2), (9, WRAP - 1, 4), (10, 3, 1)].map(|(at_us, before, count)| StoredEntry {
            at_us,
            before,
            count,
        });
        let log = Log::from_stored(&entries);
        assert_eq!(log.as_ref().map(Log::to_stored), Some(entries.to_vec()));
        assert_eq!(log.and_then(|log| log.runs).map(|runs| runs.used(11, 5)), Some(5));
    }

    #[test]
    fn entries_that_do_not_follow_each_other_are_invalid() {
        let entry = |at_us, before, count| StoredEntry { at_us, before, count };
        for entries in
            [[entry(5, 0, 2), entry(6, 3, 1)], [entry(5, 0, 2), entry(5, 2, 1)], [entry(5, 0, 2), entry(6, 2, 0)]]
        {
            assert_eq!(Log::from_stored(&entries), None, "{entries:?}");
        }
    }
}
