//! An open-addressing table with linear probing, made for buckets.
//!
//! Nothing is ever deleted, so there are no tombstones: a bucket that is full again is overwritten by the next new key
//! that passes it, or left out when the table is rebuilt. The table grows by a quarter at a load of 0.8, so that an
//! entry of 24 bytes takes 30 to 38.

use crate::limiter::algorithm::token_bucket::Bucket;

/// The smallest table that holds anything.
const LEAST_SLOTS: usize = 16;

/// A bucket that was full when time began marks a slot that was never used.
const EMPTY: Slot = Slot { fingerprint: 0, bucket: Bucket { full_at_us: 0, rate: 0, rem: 0 } };

/// Where a key belongs: the half of its hash that chooses the shard, and the half that chooses the slot and is kept
/// there to recognise the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    shard: u64,
    fingerprint: u64,
}

#[derive(Clone, Copy)]
struct Slot {
    fingerprint: u64,
    bucket: Bucket,
}

/// Buckets by place.
#[derive(Default)]
pub(super) struct Table {
    slots: Box<[Slot]>,
    used: usize,
}

// === impl Place ===

impl Place {
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

impl Slot {
    #[inline]
    fn is_empty(&self) -> bool {
        self.bucket.full_at_us == 0
    }
}

// === impl Table ===

impl Table {
    pub(super) fn allocated_bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }

    pub(super) fn get(&self, place: Place) -> Option<Bucket> {
        self.find(place).map(|index| self.slots[index].bucket)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, place: Place) -> Option<&mut Bucket> {
        self.find(place).map(|index| &mut self.slots[index].bucket)
    }

    /// Sets the bucket of `place`, known or not; grows if it must.
    pub(super) fn set(&mut self, place: Place, bucket: Bucket, now_us: u64) {
        if let Some(known) = self.get_mut(place) {
            *known = bucket;
        } else if !self.replace_full(place, bucket, now_us) {
            self.make_room();
            self.insert_new(place, bucket);
        }
    }

    /// Puts the bucket of an unknown place over one that is full, if one is on the way.
    pub(super) fn replace_full(&mut self, place: Place, bucket: Bucket, now_us: u64) -> bool {
        let reusable = self.probe(place).take_while(|&index| !self.slots[index].is_empty());
        let found = { reusable }.find(|&index| self.slots[index].bucket.is_full(now_us));
        if let Some(index) = found {
            self.slots[index] = Slot { fingerprint: place.fingerprint, bucket };
        }
        found.is_some()
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

    /// Puts in the bucket of an unknown place. There must be room.
    pub(super) fn insert_new(&mut self, place: Place, bucket: Bucket) {
        let free = self.probe(place).find(|&index| self.slots[index].is_empty());
        debug_assert!(free.is_some(), "room was made before");
        if let Some(index) = free {
            self.slots[index] = Slot { fingerprint: place.fingerprint, bucket };
            self.used += 1;
        }
    }

    /// Leaves out the buckets that are full by `now_us` and fits the table to the others; returns how many those were.
    pub(super) fn sweep(&mut self, now_us: u64) -> usize {
        let before = self.used;
        let full = self.slots.iter().any(|slot| !slot.is_empty() && slot.bucket.is_full(now_us));
        if full {
            self.rebuild(now_us);
        }
        before - self.used
    }

    /// Copies the buckets that are not full by `now_us` into a table at a load of 0.64.
    fn rebuild(&mut self, now_us: u64) {
        let kept = |slot: &&Slot| !slot.bucket.is_full(now_us);
        let live = self.slots.iter().filter(kept).count();
        let slots = if live == 0 && now_us > 0 { 0 } else { (live * 25 / 16 + 1).max(LEAST_SLOTS) };
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; slots].into_boxed_slice());
        self.used = 0;
        for slot in old.iter().filter(kept) {
            self.insert_new(Place { shard: 0, fingerprint: slot.fingerprint }, slot.bucket);
        }
    }

    #[inline]
    fn find(&self, place: Place) -> Option<usize> {
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
    fn probe(&self, place: Place) -> impl Iterator<Item = usize> + use<> {
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

    fn bucket(full_at_us: u64) -> Bucket {
        Bucket { full_at_us, rate: 1, rem: 0 }
    }

    fn place(fingerprint: u64) -> Place {
        Place { shard: 0, fingerprint }
    }

    #[test]
    fn a_slot_takes_24_bytes() {
        assert_eq!(size_of::<Slot>(), 24);
    }

    #[test]
    fn an_empty_table_owns_no_memory_and_finds_nothing() {
        let table = Table::default();
        assert_eq!((table.allocated_bytes(), table.get(place(1))), (0, None));
    }

    #[test]
    fn keys_that_crowd_one_place_are_all_found() {
        let mut table = Table::default();
        let crowd: Vec<u64> = (0..1_000).map(|i| u64::MAX - i).collect();
        crowd.iter().for_each(|&fp| table.set(place(fp), bucket(fp), 0));
        assert!(crowd.iter().all(|&fp| table.get(place(fp)) == Some(bucket(fp))));
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
    fn a_full_bucket_gives_its_slot_to_a_new_key() {
        let mut table = Table::default();
        table.set(place(5), bucket(10), 0);
        assert!(!table.replace_full(place(6), bucket(20), 9));
        assert!(table.replace_full(place(6), bucket(20), 10));
        assert_eq!((table.get(place(5)), table.get(place(6))), (None, Some(bucket(20))));
    }

    #[test]
    fn sweeping_everything_gives_the_memory_back() {
        let mut table = Table::default();
        (1..100).for_each(|fp| table.set(place(fp << 56), bucket(9), 0));
        assert_eq!(table.sweep(8), 0);
        assert_eq!(table.sweep(9), 99);
        assert_eq!(table.allocated_bytes(), 0);
        table.set(place(1), bucket(12), 10);
        assert_eq!(table.get(place(1)), Some(bucket(12)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn behaves_as_a_map_that_may_forget_full_buckets(
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
                    prop_assert!(found == Some(expected) || (found.is_none() && expected.is_full(now_us)));
                }
                prop_assert!(table.used <= map.len() && table.used * 5 <= table.slots.len() * 4);
            }
        }
    }
}
