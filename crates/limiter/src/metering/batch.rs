//! What is taken from the ledger at once, by the hash that it goes to.

use tokio::time::Instant;

use super::Counts;
use super::ledger::{Cell, split};

/// Cells that are sent under one number.
#[derive(Debug)]
pub(super) struct Batch {
    /// Above that of the batch before it.
    pub(super) number: u64,
    /// What has not landed yet.
    pub(super) deltas: Vec<Delta>,
    /// When it was first sent.
    pub(super) sent_at: Option<Instant>,
}

/// What is added to one hash.
#[derive(Debug)]
pub(super) struct Delta {
    pub(super) name: Box<[u8]>,
    pub(super) ttl_secs: u64,
    /// Counts by the beginning of their fields.
    pub(super) fields: Vec<(Box<[u8]>, Counts)>,
    /// Cells that it was made of.
    pub(super) cells: usize,
}

impl Batch {
    /// `cells` under `number`, those of one name together.
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

    /// The cells that have not landed yet.
    pub(super) fn cells(&self) -> usize {
        self.deltas.iter().map(|delta| delta.cells).sum()
    }

    /// The requests that have not landed yet.
    pub(super) fn requests(&self) -> u64 {
        self.deltas.iter().map(Delta::requests).sum()
    }
}

impl Delta {
    /// Adds a cell whose field is that of the last one, shards being summed, or comes behind it.
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
