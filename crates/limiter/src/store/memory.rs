//! In this process: states in sharded tables, of 24 bytes an entry for most algorithms.
//!
//! A decision costs one look at the clock, one keyed hash, one lock among many and no allocation; one under several
//! rules takes the locks of all their keys, in order. A key takes 30 to 38 bytes whatever its length, since only 64 bits
//! of its hash are kept, besides those that chose its shard. The hash is SipHash-1-3 under a random key, so no client can
//! aim for somebody else's bucket; that any two of 10 million keys meet by accident has a probability of 1 in 20 million.
//!
//! States are forgotten only when they rest (the bucket is full, the window over), which loses nothing. At `max_keys` a
//! new key shares one state with all other new keys of its scope, so a flood of made-up keys neither grows the memory nor
//! forgives anyone's debt: the flood is denied, known keys are not.

mod clock;
mod hash;
mod multi;
mod quotas;
mod shard;
mod table;

use std::num::NonZeroUsize;
use std::sync::Arc;

pub use self::clock::{Clock, ManualClock, MonotonicClock};
use self::hash::Hasher;
use self::shard::{Shard, States, Stored};
use self::table::KeyHash;
use super::{Check, Decision, Store};
use crate::algorithm::{Algorithm, Moment, State};
use crate::key::BucketKey;
use crate::rule::{Rule, by_algorithm};
use crate::sync::{AtomicU64, AtomicUsize, Ordering, random_key};
use crate::verdict::{RuleVerdict, Source};

/// Keys that a shard should hold at most, so that sweeping or growing one stalls nobody for long (tens of µs).
const KEYS_PER_SHARD: usize = 16_384;

/// What was spent, in the memory of this process.
pub struct MemoryStore {
    shards: Box<[Shard]>,
    /// One state a scope, for keys that found no room.
    overflow: Shard,
    /// Until when some state in there does not rest; lets new keys pass it by without its lock.
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

/// Where a key's state is, without the key: two hashes. For a store that decides here later, if at all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyLocation {
    key: KeyHash,
    scope: KeyHash,
}

