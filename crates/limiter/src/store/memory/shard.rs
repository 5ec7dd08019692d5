//! One lock's worth of states.

use super::table::{KeyHash, Table};
use crate::algorithm::State;
use crate::algorithm::fixed_window::Window;
use crate::algorithm::leaky_bucket::QueueState;
use crate::algorithm::quota::QuotaState;
use crate::algorithm::sliding_window_counter::Counters;
use crate::algorithm::sliding_window_log::Log;
use crate::algorithm::token_bucket::Bucket;
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};

/// How long after a sweep a full store may look through a shard again for a new key: a flood of keys must not pay for
/// one scan each.
const SWEEP_AGAIN_AFTER_US: u64 = 100_000;

/// How far the clock may seem to have run back because whoever read it had to wait for the lock. More than that, and it
/// was set back.
const OVERTAKEN_WITHIN_US: u64 = 1_000_000;

/// Tables behind a lock, on a cache line of its own (and its neighbour's, which processors fetch along).
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Shard(Mutex<States>);

/// What the lock guards: a table for each kind of state.
#[derive(Default)]
pub(super) struct States {
    buckets: Table<Bucket>,
    windows: Table<Window>,
    logs: Table<Log>,
    counters: Table<Counters>,
    quotas: Table<QuotaState>,
    queues: Table<QueueState>,
    swept_at_us: Option<u64>,
    /// The latest time at which anything was decided here.
    latest_us: u64,
}

/// A kind of state that has a table.
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
    /// The time to decide at for whoever read the clock before he had the lock: if somebody with a later time was
    /// faster, that time, so that time never runs backwards for a key.
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

    /// Puts in the state of a key that is not there. `len` counts the keys of all shards; hands the state back, and
    /// leaves everything as it is, when that has reached `max_keys` and nothing that rests can make room.
    pub(super) fn insert<S: Stored>(
        &mut self,
        place: KeyHash,
        state: S,
        now_us: u64,
        len: &AtomicUsize,
        max_keys: usize,
    ) -> Result<(), S> {
        let Err(state) = self.table().replace_resting(place, state, now_us) else { return Ok(()) };
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
        self.table().insert_new(place, state);
        Ok(())
    }

    /// Drops what rests and fits the tables to what does not.
    pub(super) fn sweep(&mut self, now_us: u64, len: &AtomicUsize) {
        self.swept_at_us = Some(now_us);
        let dropped = self.buckets.sweep(now_us)
            + self.windows.sweep(now_us)
            + self.logs.sweep(now_us)
            + self.counters.sweep(now_us)
            + self.queues.sweep(now_us)
            + self.quotas.sweep(now_us);
        len.fetch_sub(dropped, Ordering::Relaxed);
    }

    /// Memory that the tables hold, in bytes.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.buckets.allocated_bytes()
            + self.windows.allocated_bytes()
            + self.logs.allocated_bytes()
            + self.counters.allocated_bytes()
            + self.queues.allocated_bytes()
            + self.quotas.allocated_bytes()
    }
}

/// Counts one more key unless there are `max_keys` already.
fn reserve(len: &AtomicUsize, max_keys: usize) -> bool {
    len.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |len| (len < max_keys).then_some(len + 1)).is_ok()
}
