//! Slots of one key as a pure state machine; the caller supplies the time.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Bound;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Owner of a slot: 64 random bits for the process and a number for the request. Owners are unique, so only the owner
/// can renew or release a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    process: u64,
    number: u64,
}

impl Owner {
    /// Greatest owner in order.
    const LAST: Self = Self::new(u64::MAX, u64::MAX);

    /// Creates a new unique owner.
    #[must_use]
    pub fn fresh() -> Self {
        static PROCESS: LazyLock<u64> = LazyLock::new(random);
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        Self { process: *PROCESS, number: NUMBER.fetch_add(1, Ordering::Relaxed) }
    }

    /// Creates the owner for request `number` of `process`.
    #[must_use]
    pub const fn new(process: u64, number: u64) -> Self {
        Self { process, number }
    }
}

impl fmt::Display for Owner {
    /// Formats the owner as in Redis: `8f3a09c1d2e4b576-2a`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:x}", self.process, self.number)
    }
}

/// Returns random bits from the operating system, or from the standard library's `RandomState` if that fails.
fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| RandomState::new().build_hasher().finish())
}

/// Slots of one key: owners, and when their slots expire. `lua/concurrency.lua` makes the same decisions.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    ends_us: HashMap<Owner, u64>,
    by_end: BTreeSet<(u64, Owner)>,
}

/// Result of an operation and the state of the key after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Result of the operation.
    pub step: Step,
    /// Number of held slots.
    pub held: u64,
    /// Microseconds until the first slot expires; 0 if no slot is held.
    pub ends_in_us: u64,
}

/// Result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Acquire and renew: other owners hold all slots. Release: the owner held none.
    Refused,
    /// The owner holds the slot, or has released it.
    Done,
    /// Renew: the slot had expired, and the owner acquired a free slot.
    Retaken,
}

impl Slots {
    /// Acquires a slot for `owner`. An owner that already holds a slot keeps it for longer.
    pub fn acquire(&mut self, owner: Owner, limit: u64, ttl_us: u64, now_us: u64) -> Reply {
        let step = if self.take(owner, limit, ttl_us, now_us) { Step::Done } else { Step::Refused };
        self.reply(step, now_us)
    }

    /// Renews the slot of `owner`. If it has expired, acquires a slot if one is free.
    pub fn renew(&mut self, owner: Owner, limit: u64, ttl_us: u64, now_us: u64) -> Reply {
        let held = self.holds(owner, now_us);
        let step = match (self.take(owner, limit, ttl_us, now_us), held) {
            (true, true) => Step::Done,
            (true, false) => Step::Retaken,
            (false, _) => Step::Refused,
        };
        self.reply(step, now_us)
    }

    /// Releases the slot of `owner` only.
    pub fn release(&mut self, owner: Owner, now_us: u64) -> Reply {
        let step = if self.holds(owner, now_us) { Step::Done } else { Step::Refused };
        self.remove(owner);
        self.reply(step, now_us)
    }

