//! Slots in this process.
//!
//! A slot costs one lock among many, twice, and an entry that is gone when the request is: what is kept is bounded by
//! the requests that are under way.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use parking_lot::Mutex;

use super::leases::{Leases, Reply, Step};
use super::owner::Owner;
use super::rule::Concurrency;
use super::stats::LeaseStats;
use super::{Acquired, Acquisition, Lease, LeaseStore};
use crate::key::BucketKey;
use crate::verdict::Source;

/// More than there are threads to meet in one.
const SHARDS: usize = 64;

/// The leases of all keys, in shards.
pub struct LeaseTable {
    shards: [Mutex<HashMap<Name, Leases>>; SHARDS],
    hasher: RandomState,
}

/// A scope and a key id in one text, so that no two pairs are alike.
type Name = Arc<[u8]>;

/// Grants slots of a [`LeaseTable`], under one rule.
#[derive(Clone, Debug)]
pub struct MemoryLeases {
    table: Arc<LeaseTable>,
    rule: Concurrency,
    stats: Arc<LeaseStats>,
}

/// A key whose slot is asked for later, if at all.
#[derive(Clone, Debug)]
pub(super) struct Named(Name);

/// A slot of the table.
struct Held {
    table: Arc<LeaseTable>,
    name: Name,
    owner: Owner,
    stats: Arc<LeaseStats>,
}

// === impl LeaseTable ===

impl Default for LeaseTable {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), hasher: RandomState::new() }
    }
}

impl std::fmt::Debug for LeaseTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaseTable").field("keys", &self.keys()).finish_non_exhaustive()
    }
}

impl LeaseTable {
    /// [`Leases::acquire`] for `key`.
    pub fn acquire(&self, key: BucketKey<'_>, owner: Owner, limit: u64, lease_us: u64, now_us: u64) -> Reply {
        self.change(&name(key), |leases| leases.acquire(owner, limit, lease_us, now_us))
    }

    /// [`Leases::renew`] for `key`.
    pub fn renew(&self, key: BucketKey<'_>, owner: Owner, limit: u64, lease_us: u64, now_us: u64) -> Reply {
        self.change(&name(key), |leases| leases.renew(owner, limit, lease_us, now_us))
    }

    /// [`Leases::release`] for `key`.
    pub fn release(&self, key: BucketKey<'_>, owner: Owner, now_us: u64) -> Reply {
        self.change(&name(key), |leases| leases.release(owner, now_us))
    }

    /// Keys of which slots are held, or were when they were last asked for.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    fn change(&self, name: &Name, change: impl FnOnce(&mut Leases) -> Reply) -> Reply {
        let shard = &self.shards[self.hasher.hash_one(name) as usize % SHARDS];
        let mut keys = shard.lock();
        let leases = keys.entry(Arc::clone(name)).or_default();
        let reply = change(leases);
        if leases.is_empty() {
            keys.remove(name);
        }
        reply
    }
}

fn name(key: BucketKey<'_>) -> Name {
    let scope = key.scope.as_bytes();
    [&scope.len().to_le_bytes()[..], scope, key.id].concat().into()
}

// === impl MemoryLeases ===

impl MemoryLeases {
    /// Grants slots of `table` under `rule`, and counts them in `stats`. Its leases do not end by time: a request that is
    /// over gives its slot back for sure, since both live in one process.
    #[must_use]
    pub fn new(table: Arc<LeaseTable>, rule: Concurrency, stats: Arc<LeaseStats>) -> Self {
        Self { table, rule, stats }
    }

    /// What to call the key of a question that may be asked later.
    #[cfg(feature = "redis")]
    pub(super) fn named(key: BucketKey<'_>) -> Named {
        Named(name(key))
    }

    /// Asks for a slot of that key, on behalf of `source`.
    pub(super) fn acquire_named(&self, Named(name): Named, source: Source) -> Acquired {
        let (owner, limit) = (Owner::fresh(), self.rule.limit());
        let reply = self.table.change(&name, |leases| leases.acquire(owner, limit, u64::MAX, 0));
        if reply.step == Step::Refused {
            return Acquired::denied(source);
        }
        self.stats.began();
        let held = Held { table: Arc::clone(&self.table), name, owner, stats: Arc::clone(&self.stats) };
        Acquired::granted(limit.saturating_sub(reply.held), source, Lease::new(held))
    }
}

impl LeaseStore for MemoryLeases {
    fn acquire(&self, key: BucketKey<'_>) -> Acquisition {
        Acquisition::Ready(self.acquire_named(Named(name(key)), Source::Memory))
    }
}

// === impl Held ===

impl Drop for Held {
    fn drop(&mut self) {
        self.table.change(&self.name, |leases| leases.release(self.owner, 0));
        self.stats.ended();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::time::Duration;

    use super::*;

    fn leases(limit: u64) -> MemoryLeases {
        let rule = Concurrency::new(limit, Duration::from_secs(1), None).unwrap();
        MemoryLeases::new(Arc::default(), rule, Arc::default())
    }

    fn ask(leases: &MemoryLeases, scope: &str, id: &str) -> Acquired {
        match leases.acquire(BucketKey { scope, id: id.as_bytes() }) {
            Acquisition::Ready(acquired) => acquired,
            Acquisition::Pending(_) => panic!("memory answers at once"),
        }
    }

    #[test]
    fn a_dropped_lease_is_a_free_slot_and_nothing_is_kept_of_who_left() {
        let leases = leases(2);
        let held: Vec<_> = (0..2).map(|_| ask(&leases, "r", "a")).collect();
        assert_eq!(held.iter().map(|held| held.verdict.remaining).collect::<Vec<_>>(), [Some(1), Some(0)]);
        let denied = ask(&leases, "r", "a");
        assert!(!denied.verdict.is_allowed() && denied.lease.is_none());
        assert_eq!((leases.stats.in_flight(), leases.table.keys()), (2, 1));
        drop(held);
        assert_eq!((leases.stats.in_flight(), leases.table.keys()), (0, 0));
        assert!(ask(&leases, "r", "a").verdict.is_allowed());
    }

    #[test]
    fn two_pairs_of_scope_and_key_never_share_slots() {
        let leases = leases(1);
        let held: Vec<_> = [("a", "bc"), ("ab", "c"), ("abc", ""), ("", "abc")]
            .map(|(scope, id)| ask(&leases, scope, id))
            .into_iter()
            .collect();
        assert!(held.iter().all(|held| held.verdict.is_allowed()));
    }

    #[test]
    fn threads_never_hold_more_than_the_limit_together() {
        let leases = leases(3);
        let (most, now) = (std::sync::atomic::AtomicU64::new(0), std::sync::atomic::AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let acquired = ask(&leases, "r", "hot");
                        if acquired.verdict.is_allowed() {
                            let here = now.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
                            most.fetch_max(here, std::sync::atomic::Ordering::SeqCst);
                            std::thread::yield_now();
                            now.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        }
                        drop(acquired);
                    }
                });
            }
        });
        let most = most.into_inner();
        assert!((1..=3).contains(&most), "{most} at once");
        assert_eq!(leases.table.keys(), 0);
    }
}
