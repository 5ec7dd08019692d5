//! Slots in the memory of this process.
//!
//! A slot takes one of many locks twice and one entry, which is removed when the request ends. Memory is therefore
//! bounded by the in-flight requests.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use parking_lot::Mutex;

use super::rule::Concurrency;
use super::slots::{Owner, Reply, Slots, Step};
use super::stats::SlotStats;
use super::{Acquired, Acquisition, HeldSlot, SlotStore};
use crate::key::BucketKey;
use crate::verdict::Source;

/// Number of shards; larger than usual thread counts, so that locks are rarely contended.
const SHARDS: usize = 64;

/// Slots of all keys, in shards.
pub struct SlotTable {
    shards: [Mutex<HashMap<Name, Slots>>; SHARDS],
    hasher: RandomState,
}

/// Injective encoding of a scope and a key id.
pub(super) type Name = Arc<[u8]>;

/// Grants slots of a [`SlotTable`] under one rule.
#[derive(Clone, Debug)]
pub struct MemorySlots {
    table: Arc<SlotTable>,
    pub(super) rule: Concurrency,
    pub(super) stats: Arc<SlotStats>,
}

/// Held slot; dropping it releases the slot.
struct Held {
    table: Arc<SlotTable>,
    name: Name,
    owner: Owner,
    stats: Arc<SlotStats>,
}

// === impl SlotTable ===

impl Default for SlotTable {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), hasher: RandomState::new() }
    }
}

impl std::fmt::Debug for SlotTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlotTable").field("keys", &self.keys()).finish_non_exhaustive()
    }
}

impl SlotTable {
    /// Applies `change` to the slots of `key`.
    #[cfg(feature = "gateway")]
    pub fn change(&self, key: BucketKey<'_>, change: impl FnOnce(&mut Slots) -> Reply) -> Reply {
        self.change_named(&name(key), change)
    }

    /// Returns the number of keys with stored slots.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    fn change_named(&self, name: &Name, change: impl FnOnce(&mut Slots) -> Reply) -> Reply {
        let shard = &self.shards[self.hasher.hash_one(name) as usize % SHARDS];
        let mut keys = shard.lock();
        let slots = keys.entry(Arc::clone(name)).or_default();
        let reply = change(slots);
        if slots.is_empty() {
            keys.remove(name);
        }
        reply
    }
}

pub(super) fn name(key: BucketKey<'_>) -> Name {
    let scope = key.scope.as_bytes();
    [&scope.len().to_le_bytes()[..], scope, key.id].concat().into()
}

// === impl MemorySlots ===

impl MemorySlots {
    /// Creates a store that grants slots of `table` under `rule` and records them in `stats`.
    ///
    /// Its slots do not expire: a finished request always releases its slot, since both live in one process.
    #[must_use]
    pub fn new(table: Arc<SlotTable>, rule: Concurrency, stats: Arc<SlotStats>) -> Self {
        Self { table, rule, stats }
    }

    /// Acquires a slot of an encoded key; the verdict names `source`.
    pub(super) fn acquire_named(&self, name: Name, source: Source) -> Acquired {
        let (owner, limit) = (Owner::fresh(), self.rule.limit());
        let reply = self.table.change_named(&name, |slots| slots.acquire(owner, limit, u64::MAX, 0));
        if reply.step == Step::Refused {
            return Acquired::denied(source);
        }
        self.stats.began();
        let held = Held { table: Arc::clone(&self.table), name, owner, stats: Arc::clone(&self.stats) };
        Acquired::granted(limit.saturating_sub(reply.held), source, HeldSlot::new(held))
    }
}

impl SlotStore for MemorySlots {
    fn rule(&self) -> Concurrency {
        self.rule
    }

    fn acquire(&self, key: BucketKey<'_>) -> Acquisition {
        Acquisition::Ready(self.acquire_named(name(key), Source::Memory))
    }
}

// === impl Held ===

impl Drop for Held {
    fn drop(&mut self) {
        self.table.change_named(&self.name, |slots| slots.release(self.owner, 0));
        self.stats.ended();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::time::Duration;

    use super::*;

    fn memory(limit: u64) -> MemorySlots {
        let rule = Concurrency::new(limit).unwrap().with_ttl(Duration::from_secs(1)).unwrap();
        MemorySlots::new(Arc::default(), rule, Arc::default())
    }

    fn ask(slots: &MemorySlots, scope: &str, id: &str) -> Acquired {
        match slots.acquire(BucketKey { scope, id: id.as_bytes() }) {
            Acquisition::Ready(acquired) => acquired,
            Acquisition::Pending(_) => panic!("the memory store decides immediately"),
        }
    }

    #[test]
    fn a_dropped_slot_is_free_and_its_memory_too() {
        let slots = memory(2);
        let held: Vec<_> = (0..2).map(|_| ask(&slots, "r", "a")).collect();
        assert_eq!(held.iter().map(|held| held.verdict.remaining).collect::<Vec<_>>(), [Some(1), Some(0)]);
        let denied = ask(&slots, "r", "a");
        assert!(!denied.verdict.is_allowed() && denied.slot.is_none());
        assert_eq!((slots.stats.in_flight(), slots.table.keys()), (2, 1));
        drop(held);
        assert_eq!((slots.stats.in_flight(), slots.table.keys()), (0, 0));
        assert!(ask(&slots, "r", "a").verdict.is_allowed());
    }

    #[test]
    fn two_pairs_of_scope_and_key_never_share_slots() {
        let slots = memory(1);
        let held: Vec<_> = [("a", "bc"), ("ab", "c"), ("abc", ""), ("", "abc")]
            .map(|(scope, id)| ask(&slots, scope, id))
            .into_iter()
            .collect();
        assert!(held.iter().all(|held| held.verdict.is_allowed()));
    }

    #[test]
    fn all_threads_together_never_exceed_the_limit() {
        let slots = memory(3);
        let (max, now) = (std::sync::atomic::AtomicU64::new(0), std::sync::atomic::AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let acquired = ask(&slots, "r", "hot");
                        if acquired.verdict.is_allowed() {
                            let here = now.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
                            max.fetch_max(here, std::sync::atomic::Ordering::SeqCst);
                            std::thread::yield_now();
                            now.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        }
                        drop(acquired);
                    }
                });
            }
        });
        let max = max.into_inner();
        assert!((1..=3).contains(&max), "{max} at once");
        assert_eq!(slots.table.keys(), 0);
    }
}
