//! Open-addressing table with linear probing for states that expire.
//!
//! There are no tombstones. The next new key that probes the slot of an expired state overwrites it, and rebuilding the
//! table leaves expired states out. Deleting a key rebuilds the table. The table grows by a fifth at a load of 0.8, so
//! an entry of 26 bytes takes 33 to 39.

use serde::{Deserialize, Serialize};

use super::shares::{Owner, Released};
use crate::algorithm::{Moment, State};

/// Smallest number of slots of a table that is not empty.
const MIN_SLOTS: usize = 16;

/// Hash of a key: its last bits select the shard, its first ones the slot, and all of them recognise the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct KeyHash(pub(super) u64);

struct Slot<S> {
    hash: KeyHash,
    state: S,
}

/// States by key hash.
pub(super) struct Table<S> {
    slots: Box<[Slot<S>]>,
    /// Owner of the room of each slot, apart from the slots since decisions about known keys do not read it.
    owners: Box<[Owner]>,
    used: usize,
}

// === impl KeyHash ===

impl KeyHash {
    /// Returns the index of the key's shard among `shards`, a power of two.
    #[inline]
    pub(super) fn shard(self, shards: usize) -> usize {
        self.0 as usize & (shards - 1)
    }

    /// Returns the first of `slots` to probe: the hash as a fraction of all slots.
    ///
    /// Unlike a remainder, this is fast for any number of slots and keeps the order when a table is rebuilt.
    #[inline]
    fn first_slot(self, slots: usize) -> usize {
        ((u128::from(self.0) * slots as u128) >> 64) as usize
    }
}

// === impl Slot ===

impl<S: State> Slot<S> {
    #[inline]
    fn is_empty(&self) -> bool {
        self.state.expires_at_us() == 0
    }

    #[inline]
    fn is_expired(&self, now: Moment) -> bool {
        self.state.is_expired(now)
    }
}

// === impl Table ===

impl<S> Default for Table<S> {
    fn default() -> Self {
        Self { slots: Box::default(), owners: Box::default(), used: 0 }
    }
}

impl<S: State> Table<S> {
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn allocated_bytes(&self) -> usize {
        let tables = size_of_val(&*self.slots) + size_of_val(&*self.owners);
        tables + self.slots.iter().map(|slot| slot.state.heap_bytes()).sum::<usize>()
    }

    #[inline]
    pub(super) fn get(&self, hash: KeyHash) -> Option<&S> {
        self.find(hash).map(|index| &self.slots[index].state)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, hash: KeyHash) -> Option<&mut S> {
        self.find(hash).map(|index| &mut self.slots[index].state)
    }

    /// Returns the hashes, owners and states that have not expired at `now`.
    pub(super) fn live(&self, now: Moment) -> impl Iterator<Item = (KeyHash, usize, S)> {
        let slots = self.slots.iter().zip(&self.owners).filter(move |(slot, _)| !slot.is_expired(now));
        slots.map(|(slot, owner)| (slot.hash, owner.index(), slot.state.clone()))
    }

    /// Adds a state of another process. Returns false if there is one of the key.
    pub(super) fn add(&mut self, hash: KeyHash, state: S, owner: Owner) -> bool {
        let is_new = self.find(hash).is_none();
        if is_new {
            self.make_room();
            self.insert_new(hash, state, owner);
        }
        is_new
    }

    /// Sets the state of a new or known key; grows the table if necessary.
    pub(super) fn set(&mut self, hash: KeyHash, state: S, now: Moment) {
        if let Some(known) = self.get_mut(hash) {
            *known = state;
        } else if let Some((index, owner)) = self.expired_slot(hash, now) {
            self.replace(index, hash, state, owner);
        } else {
            self.make_room();
            self.insert_new(hash, state, Owner::default());
        }
    }

    /// Returns the slot of an expired state that probing for a new key meets, with the owner of its room.
    pub(super) fn expired_slot(&self, hash: KeyHash, now: Moment) -> Option<(usize, Owner)> {
        let reusable = self.probe(hash).take_while(|&index| !self.slots[index].is_empty());
        { reusable }.find(|&index| self.slots[index].is_expired(now)).map(|index| (index, self.owners[index]))
    }

    /// Overwrites the state in slot `index`, an [`expired_slot`](Self::expired_slot).
    pub(super) fn replace(&mut self, index: usize, hash: KeyHash, state: S, owner: Owner) {
        self.slots[index] = Slot { hash, state };
        self.owners[index] = owner;
    }

    /// Returns true if one more key would exceed a load of 0.8.
    pub(super) fn must_grow(&self) -> bool {
        (self.used + 1) * 5 > self.slots.len() * 4
    }

    /// Grows by a fifth if one more key would exceed a load of 0.8.
    pub(super) fn make_room(&mut self) {
        if self.must_grow() {
            self.rebuild(Moment::at(0), &mut Released::default());
        }
    }

    /// Inserts the state of a new key. The table must have room.
    pub(super) fn insert_new(&mut self, hash: KeyHash, state: S, owner: Owner) {
        let free = self.probe(hash).find(|&index| self.slots[index].is_empty());
        debug_assert!(free.is_some(), "the table has room");
        if let Some(index) = free {
            self.replace(index, hash, state, owner);
            self.used += 1;
        }
    }

    /// Deletes the state of a key and returns the owner of its room, or `None` if there is none. Costs as much as a
    /// sweep.
    pub(super) fn forget(&mut self, hash: KeyHash) -> Option<Owner> {
        let index = self.find(hash)?;
        self.slots[index].state = S::EMPTY;
        let owner = self.owners[index];
        self.rebuild(Moment::at(0), &mut Released::default());
        Some(owner)
    }

    /// Drops the states expired at `now`, shrinks the table to the others and adds the dropped ones to `released`.
    pub(super) fn sweep(&mut self, now: Moment, released: &mut Released) {
        if self.slots.iter().any(|slot| !slot.is_empty() && slot.is_expired(now)) {
            self.rebuild(now, released);
        }
    }

    /// Moves the states not expired at `now` into a table at a load of 2/3.
    fn rebuild(&mut self, now: Moment, released: &mut Released) {
        let live = self.slots.iter().filter(|slot| !slot.is_expired(now)).count();
        let slots = if live == 0 && now != Moment::at(0) { 0 } else { (live * 3 / 2 + 1).max(MIN_SLOTS) };
        let empty = || Slot { hash: KeyHash(0), state: S::EMPTY };
        let old = std::mem::replace(&mut self.slots, std::iter::repeat_with(empty).take(slots).collect());
        let owners = std::mem::replace(&mut self.owners, vec![Owner::default(); slots].into());
        self.used = 0;
        for (slot, owner) in old.into_iter().zip(owners) {
            if !slot.is_expired(now) {
                self.insert_new(slot.hash, slot.state, owner);
            } else if !slot.is_empty() {
                released.add(owner);
            }
        }
    }

    #[inline]
    fn find(&self, hash: KeyHash) -> Option<usize> {
        // Two explicit loops: every decision runs this, and chained iterators are slower.
        let start = hash.first_slot(self.slots.len());
        let (before, from) = self.slots.split_at_checked(start)?;
        for (first, part) in [(start, from), (0, before)] {
            for (offset, slot) in part.iter().enumerate() {
                if slot.hash == hash && !slot.is_empty() {
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
        let start = hash.first_slot(self.slots.len());
        (start..self.slots.len()).chain(0..start)
    }
}

#[cfg(test)]
mod tests;
