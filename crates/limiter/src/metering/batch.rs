//! Batch: counts taken from the ledger at once, grouped by their hash in Redis.

use tokio::time::Instant;

use super::Counts;
use super::ledger::{Cell, split};

/// Cells that are sent under one number.
#[derive(Debug)]
pub(super) struct Batch {
    /// Number of the batch; greater than that of the previous batch.
    pub(super) number: u64,
    /// Deltas that Redis has not confirmed yet.
    pub(super) deltas: Vec<Delta>,
    /// Time of the first attempt.
    pub(super) sent_at: Option<Instant>,
}

/// Counts that are added to one hash.
#[derive(Debug)]
pub(super) struct Delta {
    pub(super) name: Box<[u8]>,
    pub(super) ttl_secs: u64,
    /// Counts by the prefix of their fields.
    pub(super) fields: Vec<(Box<[u8]>, Counts)>,
    /// Number of cells in the delta.
    pub(super) cells: usize,
}

impl Batch {
    /// Creates batch `number` and merges cells of the same name into one delta.
    pub(super) fn new(number: u64, mut cells: Vec<(Box<[u8]>, Cell)>) -> Self {
        cells.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let mut deltas: Vec<Delta> = Vec::new();
        for (key, cell) in &cells {
            let (name, field) = split(key);
            match deltas.last_mut() {
                Some(delta) if *delta.name == *name => delta.add(field, cell),
                _ => {
                    let mut delta = Delta { name: name.into(), ttl_secs: 1, fields: Vec::new(), cells: 0 };
                    delta.add(field, cell);
                    deltas.push(delta);
                }
            }
        }
        Self { number, deltas, sent_at: None }
    }

    /// Returns the number of cells not confirmed yet.
    pub(super) fn cells(&self) -> usize {
        self.deltas.iter().map(|delta| delta.cells).sum()
    }

    /// Returns the number of requests not confirmed yet.
    pub(super) fn requests(&self) -> u64 {
        self.deltas.iter().map(Delta::requests).sum()
    }
}

impl Delta {
    /// Adds a cell. Its field equals that of the last cell (from another shard) or follows it.
    fn add(&mut self, field: &[u8], cell: &Cell) {
        self.ttl_secs = self.ttl_secs.max(cell.ttl_secs);
        self.cells += 1;
        match self.fields.last_mut() {
            Some((last, counts)) if **last == *field => counts.add(&cell.counts),
            _ => self.fields.push((field.into(), cell.counts)),
        }
    }

    pub(super) fn requests(&self) -> u64 {
        self.fields.iter().map(|(_, counts)| counts.requests).sum()
    }
}
