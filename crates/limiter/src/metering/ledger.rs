//! Ledger: counts in memory, one shard per thread.

use std::cell::Cell as ThreadCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use super::Counts;
use super::period::unix_secs;

/// Number of threads that count without lock contention.
const SHARDS: usize = 16;

/// Counts of all meters of a process, in memory.
///
/// With up to 16 threads, each thread has its own shard. The lock of a shard is contended only while a batch is taken.
/// The size is bounded: names beyond `max_cells` are counted under one name per scope. Sums stay correct; only the
/// attribution is lost.
#[derive(Debug)]
pub struct Ledger {
    shards: [Shard; SHARDS],
    max_cells: usize,
    /// Cells in memory, including those of batches not confirmed yet.
    cells: AtomicUsize,
    pub(super) tally: FlushTally,
}

/// Shard on cache lines of its own, since other threads write its neighbours.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<ShardState>);

#[derive(Debug, Default)]
struct ShardState {
    cells: Cells,
    counted: u64,
    overflowed: u64,
}

/// Counts by name, NUL, and the prefix of the fields.
pub(super) type Cells = HashMap<Box<[u8]>, Cell>;

#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) counts: Counts,
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "used by the flusher"))]
    pub(super) ttl_secs: u64,
    pub(super) expires_at: u64,
}

/// Counters of the flusher.
#[derive(Debug, Default)]
pub(super) struct FlushTally {
    pub(super) flushed: AtomicU64,
    pub(super) failed_sends: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) waiting: AtomicUsize,
}

/// Counters of a ledger since its start, and gauges of its current state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LedgerStatus {
    /// Requests counted.
    pub counted: u64,
    /// Requests among them counted under `#` because the ledger was full.
    pub overflowed: u64,
    /// Requests with counts in Redis.
    pub flushed: u64,
    /// Failed or late pipelines, which are sent again.
    pub failed_sends: u64,
    /// Requests with lost counts.
    pub lost: u64,
    /// Queued batches, currently.
    pub waiting_batches: usize,
    /// Cells in memory, currently.
    pub cells: usize,
}

/// Counts under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Name as in Redis: `request_counter.{<scope>.<key id>}.<period>`.
    pub name: String,
    /// Fields as in Redis, sorted by name, without zeros.
    pub fields: Vec<(String, u64)>,
}

// === impl Ledger ===

impl Ledger {
    /// Creates an empty ledger for `max_cells` cells, including those of queued batches. A cell takes about 200 bytes.
    #[must_use]
    pub fn new(max_cells: usize) -> Self {
        Self { shards: Default::default(), max_cells, cells: AtomicUsize::new(0), tally: FlushTally::default() }
    }

    /// Adds `cell` to the one of `key`. Returns false if the key is new and the ledger is full. A cell for `overflow` always
    /// has room: their number is bounded by scopes, fields and periods.
    pub(super) fn add(&self, key: &[u8], cell: Cell, overflow: bool) -> bool {
        let shard = &mut *self.thread_shard().lock();
        let requests = cell.counts.requests;
        if let Some(counted) = shard.cells.get_mut(key) {
            counted.counts.add(&cell.counts);
        } else if overflow || self.cells.load(Relaxed) < self.max_cells {
            self.cells.fetch_add(1, Relaxed);
            shard.cells.insert(key.into(), cell);
        } else {
            return false;
        }
        shard.counted += requests;
        shard.overflowed += if overflow { requests } else { 0 };
        true
    }

    /// Returns the shard of the current thread.
    fn thread_shard(&self) -> &Mutex<ShardState> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static MINE: ThreadCell<Option<usize>> = const { ThreadCell::new(None) };
        }
        // A thread that is ending has no thread-local storage any more and uses shard 0.
        let mine = MINE.try_with(|mine| {
            mine.get().unwrap_or_else(|| {
                let next = NEXT.fetch_add(1, Relaxed);
                mine.set(Some(next));
                next
            })
        });
        &self.shards[mine.unwrap_or(0) % SHARDS].0
    }

    /// Takes all cells, one shard at a time. The caller must [release](Self::release) them when they are sent.
    #[cfg(feature = "redis")]
    pub(super) fn take(&self) -> Vec<(Box<[u8]>, Cell)> {
        let taken = self.shards.iter().map(|shard| std::mem::take(&mut shard.0.lock().cells));
        taken.flatten().collect()
    }

    /// Returns the number of cells, including those of batches not confirmed yet.
    #[cfg(feature = "redis")]
    pub(super) fn cells(&self) -> usize {
        self.cells.load(Relaxed)
    }

    /// Returns the capacity.
    #[cfg(feature = "redis")]
    pub(super) fn max_cells(&self) -> usize {
        self.max_cells
    }

    /// Releases the room of `cells` that were taken.
    #[cfg(feature = "redis")]
    pub(super) fn release(&self, cells: usize) {
        self.cells.fetch_sub(cells, Relaxed);
    }

    /// Drops expired cells. Only needed without a flusher.
    pub fn sweep(&self) {
        self.sweep_at(unix_secs());
    }

    /// Drops the cells expired at `unix_secs`, in seconds since 1970.
    pub fn sweep_at(&self, unix_secs: u64) {
        for shard in &self.shards {
            let cells = &mut shard.0.lock().cells;
            let before = cells.len();
            cells.retain(|_, cell| cell.expires_at > unix_secs);
            self.cells.fetch_sub(before - cells.len(), Relaxed);
        }
    }

    /// Returns the counts in memory, sorted by name: all counts without a flusher, otherwise those since the last flush.
    #[must_use]
    pub fn usage(&self) -> Vec<Usage> {
        let mut names: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for shard in &self.shards {
            for (key, cell) in &shard.0.lock().cells {
                let (name, field) = split(key);
                let fields = names.entry(String::from_utf8_lossy(name).into_owned()).or_default();
                for (what, count) in cell.counts.named() {
                    let sum = fields.entry(format!("{}{what}", String::from_utf8_lossy(field))).or_default();
                    *sum = sum.saturating_add(count);
                }
            }
        }
        let usage = |(name, fields): (String, BTreeMap<String, u64>)| Usage {
            name,
            fields: fields.into_iter().filter(|&(_, count)| count > 0).collect(),
        };
        names.into_iter().map(usage).collect()
    }

    /// Returns the counters of the ledger.
    #[must_use]
    pub fn status(&self) -> LedgerStatus {
        let mut status = LedgerStatus {
            flushed: self.tally.flushed.load(Relaxed),
            failed_sends: self.tally.failed_sends.load(Relaxed),
            lost: self.tally.lost.load(Relaxed),
            waiting_batches: self.tally.waiting.load(Relaxed),
            cells: self.cells.load(Relaxed),
            ..LedgerStatus::default()
        };
        for shard in &self.shards {
            let shard = shard.0.lock();
            status.counted += shard.counted;
            status.overflowed += shard.overflowed;
        }
        status
    }
}

/// Splits the key of a cell into the name and the prefix of its fields.
pub(super) fn split(key: &[u8]) -> (&[u8], &[u8]) {
    match key.iter().position(|&byte| byte == 0) {
        Some(at) => (&key[..at], &key[at + 1..]),
        None => (key, b""),
    }
}
