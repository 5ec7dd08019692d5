//! Decisions under several rules, and corrections.

use super::shard::{States, Stored};
use super::{KeyLocation, MemoryStore};
use crate::algorithm::{Algorithm, Moment, State};
use crate::rule::{Rule, by_algorithm};
use crate::store::MAX_CHECKS;
use crate::sync::{MutexGuard, Ordering};
use crate::verdict::{Outcome, RuleVerdict, Source, Verdict};

/// Locks of all shards of a decision. They are taken in the order of the shards, which prevents deadlocks.
pub(super) struct ShardGuards<'a> {
    shards: [Option<(usize, MutexGuard<'a, States>)>; MAX_CHECKS],
    /// Lock of the shared states. Taken last, and only if a key may need it.
    overflow: Option<MutexGuard<'a, States>>,
}

/// Number of keys that other threads may add during a decision. If fewer keys than this are free, a decision always
/// locks the shared states.
const RESERVE: usize = 1024;

impl MemoryStore {
    /// Decides under all rules, each given as location, rule and cost. Consumes under every rule or under none.
    pub(super) fn decide_all(&self, checks: &[(KeyLocation, &Rule, u64)], now: Moment) -> Verdict {
        let (mut guards, now) = self.lock_all(checks.iter().map(|(location, ..)| *location), now);
        let decide = |&(location, rule, cost): &(KeyLocation, &Rule, u64)| by_algorithm!(rule, rule => self.peek(&mut guards, location, rule, now, cost));
        let mut verdicts: Vec<RuleVerdict> = checks.iter().map(decide).collect();
        let admitted = verdicts.iter().all(|verdict| verdict.outcome == Outcome::Allowed);
        for (&(location, rule, cost), verdict) in checks.iter().zip(&mut verdicts) {
            let writes = admitted || verdict.outcome != Outcome::Allowed;
            if writes {
                by_algorithm!(rule, rule => self.commit(&mut guards, location, rule, now, cost));
            } else {
                let unchanged = by_algorithm!(rule, rule => self.peek(&mut guards, location, rule, now, 0));
                verdict.remaining = unchanged.remaining;
            }
        }
        let capacities = checks.iter().map(|(_, rule, _)| rule.capacity());
        Verdict::combine(verdicts, capacities, Source::Memory).unwrap_or_else(|| Verdict::uncounted(Outcome::Allowed))
    }

    /// Decides checks with known locations, for the fallback of another store.
    #[cfg(feature = "redis")]
    pub(crate) fn decide_located(&self, checks: &[(KeyLocation, Rule, u64)]) -> Verdict {
        let now = self.moment(checks.iter().map(|(_, rule, _)| rule));
        if let [(location, rule, cost)] = checks {
            let verdict =
                by_algorithm!(rule, rule => self.decide_one(now, location.key, || location.scope, rule, *cost));
            return verdict.into_verdict(Source::Memory);
        }
        let checks: Vec<_> = checks.iter().map(|(location, rule, cost)| (*location, rule, *cost)).collect();
        self.decide_all(&checks, now)
    }

    /// Corrects the tokens consumed by one key.
    pub(super) fn settle_one<A>(&self, now: Moment, location: KeyLocation, rule: &A, more: i64, counted_at_us: u64)
    where
        A: Algorithm,
        A::State: Stored,
    {
        let (mut guards, now) = self.lock_all(std::iter::once(location), now);
        let change = rule.settle(self.state::<A>(&mut guards, location), now, more, counted_at_us);
        if let Some(change) = change {
            self.write::<A>(&mut guards, location, now, change);
        }
    }

    /// Locks the shards of all `locations`. Returns the locks and the time of the decision, which never runs back for a
    /// key.
    pub(super) fn lock_all(
        &self,
        locations: impl Iterator<Item = KeyLocation>,
        now: Moment,
    ) -> (ShardGuards<'_>, Moment) {
        let mut indexes = [usize::MAX; MAX_CHECKS];
        let mut keys = 0;
        for (slot, location) in indexes.iter_mut().zip(locations) {
            *slot = location.key.shard(self.shards.len());
            keys += 1;
        }
        indexes.sort_unstable();
        let mut shards = [const { None }; MAX_CHECKS];
        let (mut before, mut latest_us) = (usize::MAX, 0);
        for (slot, index) in shards.iter_mut().zip(indexes) {
            if index == before || index == usize::MAX {
                continue;
            }
            before = index;
            let mut states = self.shards[index].lock();
            latest_us = latest_us.max(states.time(now.now_us));
            *slot = Some((index, states));
        }
        let now = Moment { now_us: latest_us, ..now };
        let overflowing = now.now_us < self.overflow_until_us.load(Ordering::Acquire);
        let overflow = (overflowing || self.len() + keys + RESERVE >= self.max_keys).then(|| self.overflow.lock());
        (ShardGuards { shards, overflow }, now)
    }

    /// Returns the state of a key: its own, or the shared one of its scope.
    pub(super) fn state<'l, A>(&self, guards: &'l mut ShardGuards<'_>, location: KeyLocation) -> Option<&'l A::State>
    where
        A: Algorithm,
        A::State: Stored,
    {
        let ShardGuards { shards, overflow } = guards;
        let own = states(shards, location.key.shard(self.shards.len()))?.table::<A::State>().get(location.key);
        own.or_else(|| overflow.as_mut()?.table().get(location.scope))
    }

    /// Decides without consuming.
    fn peek<A>(
        &self,
        guards: &mut ShardGuards<'_>,
        location: KeyLocation,
        rule: &A,
        now: Moment,
        cost: u64,
    ) -> RuleVerdict
    where
        A: Algorithm,
        A::State: Stored,
    {
        rule.decide(self.state::<A>(guards, location), now, cost).0
    }

    /// Decides again, with the same outcome, and stores the change.
    fn commit<'l, A>(&'l self, guards: &mut ShardGuards<'l>, location: KeyLocation, rule: &A, now: Moment, cost: u64)
    where
        A: Algorithm,
        A::State: Stored,
    {
        let own = states(&mut guards.shards, location.key.shard(self.shards.len()));
        if let Some(state) = own.and_then(|own| own.table::<A::State>().get_mut(location.key)) {
            if let (_, Some(change)) = rule.decide(Some(&*state), now, cost) {
                *state = A::apply(Some(std::mem::replace(state, A::State::EMPTY)), change);
            }
        } else if let (_, Some(change)) = rule.decide(self.state::<A>(guards, location), now, cost) {
            self.write::<A>(guards, location, now, change);
        }
    }

    pub(super) fn write<'l, A>(
        &'l self,
        guards: &mut ShardGuards<'l>,
        location: KeyLocation,
        now: Moment,
        change: A::Change,
    ) where
        A: Algorithm,
        A::State: Stored,
    {
        let inherited = self.state::<A>(guards, location).cloned();
        let ShardGuards { shards, overflow } = guards;
        let Some(own) = states(shards, location.key.shard(self.shards.len())) else { return };
        let state = A::apply(inherited, change);
        if let Some(known) = own.table::<A::State>().get_mut(location.key) {
            *known = state;
        } else if let Err(state) = own.insert(location.key, state, now.now_us, &self.len, self.max_keys) {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
            self.write_to_overflow(overflow, location, now, state);
        }
    }

    fn write_to_overflow<'l, S: Stored>(
        &'l self,
        overflow: &mut Option<MutexGuard<'l, States>>,
        location: KeyLocation,
        now: Moment,
        state: S,
    ) {
        self.overflow_until_us.fetch_max(state.expires_at_us(), Ordering::Release);
        overflow.get_or_insert_with(|| self.overflow.lock()).table().set(location.scope, state, now.now_us);
    }
}

/// Returns the states of shard `index`, if its lock is among `shards`.
fn states<'l>(
    shards: &'l mut [Option<(usize, MutexGuard<'_, States>)>; MAX_CHECKS],
    index: usize,
) -> Option<&'l mut States> {
    shards.iter_mut().flatten().find(|(known, _)| *known == index).map(|(_, states)| &mut **states)
}
