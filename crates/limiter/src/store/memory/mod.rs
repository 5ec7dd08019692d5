//! Store in the memory of this process.
//!
//! # Cost
//!
//! A decision reads the clock once, computes one keyed hash, takes one of many locks and allocates nothing. A decision
//! under several rules takes the locks of all their keys in a fixed order.
//!
//! A key takes 33 to 39 bytes, independent of its length: 26 bytes per entry for most algorithms, at a table load of 2/3
//! to 0.8. The table stores a hash of the key of 64 bits, SipHash-1-3 under a random key, so clients cannot construct
//! collisions. The probability that any two of a million keys collide is 1 in 37 million.
//!
//! # Expiry
//!
//! The store drops only expired states (a full bucket, a window that has ended), which loses nothing. It sweeps itself in
//! three ways:
//!
//! - A new key replaces an expired state that it finds while probing for a slot.
//! - A shard drops all its expired states before it grows.
//! - A shard drops them at the latest after as many new keys as it has slots, and at least 256.
//!
//! The work per new key is therefore constant on average, and decisions about known keys never sweep. An idle store keeps
//! its tables; [`MemoryStore::sweep`] releases their memory earlier.
//!
//! # Floods of keys
//!
//! Half of `max_keys` belongs to all limiters (scopes) in equal shares, the other half to whichever needs it. A flood of
//! invented keys on one limiter therefore takes no room that the shares of others need. New keys of a limiter without room
//! share one state per shard, which the keyed hash of the key selects. A shared state is a state of the rule like any
//! other, so at most [`shards`](MemoryStore::shards) times the rule's bound is admitted beyond the keys with states of
//! their own.
//!
//! A key that finds room starts with a copy of the shared state. That state contains all that the key has spent in it, so
//! the key gains nothing. A shared state only loses tokens: corrections return none to it, and grants give the key a
//! state of its own, beyond `max_keys` if necessary.

mod clock;
pub(crate) mod hash;
mod multi;
mod one;
mod places;
mod quota;
mod shard;
mod shares;
mod snapshot;
mod table;

use std::num::NonZeroUsize;
use std::sync::Arc;

#[cfg(feature = "redis")]
pub(crate) use self::clock::unix_us;
pub use self::clock::{Clock, ManualClock, MonotonicClock, TokioClock};
use self::hash::Hasher;
use self::places::Places;
use self::shard::{Shard, States, Stored};
use self::shares::{Owner, Shares};
pub use self::snapshot::{Snapshot, SnapshotError};
use self::table::KeyHash;
use super::{Check, Decision, Forget, Store};
use crate::algorithm::{Algorithm, Moment};
use crate::key::BucketKey;
use crate::rule::{Rule, by_algorithm};
use crate::sync::{Mutex, random_key};

/// Intended number of keys per shard, so that a sweep or growth locks it for tens of µs at most.
const KEYS_PER_SHARD: usize = 16_384;

/// Capacity of [`MemoryStore::default`].
const DEFAULT_MAX_KEYS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(999_999);

/// Store in the memory of this process. See the [module](self) for cost and expiry.
pub struct MemoryStore {
    shards: Box<[Shard]>,
    /// Room for new keys. Locked after a shard, if at all.
    shares: Mutex<Shares>,
    places: Places,
    hasher: Hasher,
    clock: Arc<dyn Clock>,
    max_keys: usize,
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore")
            .field("len", &self.len())
            .field("max_keys", &self.max_keys)
            .finish_non_exhaustive()
    }
}

/// Hashes of a key and its scope, for a decision that may follow later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyLocation {
    key: KeyHash,
    scope: KeyHash,
}

impl Default for MemoryStore {
    /// Creates a store for at most 1,000,000 unexpired keys: 39 MB when full.
    fn default() -> Self {
        Self::new(DEFAULT_MAX_KEYS)
    }
}

impl MemoryStore {
    /// Creates a store for at most `max_keys` unexpired keys, on the monotonic clock of this machine.
    #[must_use]
    pub fn new(max_keys: NonZeroUsize) -> Self {
        Self::build(max_keys, Arc::new(MonotonicClock::default()))
    }

