//! In this process: buckets in sharded tables of 24 bytes an entry.
//!
//! A decision costs one look at the clock, one keyed hash, one lock among many and no allocation. A key takes 30 to 38
//! bytes whatever its length, since only 64 bits of its hash are kept, besides those that chose its shard. The hash is
//! SipHash-1-3 under a random key, so no client can aim for somebody else's bucket; that any two of 10 million keys meet
//! by accident has a probability of 1 in 20 million.
//!
//! Buckets are forgotten only when they are full, which loses nothing. At `max_keys` a new key shares one bucket with
//! all other new keys of its scope, so a flood of made-up keys neither grows the memory nor empties anyone's debt: the
//! flood is denied, known keys are not.

mod clock;
mod hash;
mod shard;
mod table;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

pub use self::clock::{Clock, ManualClock, MonotonicClock};
use self::hash::Hasher;
use self::shard::Shard;
use self::table::{Place, Table};
use super::{Decision, Store};
use crate::limiter::algorithm::token_bucket::{self, Answer};
use crate::limiter::key::BucketKey;
use crate::limiter::rule::TokenBucket;
use crate::limiter::verdict::Source;

/// Keys that a shard should hold at most, so that sweeping or growing one stalls nobody for long (tens of µs).
const KEYS_PER_SHARD: usize = 16_384;

/// Buckets in the memory of this process.
pub struct MemoryStore {
    shards: Box<[Shard]>,
    /// One bucket a scope, for keys that found no room.
    overflow: Mutex<Table>,
    /// Until when some overflow bucket is not full; lets new keys pass it by without its lock.
    overflow_until_us: AtomicU64,
    hasher: Hasher,
    clock: Arc<dyn Clock>,
    max_keys: usize,
    len: AtomicUsize,
    overflowed: AtomicU64,
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore")
            .field("len", &self.len())
            .field("max_keys", &self.max_keys)
            .finish_non_exhaustive()
    }
}

/// Where a key's bucket is, without the key: two hashes. For a store that decides here later, if at all.
#[cfg(feature = "redis")]
#[derive(Clone, Copy, Debug)]
pub(in crate::limiter) struct Located {
    key: Place,
    scope: Place,
}

impl MemoryStore {
    /// A store for at most `max_keys` buckets that are not full, on this machine's monotonic clock.
    #[must_use]
    pub fn new(max_keys: NonZeroUsize) -> Self {
        Self::with_clock(max_keys, Arc::new(MonotonicClock::default()))
    }

    /// The same on another clock.
    #[must_use]
    pub fn with_clock(max_keys: NonZeroUsize, clock: Arc<dyn Clock>) -> Self {
        let max_keys = max_keys.get();
        let shards = max_keys.div_ceil(KEYS_PER_SHARD).clamp(64, 1024).next_power_of_two();
        Self {
            shards: (0..shards).map(|_| Shard::default()).collect(),
            overflow: Mutex::default(),
            overflow_until_us: AtomicU64::new(0),
            hasher: Hasher::new(random_key()),
            clock,
            max_keys,
            len: AtomicUsize::new(0),
            overflowed: AtomicU64::new(0),
        }
    }

    /// Buckets kept; some may have filled since they were last looked at.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether no bucket is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Decisions made on a shared bucket since `max_keys` was reached.
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.overflowed.load(Ordering::Relaxed)
    }

    /// Memory that the tables hold, in bytes.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        self.shards.iter().map(|shard| size_of::<Shard>() + shard.lock().table.allocated_bytes()).sum()
    }

    /// How many shards [`sweep_shard`](Self::sweep_shard) takes.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Forgets all full buckets and gives their memory back. Locks a shard at a time.
    pub fn sweep(&self) {
        (0..self.shards()).for_each(|index| self.sweep_shard(index));
    }

    /// Forgets the full buckets of one shard, `index` taken modulo [`shards`](Self::shards): call it with a running
    /// number from a background task, so that no sweep is longer than a shard.
    pub fn sweep_shard(&self, index: usize) {
        let mut shard = self.shards[index % self.shards.len()].lock();
        let now_us = shard.time(self.clock.now_us());
        shard.sweep(now_us, &self.len);
        drop(shard);
        if index.is_multiple_of(self.shards.len()) {
            self.overflow.lock().sweep(now_us);
        }
    }

    /// Finds where the bucket of `key` is.
    #[cfg(feature = "redis")]
    pub(in crate::limiter) fn locate(&self, key: BucketKey<'_>) -> Located {
        Located { key: self.hasher.key(key.scope.as_bytes(), key.id), scope: self.hasher.scope(key.scope.as_bytes()) }
    }

    /// Decides one request of a located key.
    #[cfg(feature = "redis")]
    pub(in crate::limiter) fn decide_located(&self, located: Located, rule: &TokenBucket) -> Answer {
        self.decide_at(self.clock.now_us(), located.key, || located.scope, rule)
    }

    #[inline]
    fn decide_at(&self, now_us: u64, place: Place, scope: impl Fn() -> Place, rule: &TokenBucket) -> Answer {
        let cost = rule.requested_tokens().get();
        let mut shard = self.shards[place.shard(self.shards.len())].lock();
        let now_us = shard.time(now_us);
        if let Some(bucket) = shard.table.get_mut(place) {
            let (answer, state) = token_bucket::decide(rule, Some(*bucket), now_us, cost);
            if let Some(state) = state {
                *bucket = state;
            }
            return answer;
        }
        // A new key may have been counted with the others for which there was no room. What they owe together it takes
        // along, or it would be admitted twice.
        let overflowing = now_us < self.overflow_until_us.load(Ordering::Acquire);
        let inherited = if overflowing { self.overflow.lock().get(scope()) } else { None };
        let (answer, state) = token_bucket::decide(rule, inherited, now_us, cost);
        let Some(state) = state else {
            self.overflowed.fetch_add(inherited.is_some().into(), Ordering::Relaxed);
            return answer;
        };
        if shard.insert(place, state, now_us, &self.len, self.max_keys) {
            return answer;
        }
        self.decide_in_overflow(scope(), rule)
    }

    /// Decides a request of a key for which there is no room.
    #[cold]
    fn decide_in_overflow(&self, scope: Place, rule: &TokenBucket) -> Answer {
        self.overflowed.fetch_add(1, Ordering::Relaxed);
        let mut table = self.overflow.lock();
        let now_us = self.clock.now_us();
        let shared = table.get(scope);
        let (answer, state) = token_bucket::decide(rule, shared, now_us, rule.requested_tokens().get());
        if let Some(state) = state {
            table.set(scope, state, now_us);
            self.overflow_until_us.fetch_max(state.full_at_us, Ordering::Release);
        }
        answer
    }
}

impl Store for MemoryStore {
    fn decide(&self, key: BucketKey<'_>, rule: &TokenBucket) -> Decision {
        // The clock first: reading it takes as long as hashing, and the processor does both at once.
        let now_us = self.clock.now_us();
        let scope = key.scope.as_bytes();
        let answer = self.decide_at(now_us, self.hasher.key(scope, key.id), || self.hasher.scope(scope), rule);
        Decision::Ready(answer.by(Source::Memory))
    }
}

/// A key from the operating system. Where it gives none, the standard library's own random state stands in.
fn random_key() -> [u8; 16] {
    use std::hash::{BuildHasher, Hasher as _, RandomState};

    let mut key = [0; 16];
    if getrandom::fill(&mut key).is_err() {
        for half in key.chunks_exact_mut(8) {
            half.copy_from_slice(&RandomState::new().build_hasher().finish().to_ne_bytes());
        }
    }
    key
}

#[cfg(test)]
mod tests;
