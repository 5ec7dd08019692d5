//! An open-addressing table with linear probing, made for states that come to rest.
//!
//! There are no tombstones: a state that rests is overwritten by the next new key that passes it, or left out when the
//! table is rebuilt, which an operator's deletion does at once. The table grows by a quarter at a load of 0.8, so that an entry of
//! 24 bytes takes 30 to 38.

use crate::algorithm::State;

/// The smallest table that holds anything.
const LEAST_SLOTS: usize = 16;

/// Where a key belongs: the half of its hash that chooses the shard, and the half that chooses the slot and is kept
/// there to recognise the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHash {
    shard: u64,
    fingerprint: u64,
}

struct Slot<S> {
    fingerprint: u64,
    state: S,
}

/// States by place.
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

    /// Its shard among `shards`, a power of two.
    #[inline]
    pub(super) fn shard(self, shards: usize) -> usize {
        self.shard as usize & (shards - 1)
    }
}

/// The slot among `slots` in which to look first: the fingerprint as a fraction of all. Unlike a remainder this takes
/// any number of slots, and keeps the order when a table is rebuilt.
#[inline]
fn home(fingerprint: u64, slots: usize) -> usize {
    ((u128::from(fingerprint) * slots as u128) >> 64) as usize
}

// === impl Slot ===

impl<S: State> Slot<S> {
    #[inline]
    fn is_empty(&self) -> bool {
        self.state.expires_at_us() == 0
    }

