//! Sorts entries by time, within a bounded buffer.

use std::collections::{BTreeMap, VecDeque};

use super::log_entry::{LogEntry, LogTime};
use super::source::Inputs;

/// Number of entries that are held back to be sorted. Lines are written at the end of a response, and in chunks per
/// worker, so that a line may follow later ones.
const HELD_ENTRIES: usize = 65_536;

/// Number of held entries that a new one may precede in the sorted run.
const MAX_SHIFT: usize = 64;

/// Reader of the entries of logs, sorted by time within a buffer of `HELD_ENTRIES`.
pub struct Ordered {
    /// The logs.
    pub inputs: Inputs,
    /// Held entries in their order. Most lines follow the latest, or precede a few.
    sorted: VecDeque<(Key, Box<LogEntry>)>,
    /// Held entries that would have moved too many others.
    others: BTreeMap<Key, Box<LogEntry>>,
    has_ended: bool,
    /// Number of entries read, which keeps the order of equal ones.
    read: u64,
    latest: LogTime,
}

/// Time of an entry, and its number among the entries read.
type Key = (LogTime, u64);

impl Ordered {
    /// Orders the entries of `inputs`.
    pub fn new(inputs: Inputs) -> Self {
        let (sorted, others) = (VecDeque::new(), BTreeMap::new());
        Self { inputs, sorted, others, has_ended: false, read: 0, latest: LogTime::default() }
    }

    /// Returns the next entry. Its times never decrease: an entry that comes too late gets the time of the one before.
    pub fn next_entry(&mut self) -> Option<Box<LogEntry>> {
        self.fill();
        let mut entry = self.pop()?;
        let late_us = self.latest.us.saturating_sub(entry.at().us);
        if late_us > 0 {
            let stats = &mut self.inputs.stats;
            stats.out_of_order += 1;
            #[expect(clippy::cast_precision_loss, reason = "shown in seconds")]
            let secs = late_us as f64 / 1e6;
            stats.out_of_order_secs = stats.out_of_order_secs.max(secs);
            entry.move_to(self.latest.us);
        }
        self.latest = entry.at().max(self.latest);
        Some(entry)
    }

    /// Returns the time of the next entry.
    pub fn next_at(&mut self) -> Option<LogTime> {
        self.fill();
        let sorted = self.sorted.front().map(|(key, _)| key);
        let next = sorted.into_iter().chain(self.others.keys().next()).min();
        next.map(|(time, _)| (*time).max(self.latest))
    }

    /// Takes the memory of an entry that is no longer needed.
    pub fn recycle(&mut self, entry: Box<LogEntry>) {
        self.inputs.recycle(entry);
    }

    fn fill(&mut self) {
        while !self.has_ended && self.sorted.len() + self.others.len() < HELD_ENTRIES {
            match self.inputs.next_entry() {
                Some(entry) => {
                    self.push((entry.at(), self.read), entry);
                    self.read += 1;
                }
                None => self.has_ended = true,
            }
        }
    }

    fn push(&mut self, key: Key, entry: Box<LogEntry>) {
        let later = self.sorted.iter().rev().take(MAX_SHIFT + 1).take_while(|(other, _)| *other > key).count();
        if later > MAX_SHIFT {
            self.others.insert(key, entry);
        } else {
            self.sorted.insert(self.sorted.len() - later, (key, entry));
        }
    }

    fn pop(&mut self) -> Option<Box<LogEntry>> {
        let other = self.others.first_entry();
        match other.filter(|other| self.sorted.front().is_none_or(|(first, _)| other.key() < first)) {
            Some(other) => Some(other.remove()),
            None => self.sorted.pop_front().map(|(_, entry)| entry),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::map::Map;
    use super::*;

    #[test]
    fn entries_far_from_their_place_are_sorted_too() {
        let mut ordered = Ordered::new(Inputs::open(&[], Map::default()).unwrap());
        // Blocks of lines, each block earlier than the one before, and an even number at the end.
        let times = (0..5000_u64).map(|n| 5000 - n / 100 * 100 + n % 100).chain([42, 1]);
        for (read, us) in (0..).zip(times.clone()) {
            let entry = Box::new(LogEntry { time_us: us, ..LogEntry::default() });
            ordered.push((entry.at(), read), entry);
        }
        assert!(!ordered.others.is_empty() && ordered.sorted.len() > 99);
        ordered.has_ended = true;
        let mut expected: Vec<_> = times.collect();
        expected.sort_unstable();
        let times: Vec<_> = std::iter::from_fn(|| ordered.next_entry()).map(|entry| entry.time_us).collect();
        assert_eq!((times, ordered.inputs.stats.out_of_order), (expected, 0));
    }

    #[test]
    fn lines_are_replayed_in_the_order_of_their_decisions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let line = |target: &str, decided: u64, order: &str| {
            format!("{{\"time\":\"2026-11-22T10:00:00Z\",\"target\":\"{target}\",\"decided_us\":[{decided}]{order}}}\n")
        };
        let lines = [
            line("/4", 1_795_341_600_000_009, ",\"decided_order\":[2]"),
            line("/1", 1_795_341_600_000_001, ",\"decided_order\":[3]"),
            line("/3", 1_795_341_600_000_009, ",\"decided_order\":[1]"),
            line("/2", 1_795_341_600_000_009, ""),
        ];
        std::fs::write(&path, lines.concat()).unwrap();
        let mut ordered = Ordered::new(Inputs::open(&[path], Map::default()).unwrap());
        let targets: Vec<_> = std::iter::from_fn(|| ordered.next_entry()).map(|entry| entry.target()).collect();
        assert_eq!(targets, ["/1", "/2", "/3", "/4"]);
        assert_eq!(ordered.inputs.stats.out_of_order, 0);
    }
}
