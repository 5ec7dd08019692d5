//! Bounded cache of outcomes by the SHA-256 of a token or key, sharded for concurrent access.

use std::collections::HashMap;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

/// SHA-256 of a token or key. An attacker who finds a collision can forge signatures as well.
pub(crate) type Digest = [u8; 32];

/// Few enough to stay small, enough that workers rarely contend for a lock.
const SHARDS: usize = 16;

/// Outcomes by digest. Evicts approximately the least recently used: entries that were not read while `capacity` others
/// arrived.
#[derive(Debug)]
pub(crate) struct Cache<T> {
    shards: [Mutex<Shard<T>>; SHARDS],
    /// Entries per generation of a shard.
    generation_capacity: usize,
}

/// Two generations: a full young generation replaces the old one.
#[derive(Debug)]
struct Shard<T> {
    young: HashMap<Digest, T>,
    old: HashMap<Digest, T>,
}

impl<T: Clone> Cache<T> {
    /// Creates a cache that holds at least `capacity` entries, and at most twice as many.
    pub(crate) fn new(capacity: usize) -> Self {
        let shard = |_| Mutex::new(Shard { young: HashMap::new(), old: HashMap::new() });
        Self { shards: std::array::from_fn(shard), generation_capacity: capacity.div_ceil(SHARDS).max(1) }
    }

    pub(crate) fn get(&self, digest: &Digest) -> Option<T> {
        let mut shard = self.shard(digest).lock();
        if let Some(outcome) = shard.young.get(digest) {
            return Some(outcome.clone());
        }
        let outcome = shard.old.remove(digest)?;
        shard.insert(*digest, outcome.clone(), self.generation_capacity);
        Some(outcome)
    }

    pub(crate) fn insert(&self, digest: Digest, outcome: T) {
        self.shard(&digest).lock().insert(digest, outcome, self.generation_capacity);
    }

    #[cfg(feature = "verify-api-key")]
    pub(crate) fn remove(&self, digest: &Digest) {
        let mut shard = self.shard(digest).lock();
        shard.young.remove(digest);
        shard.old.remove(digest);
    }

    fn shard(&self, digest: &Digest) -> &Mutex<Shard<T>> {
        &self.shards[usize::from(digest[0]) % SHARDS]
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock()).map(|shard| shard.young.len() + shard.old.len()).sum()
    }
}

impl<T> Shard<T> {
    fn insert(&mut self, digest: Digest, outcome: T, capacity: usize) {
        if self.young.len() >= capacity {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest, outcome);
    }
}

pub(crate) fn digest(bytes: &[u8]) -> Digest {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn read_entries_stay_and_at_most_twice_the_capacity_is_held() {
        let cache = Cache::new(64);
        let wanted = digest(b"wanted");
        cache.insert(wanted, 0);
        for number in 1..10_000_u32 {
            cache.insert(digest(&number.to_be_bytes()), number);
            assert_eq!(cache.get(&wanted), Some(0), "after {number} others");
        }
        assert!((64..=128).contains(&cache.len()), "{}", cache.len());
        assert_eq!(cache.get(&digest(&1_u32.to_be_bytes())), None);
    }
}