    #[inline]
    fn rests(&self, now_us: u64) -> bool {
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
    pub(super) fn allocated_bytes(&self) -> usize {
        size_of_val(&*self.slots) + self.slots.iter().map(|slot| slot.state.heap_bytes()).sum::<usize>()
    }

    #[inline]
    pub(super) fn get(&self, place: KeyHash) -> Option<&S> {
        self.find(place).map(|index| &self.slots[index].state)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, place: KeyHash) -> Option<&mut S> {
        self.find(place).map(|index| &mut self.slots[index].state)
    }

    /// Sets the state of `place`, known or not; grows if it must.
    pub(super) fn set(&mut self, place: KeyHash, state: S, now_us: u64) {
        if let Some(known) = self.get_mut(place) {
            *known = state;
        } else if let Err(state) = self.replace_resting(place, state, now_us) {
            self.make_room();
            self.insert_new(place, state);
        }
    }

    /// Puts the state of an unknown place over one that rests, if one is on the way; otherwise hands it back.
    pub(super) fn replace_resting(&mut self, place: KeyHash, state: S, now_us: u64) -> Result<(), S> {
        let reusable = self.probe(place).take_while(|&index| !self.slots[index].is_empty());
        match { reusable }.find(|&index| self.slots[index].rests(now_us)) {
            Some(index) => {
                self.slots[index] = Slot { fingerprint: place.fingerprint, state };
                Ok(())
            }
            None => Err(state),
        }
    }

    /// Whether one more key would fill more than four fifths.
    pub(super) fn must_grow(&self) -> bool {
        (self.used + 1) * 5 > self.slots.len() * 4
    }

    /// Grows by a quarter if one more key needs it.
    pub(super) fn make_room(&mut self) {
        if self.must_grow() {
            self.rebuild(0);
        }
    }

    /// Puts in the state of an unknown place. There must be room.
    pub(super) fn insert_new(&mut self, place: KeyHash, state: S) {
        let free = self.probe(place).find(|&index| self.slots[index].is_empty());
        debug_assert!(free.is_some(), "room was made before");
        if let Some(index) = free {
            self.slots[index] = Slot { fingerprint: place.fingerprint, state };
            self.used += 1;
        }
    }

    /// Forgets the state of `place`; returns whether there was one. As dear as a sweep.
    pub(super) fn forget(&mut self, place: KeyHash) -> bool {
        let Some(index) = self.find(place) else { return false };
        self.slots[index].state = S::EMPTY;
        self.rebuild(0);
        true
    }

    /// Leaves out the states that rest by `now_us` and fits the table to the others; returns how many those were.
    pub(super) fn sweep(&mut self, now_us: u64) -> usize {
        let before = self.used;
        if self.slots.iter().any(|slot| !slot.is_empty() && slot.rests(now_us)) {
            self.rebuild(now_us);
        }
        before - self.used
    }

    /// Moves the states that do not rest by `now_us` into a table at a load of 0.64.
    fn rebuild(&mut self, now_us: u64) {
        let live = self.slots.iter().filter(|slot| !slot.rests(now_us)).count();
        let slots = if live == 0 && now_us > 0 { 0 } else { (live * 25 / 16 + 1).max(LEAST_SLOTS) };
        let empty = || Slot { fingerprint: 0, state: S::EMPTY };
        let old = std::mem::replace(&mut self.slots, std::iter::repeat_with(empty).take(slots).collect());
        self.used = 0;
        for slot in old.into_iter().filter(|slot| !slot.rests(now_us)) {
            self.insert_new(KeyHash { shard: 0, fingerprint: slot.fingerprint }, slot.state);
        }
    }

    #[inline]
    fn find(&self, place: KeyHash) -> Option<usize> {
        // Written out for both parts of the way: this is every decision's loop, and chained iterators are slower.
        let start = home(place.fingerprint, self.slots.len());
        let (before, from) = self.slots.split_at_checked(start)?;
        for (first, part) in [(start, from), (0, before)] {
            for (offset, slot) in part.iter().enumerate() {
                if slot.fingerprint == place.fingerprint && !slot.is_empty() {
                    return Some(first + offset);
                }
                if slot.is_empty() {
                    return None;
                }
            }
        }
        None
    }

    /// All slots, from the home of `place` on and around.
    #[inline]
    fn probe(&self, place: KeyHash) -> impl Iterator<Item = usize> + use<S> {
        let start = home(place.fingerprint, self.slots.len());
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

    fn place(fingerprint: u64) -> KeyHash {
        KeyHash { shard: 0, fingerprint }
    }

    #[test]
    fn what_is_forgotten_is_gone_and_the_rest_is_found() {
        let mut table = Table::default();
        // All at one home, so that each stands in the way of the next.
        (1..=12).for_each(|n| table.set(place(n), bucket(n), 0));
        assert!(table.forget(place(4)) && !table.forget(place(4)) && !table.forget(place(99)));
        assert_eq!((table.used, table.get(place(4)).is_none()), (11, true));
        assert!((1..=12).filter(|n| *n != 4).all(|n| table.get(place(n)).is_some_and(|b| b.full_at_us == n)));
    }

    #[test]
    fn a_slot_takes_24_bytes() {
        assert_eq!(size_of::<Slot<Bucket>>(), 24);
    }

    #[test]
    fn an_empty_table_owns_no_memory_and_finds_nothing() {
        let table = Table::default();
        assert_eq!((table.allocated_bytes(), table.get(place(1))), (0, None::<&Bucket>));
    }

    #[test]
    fn keys_that_crowd_one_place_are_all_found() {
        let mut table = Table::default();
        let crowd: Vec<u64> = (0..1_000).map(|i| u64::MAX - i).collect();
        crowd.iter().for_each(|&fp| table.set(place(fp), bucket(fp), 0));
        assert!(crowd.iter().all(|&fp| table.get(place(fp)) == Some(&bucket(fp))));
        assert_eq!(table.get(place(7)), None);
    }

    #[test]
    fn an_entry_takes_at_most_40_bytes_from_a_few_dozen_on() {
        let mut table = Table::default();
        for n in 1..20_000u64 {
            table.set(place(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)), bucket(1), 0);
            assert!(n < 40 || table.allocated_bytes() <= 40 * n as usize, "{n} keys take {}", table.allocated_bytes());
        }
    }

    #[test]
    fn a_state_that_rests_gives_its_slot_to_a_new_key() {
        let mut table = Table::default();
        table.set(place(5), bucket(10), 0);
        assert!(table.replace_resting(place(6), bucket(20), 9).is_err());
        assert!(table.replace_resting(place(6), bucket(20), 10).is_ok());
        assert_eq!((table.get(place(5)), table.get(place(6))), (None, Some(&bucket(20))));
    }

    #[test]
    fn sweeping_everything_gives_the_memory_back() {
        let mut table = Table::default();
        (1..100).for_each(|fp| table.set(place(fp << 56), bucket(9), 0));
        assert_eq!(table.sweep(8), 0);
        assert_eq!(table.sweep(9), 99);
        assert_eq!(table.allocated_bytes(), 0);
        table.set(place(1), bucket(12), 10);
        assert_eq!(table.get(place(1)), Some(&bucket(12)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn behaves_as_a_map_that_may_forget_what_rests(
            steps in prop::collection::vec((0u64..60, 1u64..100, 0u64..3, 0u8..20), 1..300)
        ) {
            let (mut table, mut map, mut now_us) = (Table::default(), HashMap::new(), 0);
            for (key, fills_in, gap, action) in steps {
                now_us += gap;
                let key = key.wrapping_mul(if key % 2 == 0 { 1 } else { 0x9E37_79B9_7F4A_7C15 });
                if action == 0 {
                    table.sweep(now_us);
                } else {
                    table.set(place(key), bucket(now_us + fills_in), now_us);
                    map.insert(key, bucket(now_us + fills_in));
                }
                for (&key, &expected) in &map {
                    let found = table.get(place(key));
                    prop_assert!(found == Some(&expected) || (found.is_none() && expected.full_at_us <= now_us));
                }
                prop_assert!(table.used <= map.len() && table.used * 5 <= table.slots.len() * 4);
            }
        }
    }
}
