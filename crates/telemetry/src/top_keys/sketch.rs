//! Sketch of the most frequent keys of a stream: Space-Saving with its Stream-Summary.
//!
//! Source: A. Metwally, D. Agrawal, A. El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams",
//! ICDT 2005. Of `n` counted events and `m` entries, a count is at most `n/m` too high and never too low; a key with more
//! than `n/m` events has an entry. Each event takes constant time, whatever the keys are.

use std::hash::BuildHasher;
use std::sync::LazyLock;

use foldhash::fast::RandomState;

/// Bytes of a key id that are kept. Longer ids are told apart by their hash.
const MAX_KEY_BYTES: usize = 128;
/// Bytes reserved for a key id at first.
const KEY_BYTES: usize = 40;
/// Absence of an index.
const NONE: u16 = u16::MAX;
/// Upper bound of the entries of a sketch.
pub(super) const MAX_ENTRIES: usize = 1024;

/// Hasher of key ids. All sketches of the process share it, so that a merge can compare their hashes.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// Counts of the most frequent keys.
#[derive(Debug)]
pub(super) struct Sketch {
    entries: Vec<Entry>,
    /// Entries of equal count, linked in ascending order of the count.
    groups: Vec<Group>,
    free_groups: Vec<u16>,
    lowest: u16,
    highest: u16,
    /// Positions of entries by hash, with linear probing; a power of two above twice the entries.
    index: Box<[u16]>,
    capacity: usize,
    total: u64,
    hasher: RandomState,
}

#[derive(Debug)]
struct Entry {
    hash: u64,
    /// Count that it may have inherited from the keys before it.
    error: u64,
    key: Vec<u8>,
    is_cut: bool,
    group: u16,
    previous: u16,
    next: u16,
}

/// Entries with one count.
#[derive(Clone, Copy, Debug)]
struct Group {
    count: u64,
    first: u16,
    lower: u16,
    higher: u16,
}

/// Count of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyCount {
    /// Key id, or its first 128 bytes.
    pub key: Box<[u8]>,
    /// True if the id is longer than `key`.
    pub is_cut: bool,
    /// Hash of the whole id, which tells cut ids apart.
    pub(super) hash: u64,
    /// Upper bound of its events.
    pub count: u64,
    /// Number by which `count` may be too high.
    pub error: u64,
}

