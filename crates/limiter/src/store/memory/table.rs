//! Open-addressing table with linear probing for states that expire.
//!
//! There are no tombstones. The next new key that probes the slot of an expired state overwrites it, and rebuilding the
//! table leaves expired states out. Deleting a key rebuilds the table. The table grows by a quarter at a load of 0.8, so
//! an entry of 24 bytes takes 30 to 38.

use crate::algorithm::State;

/// Smallest number of slots of a table that is not empty.
const MIN_SLOTS: usize = 16;

/// Hash of a key: one half selects the shard, the other selects the slot and is stored there to recognise the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHash {
    shard: u64,
    fingerprint: u64,
}

struct Slot<S> {
    fingerprint: u64,
    state: S,
}

/// States by key hash.
pub(super) struct Table<S> {
    slots: Box<[Slot<S>]>,
    used: usize,
}

// === impl KeyHash ===

impl KeyHash {
    #[inline]
    pub(super) fn new(shard: u64, fingerprint: u64) -> Self {
        Self { shard, fingerprint }
    }

    /// Returns the index of the key's shard among `shards`, a power of two.
    #[inline]
    pub(super) fn shard(self, shards: usize) -> usize {
        self.shard as usize & (shards - 1)
    }
}

/// Returns the first slot to probe: the fingerprint as a fraction of all slots.
///
/// Unlike a remainder, this is fast for any number of slots and keeps the order when a table is rebuilt.
#[inline]
fn first_slot(fingerprint: u64, slots: usize) -> usize {
    ((u128::from(fingerprint) * slots as u128) >> 64) as usize
}

// === impl Slot ===

impl<S: State> Slot<S> {
    #[inline]
    fn is_empty(&self) -> bool {
        self.state.expires_at_us() == 0
    }

    #[inline]
    fn is_expired(&self, now_us: u64) -> bool {
        self.state.expires_at_us() <= now_us
    }
}

// === impl Table ===

impl<S> Default for Table<S> {
    fn default() -> Self {
        Self { slots: Box::default(), used: 0 }
    }
}

impl<S: State> Table<S> {
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn allocated_bytes(&self) -> usize {
        size_of_val(&*self.slots) + self.slots.iter().map(|slot| slot.state.heap_bytes()).sum::<usize>()
    }

    #[inline]
    pub(super) fn get(&self, hash: KeyHash) -> Option<&S> {
        self.find(hash).map(|index| &self.slots[index].state)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, hash: KeyHash) -> Option<&mut S> {
        self.find(hash).map(|index| &mut self.slots[index].state)
    }

    /// Sets the state of a new or known key; grows the table if necessary.
    pub(super) fn set(&mut self, hash: KeyHash, state: S, now_us: u64) {
        if let Some(known) = self.get_mut(hash) {
            *known = state;
        } else if let Err(state) = self.replace_expired(hash, state, now_us) {
            self.make_room();
            self.insert_new(hash, state);
        }
    }

    /// Overwrites an expired state with that of a new key if probing meets one; otherwise returns the state.
    pub(super) fn replace_expired(&mut self, hash: KeyHash, state: S, now_us: u64) -> Result<(), S> {
        let reusable = self.probe(hash).take_while(|&index| !self.slots[index].is_empty());
        match { reusable }.find(|&index| self.slots[index].is_expired(now_us)) {
            Some(index) => {
                self.slots[index] = Slot { fingerprint: hash.fingerprint, state };
                Ok(())
            }
            None => Err(state),
        }
    }

    /// True if one more key would exceed a load of 0.8.
    pub(super) fn must_grow(&self) -> bool {
        (self.used + 1) * 5 > self.slots.len() * 4
    }

    /// Grows by a quarter if one more key would exceed a load of 0.8.
    pub(super) fn make_room(&mut self) {
        if self.must_grow() {
            self.rebuild(0);
        }
    }

    /// Inserts the state of a new key. The table must have room.
    pub(super) fn insert_new(&mut self, hash: KeyHash, state: S) {
        let free = self.probe(hash).find(|&index| self.slots[index].is_empty());
        debug_assert!(free.is_some(), "the table has room");
        if let Some(index) = free {
            self.slots[index] = Slot { fingerprint: hash.fingerprint, state };
            self.used += 1;
        }
    }

    /// Deletes the state of a key; returns false if there is none. Costs as much as a sweep.
    pub(super) fn forget(&mut self, hash: KeyHash) -> bool {
        let Some(index) = self.find(hash) else { return false };
        self.slots[index].state = S::EMPTY;
        self.rebuild(0);
        true
    }

    /// Drops the states expired at `now_us`, shrinks the table to the others and returns the number of dropped states.
    pub(super) fn sweep(&mut self, now_us: u64) -> usize {
        let before = self.used;
        if self.slots.iter().any(|slot| !slot.is_empty() && slot.is_expired(now_us)) {
            self.rebuild(now_us);
        }
        before - self.used
    }