impl MemoryStore {
    /// A store for at most `max_keys` keys that do not rest, on this machine's monotonic clock.
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
            overflow: Shard::default(),
            overflow_until_us: AtomicU64::new(0),
            hasher: Hasher::new(random_key()),
            clock,
            max_keys,
            len: AtomicUsize::new(0),
            overflowed: AtomicU64::new(0),
        }
    }

    /// Keys kept; some may have come to rest since they were last looked at.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether no key is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Decisions made on a shared state since `max_keys` was reached.
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.overflowed.load(Ordering::Relaxed)
    }

    /// Memory that the tables hold, in bytes.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        self.shards.iter().map(|shard| size_of::<Shard>() + shard.lock().allocated_bytes()).sum()
    }

    /// How many shards [`sweep_shard`](Self::sweep_shard) takes.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Forgets all that rests and gives its memory back. Locks a shard at a time.
    pub fn sweep(&self) {
        (0..self.shards()).for_each(|index| self.sweep_shard(index));
    }

    /// Forgets what rests in one shard, `index` taken modulo [`shards`](Self::shards): call it with a running
    /// number from a background task, so that no sweep is longer than a shard.
    pub fn sweep_shard(&self, index: usize) {
        let mut shard = self.shards[index % self.shards.len()].lock();
        let now_us = shard.time(self.clock.now_us());
        shard.sweep(now_us, &self.len);
        drop(shard);
        if index.is_multiple_of(self.shards.len()) {
            self.overflow.lock().sweep(now_us, &AtomicUsize::new(usize::MAX));
        }
    }

    /// Forgets what `key` has spent under `rule`: the operator's reset. What it shares with others, for which there was no
    /// room, stays.
    pub fn forget(&self, key: BucketKey<'_>, rule: &Rule) {
        let place = self.locate(key).key;
        let mut shard = self.shard_of(place).lock();
        if by_algorithm!(rule, rule => forget_one(rule, &mut shard, place)) {
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Finds where the state of `key` is.
    #[inline]
    pub(crate) fn locate(&self, key: BucketKey<'_>) -> KeyLocation {
        KeyLocation {
            key: self.hasher.key(key.scope.as_bytes(), key.id),
            scope: self.hasher.scope(key.scope.as_bytes()),
        }
    }

    /// The present, on this store's clock. The wall clock, as dear as the other, is read only for rules that ask for it.
    #[inline]
    fn moment<'a>(&self, mut rules: impl Iterator<Item = &'a Rule>) -> Moment {
        let now_us = self.clock.now_us();
        let wall_us = if rules.any(Rule::reads_wall_clock) { self.clock.wall_us() } else { 0 };
        Moment { now_us, wall_us }
    }

    #[inline]
    fn shard_of(&self, place: KeyHash) -> &Shard {
        &self.shards[place.shard(self.shards.len())]
    }

    /// Decides under one rule. Inlined, with the algorithm and the hash, into the one place where requests come from:
    /// 14 ns of 58 otherwise.
    #[inline(always)]
    fn decide_one<A>(
        &self,
        now: Moment,
        place: KeyHash,
        scope: impl Fn() -> KeyHash,
        rule: &A,
        cost: u64,
    ) -> RuleVerdict
    where
        A: Algorithm,
        A::State: Stored,
    {
        let mut shard = self.shard_of(place).lock();
        let now = Moment { now_us: shard.time(now.now_us), ..now };
        if let Some(state) = shard.table().get_mut(place) {
            let (answer, change) = rule.decide(Some(&*state), now, cost);
            if let Some(change) = change {
                *state = A::apply(Some(std::mem::replace(state, A::State::EMPTY)), change);
            }
            return answer;
        }
        // A new key may have been counted with the others for which there was no room. What they spent together it
        // takes along, or it would be admitted twice.
        let overflowing = now.now_us < self.overflow_until_us.load(Ordering::Acquire);
        let inherited = if overflowing { self.overflow.lock().table().get(scope()).cloned() } else { None };
        let (answer, change) = rule.decide(inherited.as_ref(), now, cost);
        self.overflowed.fetch_add((change.is_none() && inherited.is_some()).into(), Ordering::Relaxed);
        let Some(change) = change else { return answer };
        let state = A::apply(inherited, change);
        match shard.insert(place, state, now.now_us, &self.len, self.max_keys) {
            Ok(()) => answer,
            Err(_) => self.decide_in_overflow(scope(), rule, now, cost),
        }
    }

    /// Decides a request of a key for which there is no room.
    #[cold]
    fn decide_in_overflow<A>(&self, scope: KeyHash, rule: &A, now: Moment, cost: u64) -> RuleVerdict
    where
        A: Algorithm,
        A::State: Stored,
    {
        self.overflowed.fetch_add(1, Ordering::Relaxed);
        let mut shared = self.overflow.lock();
        let now = Moment { now_us: shared.time(now.now_us), ..now };
        let (answer, change) = rule.decide(shared.table().get(scope), now, cost);
        if let Some(change) = change {
            self.write_to_overflow_state::<A>(&mut shared, scope, now, change);
        }
        answer
    }

    fn write_to_overflow_state<A>(&self, shared: &mut States, scope: KeyHash, now: Moment, change: A::Change)
    where
        A: Algorithm,
        A::State: Stored,
    {
        let state = A::apply(shared.table().get(scope).cloned(), change);
        self.overflow_until_us.fetch_max(state.expires_at_us(), Ordering::Release);
        shared.table().set(scope, state, now.now_us);
    }
}

fn forget_one<A>(_: &A, states: &mut States, place: KeyHash) -> bool
where
    A: Algorithm,
    A::State: Stored,
{
    states.table::<A::State>().forget(place)
}

impl Store for MemoryStore {
    fn decide(&self, checks: &[Check<'_>]) -> Decision {
        let [Check { key, rule, cost }] = *checks else {
            let now = self.moment(checks.iter().map(|check| check.rule));
            let checks: Vec<_> = checks.iter().map(|check| (self.locate(check.key), check.rule, check.cost)).collect();
            return Decision::Ready(self.decide_all(&checks, now));
        };
        // The clock first: reading it takes as long as hashing, and the processor does both at once.
        let now = self.moment(std::iter::once(rule));
        let scope = key.scope.as_bytes();
        let place = self.hasher.key(scope, key.id);
        let answer = by_algorithm!(rule, rule => self.decide_one(now, place, || self.hasher.scope(scope), rule, cost));
        Decision::Ready(answer.into_verdict(Source::Memory))
    }

    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        let (now, located) = (self.moment(std::iter::once(check.rule)), self.locate(check.key));
        by_algorithm!(check.rule, rule => self.settle_one(now, located, rule, check.bounded(more), counted_at_us));
    }
}

#[cfg(test)]
mod tests;
