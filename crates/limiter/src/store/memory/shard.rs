//! Shard: the states behind one lock.

use serde::{Deserialize, Serialize};

use super::shares::{Demand, Owner, Released, Shares};
use super::snapshot::Owners;
use super::table::{KeyHash, Table};
use crate::algorithm::fixed_window::Windows;
use crate::algorithm::leaky_bucket::QueueState;
use crate::algorithm::quota::QuotaState;
use crate::algorithm::sliding_window_counter::Counters;
use crate::algorithm::sliding_window_log::Log;
use crate::algorithm::token_bucket::Bucket;
use crate::algorithm::{Moment, State};
use crate::sync::{Mutex, MutexGuard};

/// Shortest time between two sweeps of a shard for new keys of a full store. It bounds the scans during a flood of keys.
const SWEEP_AGAIN_AFTER_US: u64 = 100_000;

/// Smallest number of new keys between two sweeps that are due to new keys.
const MIN_INSERTS: usize = 256;

/// Largest apparent step back of the clock that is explained by waiting for the lock. A larger step means that the
/// clock was set back.
const OVERTAKEN_WITHIN_US: u64 = 1_000_000;

/// Lock and tables, aligned to two cache lines since processors prefetch in pairs.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Shard(Mutex<States>);

/// Defines [`Tables`] with one table for each type of state.
macro_rules! tables {
    ($($table:ident: $state:ty,)+) => {
        /// One table for each type of state.
        #[derive(Default)]
        pub(super) struct Tables {
            $($table: Table<$state>,)+
        }

        $(impl Stored for $state {
            #[inline]
            fn table(tables: &mut Tables) -> &mut Table<Self> {
                &mut tables.$table
            }
        })+

        /// States of [`Tables`] in a snapshot: hashes of keys, owners and states.
        #[derive(Serialize, Deserialize)]
        pub(super) struct SavedTables {
            $($table: Vec<(KeyHash, usize, $state)>,)+
        }

        impl Tables {
            fn save(&self, now: Moment) -> SavedTables {
                SavedTables { $($table: self.$table.live(now).collect(),)+ }
            }

            /// Adds the states that have not expired and whose keys are `wanted`. Returns the owners of those that are new.
            fn load(
                &mut self,
                saved: &SavedTables,
                (owners, flows): (&Owners, &[u32]),
                now: Moment,
                wanted: impl Fn(KeyHash) -> bool,
            ) -> Vec<Owner> {
                let mut added = Vec::new();
                $(for (hash, owner, state) in saved.$table.iter().filter(|(hash, ..)| wanted(*hash)) {
                    let (mut state, owner) = (state.clone(), owners.get(*owner).copied().unwrap_or_default());
                    if state.renumber(flows) && !state.is_expired(now) && self.$table.add(*hash, state, owner) {
                        added.push(owner);
                    }
                })+
                added
            }

            fn sweep(&mut self, now: Moment, released: &mut Released) {
                $(self.$table.sweep(now, released);)+
            }

            fn slots(&self) -> usize {
                0 $(+ self.$table.slots())+
            }

            fn allocated_bytes(&self) -> usize {
                0 $(+ self.$table.allocated_bytes())+
            }
        }
    };
}

tables! {
    buckets: Bucket,
    windows: Windows,
    logs: Log,
    counters: Counters,
    queues: QueueState,
    quotas: QuotaState,
}

/// States of the keys of a shard.
#[derive(Default)]
pub(super) struct States {
    tables: Tables,
    /// One shared state per scope, for keys of this shard without room. `None` until a key needs it.
    shared: Option<Box<Tables>>,
    swept_at_us: Option<u64>,
    /// New keys since the last sweep.
    inserts: usize,
    /// Slots of all tables after the last sweep. As many new keys make the next sweep due.
    slots_swept: usize,
    /// Latest decision in this shard.
    pub(super) latest: Tick,
}

/// Time of a decision, with its number among the decisions of the same microsecond: a hybrid logical clock
/// (Kulkarni et al., 2014). Decisions that share a shard have different ticks, in the order in which they took its lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tick {
    pub(super) us: u64,
    pub(super) order: u32,
}

/// States of a shard in a snapshot.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedShard {
    latest_us: u64,
    tables: SavedTables,
    shared: Option<SavedTables>,
}

/// Type of state that has a table.
pub(super) trait Stored: State {
    fn table(tables: &mut Tables) -> &mut Table<Self>;
}

impl Shard {
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, States> {
        self.0.lock()
    }
}

impl States {
    /// Returns the tick of a decision that read the clock before it took the lock.
    #[inline]
    pub(super) fn tick(&mut self, now_us: u64) -> Tick {
        self.latest = self.latest.next(now_us);
        self.latest
    }

    #[inline]
    pub(super) fn table<S: Stored>(&mut self) -> &mut Table<S> {
        S::table(&mut self.tables)
    }

    /// Returns the state that keys of `scope` without room share, for a key without a state of its own.
    pub(super) fn shared<S: Stored>(&mut self, scope: KeyHash) -> Option<&S> {
        S::table(self.shared.as_mut()?).get(scope)
    }

    /// Sets the shared state of `scope`.
    pub(super) fn set_shared<S: Stored>(&mut self, scope: KeyHash, state: S, now: Moment) {
        S::table(self.shared.get_or_insert_default()).set(scope, state, now);
    }

