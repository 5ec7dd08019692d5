//! Where counts gather: in memory, a shard a thread.

use std::cell::Cell as ThreadCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use super::Counts;

/// Threads that count without meeting each other.
const SHARDS: usize = 16;

/// Counts in memory, of all meters of a process.
///
/// Each thread counts into a shard of its own as long as there are no more than 16 of them, so that a lock is taken
/// which nobody else holds but for the moment in which a batch is taken. Bounded: names beyond `max_cells` are counted
/// under one name a scope, so that sums stay right and only the attribution is lost.
#[derive(Debug)]
pub struct Ledger {
    shards: [Shard; SHARDS],
    max_cells: usize,
    /// Cells here and in batches that have not landed yet.
    cells: AtomicUsize,
    pub(super) tally: FlushTally,
}

/// On cache lines of its own: neighbours are written by other threads.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<Page>);

#[derive(Debug, Default)]
struct Page {
    cells: Cells,
    counted: u64,
    overflowed: u64,
}

/// Counts by name, NUL, and the beginning of the fields.
pub(super) type Cells = HashMap<Box<[u8]>, Cell>;

#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) counts: Counts,
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only Redis is told"))]
    pub(super) ttl_secs: u64,
    expires_at: u64,
}

/// What became of batches.
#[derive(Debug, Default)]
pub(super) struct FlushTally {
    pub(super) flushed: AtomicU64,
    pub(super) failed_sends: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) waiting: AtomicUsize,
}

/// How a ledger is doing, since its start where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerStatus {
    /// Requests counted.
    pub counted: u64,
    /// Requests among them that were counted under `#`, for want of room.
    pub overflowed: u64,
    /// Requests whose counts are in Redis.
    pub flushed: u64,
    /// Pipelines that failed or were late, and are sent again.
    pub failed_sends: u64,
    /// Requests whose counts will never be in Redis.
    pub lost: u64,
    /// Batches that wait to land, now.
    pub waiting_batches: usize,
    /// Cells in memory, now.
    pub cells: usize,
}

/// What was counted under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// As in Redis: `request_counter.{<scope>.<key id>}.<period>`.
    pub name: String,
    /// As in Redis, sorted by field; those of 0 left out.
    pub fields: Vec<(String, u64)>,
}

// === impl Ledger ===

impl Ledger {
    /// An empty ledger that tells `max_cells` cells apart, those that wait to be sent included. A cell takes some 200
    /// bytes.
    #[must_use]
    pub fn new(max_cells: usize) -> Self {
        Self { shards: Default::default(), max_cells, cells: AtomicUsize::new(0), tally: FlushTally::default() }
    }

    /// Adds to the cell `key`; `false` when it is a new one and there is no room.
    pub(super) fn add(&self, key: &[u8], counts: &Counts, ttl_secs: u64, expires_at: u64) -> bool {
        let page = &mut *self.page().lock();
        if let Some(cell) = page.cells.get_mut(key) {
            cell.counts.add(counts);
        } else if self.cells.load(Relaxed) < self.max_cells {
            self.insert(page, key, counts, ttl_secs, expires_at);
        } else {
            return false;
        }
        page.counted += counts.requests;
        true
    }

    /// Adds to a cell that there is always room for: as many as scopes, fields and periods.
    pub(super) fn add_overflow(&self, key: &[u8], counts: &Counts, ttl_secs: u64, expires_at: u64) {
        let page = &mut *self.page().lock();
        match page.cells.get_mut(key) {
            Some(cell) => cell.counts.add(counts),
            None => self.insert(page, key, counts, ttl_secs, expires_at),
        }
        page.counted += counts.requests;
        page.overflowed += counts.requests;
    }

    fn insert(&self, page: &mut Page, key: &[u8], counts: &Counts, ttl_secs: u64, expires_at: u64) {
        self.cells.fetch_add(1, Relaxed);
        page.cells.insert(key.into(), Cell { counts: *counts, ttl_secs, expires_at });
    }