    /// Returns true if no slot is stored, not even an expired one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends_us.is_empty()
    }

    /// Returns true if the slot of `owner` has not expired.
    fn holds(&self, owner: Owner, now_us: u64) -> bool {
        self.ends_us.get(&owner).is_some_and(|end_us| *end_us > now_us)
    }

    /// Takes a slot unless other owners hold all slots. Only success removes expired slots, so a refusal writes nothing.
    fn take(&mut self, owner: Owner, limit: u64, ttl_us: u64, now_us: u64) -> bool {
        if !self.holds(owner, now_us) && self.held(now_us) >= limit {
            return false;
        }
        while let Some((_, owner)) = self.by_end.first().filter(|(end_us, _)| *end_us <= now_us).copied() {
            self.remove(owner);
        }
        self.remove(owner);
        let end_us = now_us.saturating_add(ttl_us);
        self.ends_us.insert(owner, end_us);
        self.by_end.insert((end_us, owner));
        true
    }

    fn remove(&mut self, owner: Owner) {
        if let Some(end_us) = self.ends_us.remove(&owner) {
            self.by_end.remove(&(end_us, owner));
        }
    }

    fn held(&self, now_us: u64) -> u64 {
        let ended = self.by_end.range(..=(now_us, Owner::LAST)).count();
        (self.ends_us.len() - ended) as u64
    }

    fn reply(&self, step: Step, now_us: u64) -> Reply {
        let first = self.by_end.range((Bound::Excluded((now_us, Owner::LAST)), Bound::Unbounded)).next();
        Reply { step, held: self.held(now_us), ends_in_us: first.map_or(0, |(end_us, _)| end_us - now_us) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Owner = Owner::of(1);
    const B: Owner = Owner::of(2);

    impl Owner {
        const fn of(number: u64) -> Self {
            Self::new(7, number)
        }
    }

    fn reply(step: Step, held: u64, ends_in_us: u64) -> Reply {
        Reply { step, held, ends_in_us }
    }

    #[test]
    fn a_limit_of_one_is_a_lock() {
        let mut slots = Slots::default();
        assert_eq!(slots.acquire(A, 1, 100, 0), reply(Step::Done, 1, 100));
        assert_eq!(slots.acquire(B, 1, 100, 10), reply(Step::Refused, 1, 90));
        assert_eq!(slots.release(B, 20), reply(Step::Refused, 1, 80), "only the owner releases its slot");
        assert_eq!(slots.release(A, 30), reply(Step::Done, 0, 0));
        assert_eq!(slots.acquire(B, 1, 100, 30), reply(Step::Done, 1, 100));
    }

    #[test]
    fn a_slot_expires_at_its_time_and_not_before() {
        let mut slots = Slots::default();
        slots.acquire(A, 1, 100, 0);
        assert_eq!(slots.acquire(B, 1, 100, 99), reply(Step::Refused, 1, 1));
        assert_eq!(slots.acquire(B, 1, 100, 100), reply(Step::Done, 1, 100));
        assert_eq!(slots.release(A, 100), reply(Step::Refused, 1, 100), "the slot belongs to another owner");
    }

    #[test]
    fn a_renewal_extends_the_slot_takes_a_free_slot_or_is_refused() {
        let mut slots = Slots::default();
        slots.acquire(A, 1, 100, 0);
        assert_eq!(slots.renew(A, 1, 100, 90), reply(Step::Done, 1, 100));
        assert_eq!(slots.renew(A, 1, 100, 190), reply(Step::Retaken, 1, 100));
        slots.acquire(B, 1, 100, 290);
        assert_eq!(slots.renew(A, 1, 100, 300), reply(Step::Refused, 1, 90));
        slots.release(B, 310);
        assert_eq!(slots.renew(A, 1, 100, 320), reply(Step::Retaken, 1, 100));
    }

    #[test]
    fn a_lowered_limit_revokes_no_slot() {
        let mut slots = Slots::default();
        slots.acquire(A, 2, 100, 0);
        slots.acquire(B, 2, 100, 0);
        assert_eq!(slots.renew(A, 1, 100, 50), reply(Step::Done, 2, 50));
        assert_eq!(slots.acquire(Owner::of(3), 1, 100, 50), reply(Step::Refused, 2, 50));
    }

    #[test]
    fn a_clock_that_jumps_back_frees_nothing_and_a_slot_without_end_stays() {
        let mut slots = Slots::default();
        slots.acquire(A, 1, 100, 1_000);
        assert_eq!(slots.acquire(B, 1, 100, 0), reply(Step::Refused, 1, 1_100));
        slots.release(A, 0);
        slots.acquire(A, 1, u64::MAX, 5);
        assert_eq!(slots.acquire(B, 1, 100, u64::MAX - 1), reply(Step::Refused, 1, 1));
    }

    #[test]
    fn owners_share_the_process_and_differ_by_number() {
        let (one, other) = (Owner::fresh(), Owner::fresh());
        assert_ne!(one, other);
        assert_eq!(one.to_string()[..17], other.to_string()[..17]);
        assert_eq!(Owner::new(0x8f3a_09c1_d2e4_b576, 42).to_string(), "8f3a09c1d2e4b576-2a");
    }
}