    /// Moves the states not expired at `now_us` into a table at a load of 0.64.
    fn rebuild(&mut self, now_us: u64) {
        let live = self.slots.iter().filter(|slot| !slot.is_expired(now_us)).count();
        let slots = if live == 0 && now_us > 0 { 0 } else { (live * 25 / 16 + 1).max(MIN_SLOTS) };
        let empty = || Slot { fingerprint: 0, state: S::EMPTY };
        let old = std::mem::replace(&mut self.slots, std::iter::repeat_with(empty).take(slots).collect());
        self.used = 0;
        for slot in old.into_iter().filter(|slot| !slot.is_expired(now_us)) {
            self.insert_new(KeyHash { shard: 0, fingerprint: slot.fingerprint }, slot.state);
        }
    }

    #[inline]
    fn find(&self, hash: KeyHash) -> Option<usize> {
        // Two explicit loops: every decision runs this, and chained iterators are slower.
        let start = first_slot(hash.fingerprint, self.slots.len());
        let (before, from) = self.slots.split_at_checked(start)?;
        for (first, part) in [(start, from), (0, before)] {
            for (offset, slot) in part.iter().enumerate() {
                if slot.fingerprint == hash.fingerprint && !slot.is_empty() {
                    return Some(first + offset);
                }
                if slot.is_empty() {
                    return None;
                }
            }
        }
        None
    }

    /// Returns all slots in probing order.
    #[inline]
    fn probe(&self, hash: KeyHash) -> impl Iterator<Item = usize> + use<S> {
        let start = first_slot(hash.fingerprint, self.slots.len());
        (start..self.slots.len()).chain(0..start)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::token_bucket::Bucket;

    fn bucket(full_at_us: u64) -> Bucket {
        Bucket { full_at_us, flow: 0, rem: 0 }
    }

    fn hash(fingerprint: u64) -> KeyHash {
        KeyHash { shard: 0, fingerprint }
    }

    #[test]
    fn forget_deletes_one_key_and_keeps_the_others() {
        let mut table = Table::default();
        // All at one home, so that each stands in the way of the next.
        (1..=12).for_each(|n| table.set(hash(n), bucket(n), 0));
        assert!(table.forget(hash(4)) && !table.forget(hash(4)) && !table.forget(hash(99)));
        assert_eq!((table.used, table.get(hash(4)).is_none()), (11, true));
        assert!((1..=12).filter(|n| *n != 4).all(|n| table.get(hash(n)).is_some_and(|b| b.full_at_us == n)));
    }

    #[test]
    fn a_slot_takes_24_bytes() {
        assert_eq!(size_of::<Slot<Bucket>>(), 24);
    }

    #[test]
    fn an_empty_table_owns_no_memory_and_finds_nothing() {
        let table = Table::default();
        assert_eq!((table.allocated_bytes(), table.get(hash(1))), (0, None::<&Bucket>));
    }

    #[test]
    fn keys_that_probe_from_one_slot_are_all_found() {
        let mut table = Table::default();
        let crowd: Vec<u64> = (0..1_000).map(|i| u64::MAX - i).collect();
        crowd.iter().for_each(|&fp| table.set(hash(fp), bucket(fp), 0));
        assert!(crowd.iter().all(|&fp| table.get(hash(fp)) == Some(&bucket(fp))));
        assert_eq!(table.get(hash(7)), None);
    }

    #[test]
    fn an_entry_takes_at_most_40_bytes_from_a_few_dozen_on() {
        let mut table = Table::default();
        for n in 1..20_000u64 {
            table.set(hash(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)), bucket(1), 0);
            assert!(n < 40 || table.allocated_bytes() <= 40 * n as usize, "{n} keys take {}", table.allocated_bytes());
        }
    }

    #[test]
    fn an_expired_state_yields_its_slot_to_a_new_key() {
        let mut table = Table::default();
        table.set(hash(5), bucket(10), 0);
        assert!(table.replace_expired(hash(6), bucket(20), 9).is_err());
        assert!(table.replace_expired(hash(6), bucket(20), 10).is_ok());
        assert_eq!((table.get(hash(5)), table.get(hash(6))), (None, Some(&bucket(20))));
    }

    #[test]
    fn sweeping_all_states_releases_the_memory() {
        let mut table = Table::default();
        (1..100).for_each(|fp| table.set(hash(fp << 56), bucket(9), 0));
        assert_eq!(table.sweep(8), 0);
        assert_eq!(table.sweep(9), 99);
        assert_eq!(table.allocated_bytes(), 0);
        table.set(hash(1), bucket(12), 10);
        assert_eq!(table.get(hash(1)), Some(&bucket(12)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn behaves_like_a_map_that_may_drop_expired_states(
            steps in prop::collection::vec((0u64..60, 1u64..100, 0u64..3, 0u8..20), 1..300)
        ) {
            let (mut table, mut map, mut now_us) = (Table::default(), HashMap::new(), 0);
            for (key, fills_in, gap, action) in steps {
                now_us += gap;
                let key = key.wrapping_mul(if key % 2 == 0 { 1 } else { 0x9E37_79B9_7F4A_7C15 });
                if action == 0 {
                    table.sweep(now_us);
                } else {
                    table.set(hash(key), bucket(now_us + fills_in), now_us);
                    map.insert(key, bucket(now_us + fills_in));
                }
                for (&key, &expected) in &map {
                    let found = table.get(hash(key));
                    prop_assert!(found == Some(&expected) || (found.is_none() && expected.full_at_us <= now_us));
                }
                prop_assert!(table.used <= map.len() && table.used * 5 <= table.slots.len() * 4);
            }
        }
    }
}