    /// Creates a store for at most 1,000,000 unexpired keys, on `clock`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate_limiter::RuleError> {
    /// use std::{sync::Arc, time::Duration};
    /// use tollgate_limiter::{ManualClock, MemoryStore, RateLimiter, TokenBucket};
    ///
    /// let clock = Arc::new(ManualClock::default());
    /// let limiter = RateLimiter::new("api", TokenBucket::per_second(1, 1)?, MemoryStore::with_clock(clock.clone()));
    /// assert!(limiter.check("alice", 1).await.is_allowed());
    /// assert!(!limiter.check("alice", 1).await.is_allowed());
    /// clock.advance(Duration::from_secs(1));
    /// assert!(limiter.check("alice", 1).await.is_allowed());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self::build(DEFAULT_MAX_KEYS, clock)
    }

    /// Changes the largest number of unexpired keys. The store must be new.
    #[must_use]
    pub fn with_max_keys(self, max_keys: NonZeroUsize) -> Self {
        Self { hasher: self.hasher, ..Self::build(max_keys, self.clock) }
    }

    fn build(max_keys: NonZeroUsize, clock: Arc<dyn Clock>) -> Self {
        let max_keys = max_keys.get();
        let shards = max_keys.div_ceil(KEYS_PER_SHARD).clamp(64, 1024).next_power_of_two();
        Self {
            shards: (0..shards).map(|_| Shard::default()).collect(),
            shares: Mutex::new(Shares::new(max_keys)),
            places: Places::default(),
            hasher: Hasher::new(random_key()),
            clock,
            max_keys,
        }
    }

    /// Replaces the secret key of the hashes by that of a [snapshot](Snapshot::hash_key). The store must be new.
    #[must_use]
    pub fn with_hash_key(self, key: [u8; 16]) -> Self {
        Self { hasher: Hasher::new(key), ..self }
    }

    /// Returns the secret key of the hashes.
    #[must_use]
    pub fn hash_key(&self) -> [u8; 16] {
        self.hasher.to_bytes()
    }

    /// Returns the number of stored keys, including expired ones that are not dropped yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shares.lock().len()
    }

    /// Returns true if no key is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of decisions made on a state shared with other keys, for lack of room.
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.shares.lock().overflowed()
    }

    /// Returns the declared limiters that made such decisions since the last call, with the number of decisions.
    pub fn report_overflows(&self) -> Vec<(Arc<str>, u64)> {
        self.shares.lock().report_overflows()
    }

    /// Returns the memory of the tables, in bytes.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        self.shards.iter().map(|shard| size_of::<Shard>() + shard.lock().allocated_bytes()).sum()
    }

    /// Returns the number of shards: 64 to 1,024. Keys of a limiter without room share as many states.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Drops all expired states and releases their memory. Locks one shard at a time.
    pub fn sweep(&self) {
        (0..self.shards()).for_each(|index| self.sweep_shard(index));
    }

    /// Drops the expired states of one shard: `index` modulo [`shards`](Self::shards).
    ///
    /// A background task can call this with an increasing number to release memory without new keys, one shard at a time.
    pub fn sweep_shard(&self, index: usize) {
        let mut shard = self.shards[index % self.shards.len()].lock();
        let now = self.moment();
        let now = shard.tick(now.now_us).moment(now);
        shard.sweep(now, &self.shares);
    }

    /// Resets `key` under `rule`. A state shared with other keys stays.
    pub fn forget(&self, key: BucketKey<'_>, rule: &Rule) {
        let hash = self.locate(key).key;
        let mut shard = self.shard_of(hash).lock();
        if let Some(owner) = by_algorithm!(rule, rule => forget_one(rule, &mut shard, hash)) {
            self.shares.lock().release_one(owner);
        }
    }

    /// Reads the clocks.
    #[inline]
    fn moment(&self) -> Moment {
        let (now_us, wall_us) = self.clock.both_us();
        Moment { now_us, wall_us }
    }

    #[inline]
    fn shard_of(&self, hash: KeyHash) -> &Shard {
        &self.shards[hash.shard(self.shards.len())]
    }
}

fn forget_one<A: Algorithm<State: Stored>>(_: &A, states: &mut States, hash: KeyHash) -> Option<Owner> {
    states.table::<A::State>().forget(hash)
}

impl Store for MemoryStore {
    fn decide(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Decision {
        let ([Check { key, rule, cost }], []) = (enforced, observed) else {
            return Decision::Ready(self.decide_all(&self.located(enforced), &self.located(observed), self.moment()));
        };
        // The clock is read first: it takes as long as hashing, and the processor overlaps both.
        let now = self.moment();
        let hash = self.key_hash(*key);
        Decision::Ready(
            by_algorithm!(rule, rule => self.decide_one(now, hash, || self.scope_hash(key.scope), rule, *cost)),
        )
    }

    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        let (now, location) = (self.moment(), self.locate(check.key));
        by_algorithm!(check.rule, rule => self.settle_one(now, location, rule, check.bounded(more), counted_at_us));
    }
}

impl Forget for MemoryStore {
    type Error = std::convert::Infallible;

    async fn forget_key(&self, check: Check<'_>) -> Result<(), Self::Error> {
        self.forget(check.key, check.rule);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