    /// Inserts the state of a new key of `scope`. `shares` counts the keys of all shards.
    ///
    /// Sweeps once per as many new keys as there are slots, so that expired states do not accumulate. Returns the state
    /// if there is no room and no expired state can be dropped.
    pub(super) fn insert<S: Stored>(
        &mut self,
        (hash, scope): (KeyHash, KeyHash),
        state: S,
        now: Moment,
        shares: &Mutex<Shares>,
        demand: Demand,
    ) -> Result<(), S> {
        self.inserts += 1;
        if self.inserts > self.slots_swept.max(MIN_INSERTS) {
            self.sweep(now, shares);
        }
        let expired = self.table::<S>().expired_slot(hash, now);
        let owner = shares.lock().take(scope, expired.map(|(_, owner)| owner), demand);
        if let (Some((index, _)), Some(owner)) = (expired, owner) {
            self.table().replace(index, hash, state, owner);
            return Ok(());
        }
        let Some(owner) = owner.or_else(|| self.take_swept(scope, now, shares)) else { return Err(state) };
        if self.table::<S>().must_grow() {
            self.sweep(now, shares);
            self.table::<S>().make_room();
        }
        self.table().insert_new(hash, state, owner);
        Ok(())
    }

    /// Takes room after a sweep, unless the last sweep was shortly before.
    fn take_swept(&mut self, scope: KeyHash, now: Moment, shares: &Mutex<Shares>) -> Option<Owner> {
        let rested = self.swept_at_us.is_none_or(|at| now.now_us.abs_diff(at) >= SWEEP_AGAIN_AFTER_US);
        if !rested {
            return None;
        }
        self.sweep(now, shares);
        shares.lock().take(scope, None, Demand::IfFree)
    }

    /// Drops expired states and shrinks the tables to the others.
    pub(super) fn sweep(&mut self, now: Moment, shares: &Mutex<Shares>) {
        self.swept_at_us = Some(now.now_us);
        self.inserts = 0;
        let mut released = Released::default();
        self.tables.sweep(now, &mut released);
        shares.lock().release(&released);
        self.slots_swept = self.tables.slots();
        if let Some(shared) = &mut self.shared {
            // Shared states are not counted: there are at most as many as limiters.
            shared.sweep(now, &mut Released::default());
        }
        self.shared.take_if(|shared| shared.slots() == 0);
    }

    /// Returns the states that have not expired at `now`.
    pub(super) fn save(&self, now: Moment) -> SavedShard {
        let shared = self.shared.as_ref().map(|shared| shared.save(now));
        SavedShard { latest_us: self.latest.us, tables: self.tables.save(now), shared }
    }

    /// Adds the states of a snapshot whose keys are `wanted`, with the owners and flows that stand for its own. Returns the
    /// number of keys.
    pub(super) fn load(
        &mut self,
        saved: &SavedShard,
        numbers: (&Owners, &[u32]),
        now: Moment,
        shares: &Mutex<Shares>,
        wanted: impl Fn(KeyHash) -> bool,
    ) -> usize {
        self.latest = self.latest.max(Tick { us: saved.latest_us, order: 0 });
        let added = self.tables.load(&saved.tables, numbers, now, wanted);
        let mut shares = shares.lock();
        added.iter().for_each(|owner| shares.count(*owner));
        if let Some(shared) = &saved.shared {
            self.shared.get_or_insert_default().load(shared, numbers, now, |_| true);
        }
        added.len()
    }

    /// Returns the memory of the tables, in bytes.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.tables.allocated_bytes() + self.shared.as_ref().map_or(0, |shared| shared.allocated_bytes())
    }
}

impl Tick {
    /// Returns the tick of a decision after this one, that read `now_us` before it took the lock.
    ///
    /// If a thread with a later time took the lock first, that time is returned, so time never runs back for a key.
    #[inline]
    pub(super) fn next(self, now_us: u64) -> Self {
        if self.us.wrapping_sub(now_us) > OVERTAKEN_WITHIN_US {
            return Self { us: now_us, order: 0 };
        }
        Self { us: self.us, order: self.order.wrapping_add(1) }
    }

    /// Moves `now`, which was read before the lock, to this tick, on both clocks.
    #[inline]
    pub(super) fn moment(self, now: Moment) -> Moment {
        Moment { now_us: self.us, wall_us: now.wall_us.wrapping_add(self.us.wrapping_sub(now.now_us)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_grow_unless_the_clock_is_set_back() {
        let first = Tick { us: 5_000_000, order: 0 };
        let overtaken = first.next(4_999_998);
        assert_eq!(overtaken, Tick { us: 5_000_000, order: 1 });
        assert_eq!(overtaken.next(5_000_000), Tick { us: 5_000_000, order: 2 });
        assert_eq!(overtaken.next(5_000_001), Tick { us: 5_000_001, order: 0 });
        assert_eq!(overtaken.next(3_000_000), Tick { us: 3_000_000, order: 0 });
        let wall_us = overtaken.moment(Moment { now_us: 4_999_998, wall_us: 70 }).wall_us;
        assert_eq!(wall_us, 72, "the wall clock moves with the other");
    }
}
