//! One lock's worth of buckets.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::table::{Place, Table};
use crate::limiter::algorithm::token_bucket::Bucket;

/// How long after a sweep a full store may look through a shard again for a new key: a flood of keys must not pay for
/// one scan each.
const SWEEP_AGAIN_AFTER_US: u64 = 100_000;

/// A table behind a lock, on a cache line of its own (and its neighbour's, which processors fetch along).
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Shard(Mutex<Buckets>);

/// What the lock guards.
#[derive(Default)]
pub(super) struct Buckets {
    pub(super) table: Table,
    swept_at_us: Option<u64>,
    /// The latest time at which anything was decided here.
    latest_us: u64,
}

impl Shard {
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, Buckets> {
        self.0.lock()
    }
}

impl Buckets {
    /// The time to decide at for whoever read the clock before he had the lock: if somebody with a later time was
    /// faster, that time, so that time never runs backwards for a key.
    #[inline]
    pub(super) fn time(&mut self, now_us: u64) -> u64 {
        self.latest_us = self.latest_us.max(now_us);
        self.latest_us
    }

    /// Puts in the bucket of a key that is not there. `len` counts the keys of all shards; returns `false`, and leaves
    /// everything as it is, when that has reached `max_keys` and no full bucket can make room.
    pub(super) fn insert(
        &mut self,
        place: Place,
        bucket: Bucket,
        now_us: u64,
        len: &AtomicUsize,
        max_keys: usize,
    ) -> bool {
        if self.table.replace_full(place, bucket, now_us) {
            return true;
        }
        if !reserve(len, max_keys) {
            let rested = self.swept_at_us.is_none_or(|at| now_us.saturating_sub(at) >= SWEEP_AGAIN_AFTER_US);
            if !rested {
                return false;
            }
            self.sweep(now_us, len);
            if !reserve(len, max_keys) {
                return false;
            }
        }
        if self.table.must_grow() {
            self.sweep(now_us, len);
            self.table.make_room();
        }
        self.table.insert_new(place, bucket);
        true
    }

    /// Drops full buckets and fits the table to the rest.
    pub(super) fn sweep(&mut self, now_us: u64, len: &AtomicUsize) {
        self.swept_at_us = Some(now_us);
        let dropped = self.table.sweep(now_us);
        len.fetch_sub(dropped, Ordering::Relaxed);
    }
}

/// Counts one more key unless there are `max_keys` already.
fn reserve(len: &AtomicUsize, max_keys: usize) -> bool {
    len.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |len| (len < max_keys).then_some(len + 1)).is_ok()
}
