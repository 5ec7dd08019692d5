//! Entries in the order of time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::entry::{Entry, LogTime};
use super::source::Inputs;

/// Number of entries that are held back to be sorted. Lines are written at the end of a response, and in chunks per
/// worker, so that a line may follow later ones.
const HELD_ENTRIES: usize = 65_536;

/// Entries of logs in the order of time, as far as `HELD_ENTRIES` allow.
pub struct Ordered {
    /// The logs.
    pub inputs: Inputs,
    held: BinaryHeap<Held>,
    has_ended: bool,
    /// Number of entries read, which keeps the order of equal ones.
    read: u64,
    latest: LogTime,
}

struct Held {
    /// Time, and the number among the entries read.
    key: (LogTime, u64),
    entry: Box<Entry>,
}

impl Ordered {
    /// Orders the entries of `inputs`.
    #[must_use]
    pub fn new(inputs: Inputs) -> Self {
        Self { inputs, held: BinaryHeap::new(), has_ended: false, read: 0, latest: LogTime::default() }
    }

    /// Returns the next entry. Its times never decrease: an entry that comes too late gets the time of the one before.
    pub fn next_entry(&mut self) -> Option<Box<Entry>> {
        self.fill();
        let mut entry = self.held.pop()?.entry;
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
}

impl Ordered {
    /// Returns the time of the next entry.
    pub fn next_at(&mut self) -> Option<LogTime> {
        self.fill();
        self.held.peek().map(|held| held.entry.at().max(self.latest))
    }

    fn fill(&mut self) {
        while !self.has_ended && self.held.len() < HELD_ENTRIES {
            match self.inputs.next_entry() {
                Some(entry) => {
                    self.held.push(Held { key: (entry.at(), self.read), entry });
                    self.read += 1;
                }
                None => self.has_ended = true,
            }
        }
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    /// Orders the earliest entry as the greatest: the heap returns the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::map::Map;
    use super::*;

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
