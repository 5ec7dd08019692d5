//! Shard: the states behind one lock.

use super::table::{KeyHash, Table};
use crate::algorithm::State;
use crate::algorithm::fixed_window::Window;
use crate::algorithm::leaky_bucket::QueueState;
use crate::algorithm::quota::QuotaState;
use crate::algorithm::sliding_window_counter::Counters;
use crate::algorithm::sliding_window_log::Log;
use crate::algorithm::token_bucket::Bucket;
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};

/// Shortest time between two sweeps of a shard for new keys of a full store. It bounds the scans during a flood of keys.
const SWEEP_AGAIN_AFTER_US: u64 = 100_000;

/// Smallest number of new keys between two sweeps that are due to new keys.
const MIN_INSERTS: usize = 256;

/// Largest apparent step back of the clock that is explained by waiting for the lock. A larger step means that the
/// clock was set back.
const OVERTAKEN_WITHIN_US: u64 = 1_000_000;

/// Lock and tables, aligned to two cache lines since processors prefetch in pairs.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Shard(Mutex<States>);

/// One table for each type of state.
#[derive(Default)]
pub(super) struct States {
    buckets: Table<Bucket>,
    windows: Table<Window>,
    logs: Table<Log>,
    counters: Table<Counters>,
    quotas: Table<QuotaState>,
    queues: Table<QueueState>,
    swept_at_us: Option<u64>,
    /// New keys since the last sweep.
    inserts: usize,
    /// Slots of all tables after the last sweep. As many new keys make the next sweep due.
    slots_swept: usize,
    /// Latest time of a decision in this shard.
    latest_us: u64,
}

/// Type of state that has a table.
pub(super) trait Stored: State {
    fn table(states: &mut States) -> &mut Table<Self>;
}

impl Stored for Bucket {
    #[inline]
    fn table(states: &mut States) -> &mut Table<Self> {
        &mut states.buckets
    }
}

impl Stored for Window {
    #[inline]
    fn table(states: &mut States) -> &mut Table<Self> {
        &mut states.windows
    }
}

impl Stored for Log {
    #[inline]
    fn table(states: &mut States) -> &mut Table<Self> {
        &mut states.logs
    }
}

impl Stored for Counters {
    #[inline]
    fn table(states: &mut States) -> &mut Table<Self> {
        &mut states.counters
    }
}

impl Stored for QuotaState {
    #[inline]
    fn table(states: &mut States) -> &mut Table<Self> {
        &mut states.quotas
    }
}

impl Stored for QueueState {
    #[inline]
    fn table(states: &mut States) -> &mut Table<Self> {
        &mut states.queues
    }
}

impl Shard {
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, States> {
        self.0.lock()
    }
}

impl States {
    /// Returns the time of a decision that read the clock before it took the lock.
    ///
    /// If a thread with a later time took the lock first, that time is returned, so time never runs back for a key.
    #[inline]
    pub(super) fn time(&mut self, now_us: u64) -> u64 {
        if self.latest_us.wrapping_sub(now_us) > OVERTAKEN_WITHIN_US {
            self.latest_us = now_us;
        }
        self.latest_us
    }

    #[inline]
    pub(super) fn table<S: Stored>(&mut self) -> &mut Table<S> {
        S::table(self)
    }

    /// Inserts the state of a new key. `len` counts the keys of all shards.
    ///
    /// Sweeps once per as many new keys as there are slots, so that expired states do not accumulate. Returns the state
    /// if `len` has reached `max_keys` and no expired state can be dropped.
    pub(super) fn insert<S: Stored>(
        &mut self,
        hash: KeyHash,
        state: S,
        now_us: u64,
        len: &AtomicUsize,
        max_keys: usize,
    ) -> Result<(), S> {
        self.inserts += 1;
        if self.inserts > self.slots_swept.max(MIN_INSERTS) {
            self.sweep(now_us, len);
        }
        let Err(state) = self.table().replace_expired(hash, state, now_us) else { return Ok(()) };
        if !reserve(len, max_keys) {
            let rested = self.swept_at_us.is_none_or(|at| now_us.abs_diff(at) >= SWEEP_AGAIN_AFTER_US);
            if !rested {
                return Err(state);
            }
            self.sweep(now_us, len);
            if !reserve(len, max_keys) {
                return Err(state);
            }
        }
        if self.table::<S>().must_grow() {
            self.sweep(now_us, len);
            self.table::<S>().make_room();
        }
        self.table().insert_new(hash, state);
        Ok(())
    }

    /// Drops expired states and shrinks the tables to the others.
    pub(super) fn sweep(&mut self, now_us: u64, len: &AtomicUsize) {
        self.swept_at_us = Some(now_us);
        self.inserts = 0;
        let dropped = self.buckets.sweep(now_us)
            + self.windows.sweep(now_us)
            + self.logs.sweep(now_us)
            + self.counters.sweep(now_us)
            + self.queues.sweep(now_us)
            + self.quotas.sweep(now_us);
        len.fetch_sub(dropped, Ordering::Relaxed);
        self.slots_swept = self.buckets.slots()
            + self.windows.slots()
            + self.logs.slots()
            + self.counters.slots()
            + self.queues.slots()
            + self.quotas.slots();
    }

    /// Returns the memory of the tables, in bytes.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.buckets.allocated_bytes()
            + self.windows.allocated_bytes()
            + self.logs.allocated_bytes()
            + self.counters.allocated_bytes()
            + self.queues.allocated_bytes()
            + self.quotas.allocated_bytes()
    }
}

/// Counts one more key unless there are already `max_keys`.
fn reserve(len: &AtomicUsize, max_keys: usize) -> bool {
    len.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |len| (len < max_keys).then_some(len + 1)).is_ok()
}