impl Sketch {
    /// Creates an empty sketch of at most `capacity` entries.
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, MAX_ENTRIES);
        Self {
            entries: Vec::new(),
            groups: Vec::new(),
            free_groups: Vec::new(),
            lowest: NONE,
            highest: NONE,
            index: vec![NONE; (2 * capacity).next_power_of_two()].into(),
            capacity,
            total: 0,
            hasher: HASHER.clone(),
        }
    }

    /// Returns the number of events.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Counts an event of `key`.
    #[inline]
    pub(super) fn observe(&mut self, key: &[u8]) {
        let hash = self.hasher.hash_one(key);
        let is_cut = key.len() > MAX_KEY_BYTES;
        let kept = if is_cut { &key[..MAX_KEY_BYTES] } else { key };
        self.total += 1;
        match self.find(hash, kept) {
            Ok(entry) => self.increment(entry),
            Err(free) => self.insert(hash, kept, is_cut, free),
        }
    }

    /// Returns the `most` keys of the highest counts, and an upper bound for the count of all others.
    pub(super) fn top(&self, most: usize) -> (Vec<KeyCount>, u64) {
        let mut top = Vec::with_capacity(most.min(self.entries.len()));
        let mut group = self.highest;
        while group != NONE {
            let Group { count, first, lower, .. } = self.groups[usize::from(group)];
            let mut entry = first;
            while entry != NONE {
                if top.len() == most {
                    return (top, count);
                }
                let Entry { key, is_cut, hash, error, next, .. } = &self.entries[usize::from(entry)];
                let (is_cut, hash, error) = (*is_cut, *hash, *error);
                top.push(KeyCount { key: key.as_slice().into(), is_cut, hash, count, error });
                entry = *next;
            }
            group = lower;
        }
        (top, self.floor())
    }

    /// Upper bound for the count of a key without an entry.
    fn floor(&self) -> u64 {
        if self.entries.len() < self.capacity { 0 } else { self.groups[usize::from(self.lowest)].count }
    }

    /// Returns the position of the entry of `key`, or the free slot of the index where it belongs.
    #[inline]
    fn find(&self, hash: u64, key: &[u8]) -> Result<u16, usize> {
        let mask = self.index.len() - 1;
        let mut slot = slot_of(hash) & mask;
        loop {
            let position = self.index[slot];
            if position == NONE {
                return Err(slot);
            }
            let entry = &self.entries[usize::from(position)];
            if entry.hash == hash && entry.key == key {
                return Ok(position);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Raises the count of an entry by one.
    #[inline]
    fn increment(&mut self, position: u16) {
        let at = self.entries[usize::from(position)].group;
        let Group { count, first, higher, .. } = self.groups[usize::from(at)];
        let is_alone = first == position && self.entries[usize::from(position)].next == NONE;
        let follows = higher != NONE && self.groups[usize::from(higher)].count == count + 1;
        if is_alone && !follows {
            self.groups[usize::from(at)].count += 1;
            return;
        }
        self.detach(position);
        let to = if follows { higher } else { self.add_group(count + 1, at, higher) };
        self.attach(position, to);
        if is_alone {
            self.remove_group(at);
        }
    }

    /// Adds an entry for `key`, which has none. A full sketch replaces one of the lowest count; its count is inherited.
    fn insert(&mut self, hash: u64, key: &[u8], is_cut: bool, free: usize) {
        if let Ok(position) = u16::try_from(self.entries.len())
            && self.entries.len() < self.capacity
        {
            let mut kept = Vec::with_capacity(KEY_BYTES.max(key.len()));
            kept.extend_from_slice(key);
            self.entries.push(Entry { hash, error: 0, key: kept, is_cut, group: NONE, previous: NONE, next: NONE });
            self.index[free] = position;
            let follows = self.lowest != NONE && self.groups[usize::from(self.lowest)].count == 1;
            let group = if follows { self.lowest } else { self.add_group(1, NONE, self.lowest) };
            self.attach(position, group);
            return;
        }
        let Group { count, first: position, .. } = self.groups[usize::from(self.lowest)];
        self.unindex(position);
        let entry = &mut self.entries[usize::from(position)];
        (entry.hash, entry.error, entry.is_cut) = (hash, count, is_cut);
        entry.key.clear();
        entry.key.extend_from_slice(key);
        // The removal may have moved the free slot.
        let free = self.free_slot(hash);
        self.index[free] = position;
        self.increment(position);
    }

    /// Returns the first free slot for `hash`.
    fn free_slot(&self, hash: u64) -> usize {
        let mask = self.index.len() - 1;
        let mut slot = slot_of(hash) & mask;
        while self.index[slot] != NONE {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// Removes an entry from the index. The entries behind it move up, so that every search still finds them.
    fn unindex(&mut self, position: u16) {
        let mask = self.index.len() - 1;
        let mut hole = slot_of(self.entries[usize::from(position)].hash) & mask;
        while self.index[hole] != position {
            hole = (hole + 1) & mask;
        }
        let mut slot = hole;
        loop {
            slot = (slot + 1) & mask;
            let other = self.index[slot];
            if other == NONE {
                break;
            }
            let home = slot_of(self.entries[usize::from(other)].hash) & mask;
            // It may move if its home is not behind the hole.
            if (slot.wrapping_sub(home) & mask) >= (slot.wrapping_sub(hole) & mask) {
                self.index[hole] = other;
                hole = slot;
            }
        }
        self.index[hole] = NONE;
    }

    /// Adds a group between two.
    fn add_group(&mut self, count: u64, lower: u16, higher: u16) -> u16 {
        let group = Group { count, first: NONE, lower, higher };
        let at = match self.free_groups.pop() {
            Some(at) => {
                self.groups[usize::from(at)] = group;
                at
            }
            None => {
                self.groups.push(group);
                u16::try_from(self.groups.len() - 1).unwrap_or(NONE)
            }
        };
        self.link(lower, at);
        self.link(at, higher);
        at
    }

    fn remove_group(&mut self, at: u16) {
        let Group { lower, higher, .. } = self.groups[usize::from(at)];
        self.link(lower, higher);
        self.free_groups.push(at);
    }

    /// Makes two groups neighbours; `NONE` is the end.
    fn link(&mut self, lower: u16, higher: u16) {
        match lower {
            NONE => self.lowest = higher,
            lower => self.groups[usize::from(lower)].higher = higher,
        }
        match higher {
            NONE => self.highest = lower,
            higher => self.groups[usize::from(higher)].lower = lower,
        }
    }

    fn attach(&mut self, position: u16, group: u16) {
        let first = std::mem::replace(&mut self.groups[usize::from(group)].first, position);
        let entry = &mut self.entries[usize::from(position)];
        (entry.group, entry.previous, entry.next) = (group, NONE, first);
        if first != NONE {
            self.entries[usize::from(first)].previous = position;
        }
    }

    fn detach(&mut self, position: u16) {
        let Entry { group, previous, next, .. } = self.entries[usize::from(position)];
        match previous {
            NONE => self.groups[usize::from(group)].first = next,
            previous => self.entries[usize::from(previous)].next = next,
        }
        if next != NONE {
            self.entries[usize::from(next)].previous = previous;
        }
    }
}

/// Slot at which the search for a hash starts.
fn slot_of(hash: u64) -> usize {
    (hash >> 32) as usize
}