    /// The calling thread's page.
    fn page(&self) -> &Mutex<Page> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static MINE: ThreadCell<Option<usize>> = const { ThreadCell::new(None) };
        }
        // Counted even while a thread ends and its locals are gone.
        let mine = MINE.try_with(|mine| {
            mine.get().unwrap_or_else(|| {
                let next = NEXT.fetch_add(1, Relaxed);
                mine.set(Some(next));
                next
            })
        });
        &self.shards[mine.unwrap_or(0) % SHARDS].0
    }

    /// Takes every cell, a shard at a time. Whoever takes them [releases](Self::release) them when they are gone.
    #[cfg(feature = "redis")]
    pub(super) fn take(&self) -> Vec<(Box<[u8]>, Cell)> {
        let taken = self.shards.iter().map(|shard| std::mem::take(&mut shard.0.lock().cells));
        taken.flatten().collect()
    }

    /// Cells here and in batches that have not landed yet.
    #[cfg(feature = "redis")]
    pub(super) fn cells(&self) -> usize {
        self.cells.load(Relaxed)
    }

    /// Cells that are told apart.
    #[cfg(feature = "redis")]
    pub(super) fn max_cells(&self) -> usize {
        self.max_cells
    }

    /// Gives back the room of `cells` that were taken.
    #[cfg(feature = "redis")]
    pub(super) fn release(&self, cells: usize) {
        self.cells.fetch_sub(cells, Relaxed);
    }

    /// Drops what has been kept for as long as it shall be. Only needed where nothing is flushed.
    pub fn sweep(&self) {
        self.sweep_at(super::meter::unix_secs());
    }

    /// The same at another time, in seconds since 1970.
    pub fn sweep_at(&self, unix_secs: u64) {
        for shard in &self.shards {
            let cells = &mut shard.0.lock().cells;
            let before = cells.len();
            cells.retain(|_, cell| cell.expires_at > unix_secs);
            self.cells.fetch_sub(before - cells.len(), Relaxed);
        }
    }

    /// What has been counted and is in memory: all of it where nothing is flushed, what came since the last flush
    /// otherwise. Sorted by name.
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

    /// How it is doing.
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
            let page = shard.0.lock();
            status.counted += page.counted;
            status.overflowed += page.overflowed;
        }
        status
    }
}

/// A cell's name and the beginning of its fields.
pub(super) fn split(key: &[u8]) -> (&[u8], &[u8]) {
    match key.iter().position(|&byte| byte == 0) {
        Some(at) => (&key[..at], &key[at + 1..]),
        None => (key, b""),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::metering::{Dimensions, Meter, MeterSettings, Period};

    fn meter(ledger: &Arc<Ledger>) -> Meter {
        let settings = MeterSettings {
            scope: "r".into(),
            route: "r".into(),
            dimensions: Dimensions { route: false, method: true, status: false },
            period: Period::Day,
            ttl: Duration::from_secs(2 * 86_400),
            hash_ids: false,
        };
        Meter::new(Arc::clone(ledger), &settings)
    }

    fn count(meter: &Meter, id: &str) {
        let counts = Counts { requests: 1, bytes_in: 2, bytes_out: 0 };
        meter.count_at(meter.name(id.as_bytes()), "GET", 200, &counts, 1_000);
    }

    #[test]
    fn threads_are_summed() {
        let ledger = Arc::new(Ledger::new(1_000));
        std::thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| (0..250).for_each(|_| count(&meter(&ledger), "a")));
            }
        });
        let fields = [("GET.bytes_in".to_owned(), 20_000), ("GET.requests".to_owned(), 10_000)];
        let name = "request_counter.{r.a}.1970-01-01".to_owned();
        assert_eq!(ledger.usage(), [Usage { name, fields: fields.into() }]);
        assert_eq!(ledger.status().counted, 10_000);
    }

    #[test]
    fn beyond_the_bound_attribution_is_lost_and_no_count() {
        let ledger = Arc::new(Ledger::new(10));
        let meter = meter(&ledger);
        (0..1_000).for_each(|id| count(&meter, &id.to_string()));
        (0..10).for_each(|id| count(&meter, &id.to_string()));
        let status = ledger.status();
        assert_eq!((status.counted, status.overflowed, status.cells), (1_010, 990, 11));
        let usage = ledger.usage();
        let requests: u64 = usage.iter().map(|usage| usage.fields[1].1).sum();
        assert_eq!((usage.len(), requests), (11, 1_010));
        assert_eq!(usage[0].name, "request_counter.{r.#}.1970-01-01");
        assert_eq!(usage[1].fields[1], ("GET.requests".to_owned(), 2), "who was there before goes on");
    }

    #[test]
    fn what_is_not_flushed_is_kept_for_its_time() {
        let ledger = Arc::new(Ledger::new(1));
        count(&meter(&ledger), "a");
        ledger.sweep_at(1_000 + 2 * 86_400 - 1);
        assert_eq!(ledger.status().cells, 1);
        ledger.sweep_at(1_000 + 2 * 86_400);
        assert_eq!((ledger.status().cells, ledger.usage()), (0, vec![]));
        count(&meter(&ledger), "b");
        assert_eq!(ledger.status().overflowed, 0, "there is room again");
    }
}
