//! Decisions under several rules, and corrections.

use super::shard::{States, Stored, Tick};
use super::{KeyLocation, MemoryStore};
use crate::algorithm::{Algorithm, Moment, State};
use crate::rule::{Rule, by_algorithm};
use crate::store::{Check, MAX_CHECKS};
use crate::sync::MutexGuard;
use crate::verdict::{Outcome, RuleVerdict, Source, Verdict};

/// A check with the location of its key: location, rule and cost.
pub(super) type LocatedCheck<'r> = (KeyLocation, &'r Rule, u64);

/// Locks of all shards of a decision. They are taken in the order of the shards, which prevents deadlocks.
pub(super) struct ShardGuards<'a>([Option<(usize, MutexGuard<'a, States>)>; MAX_CHECKS]);

impl MemoryStore {
    pub(super) fn located<'r>(&self, checks: &[Check<'r>]) -> Vec<LocatedCheck<'r>> {
        checks.iter().map(|check| (self.locate(check.key), check.rule, check.cost)).collect()
    }

    /// Decides under the enforced rules and then, if they allow, under the observed ones.
    pub(super) fn decide_all(
        &self,
        enforced: &[LocatedCheck<'_>],
        observed: &[LocatedCheck<'_>],
        now: Moment,
    ) -> Verdict {
        let locations = enforced.iter().chain(observed).map(|(location, ..)| *location);
        let (mut guards, now, order) = self.lock_all(locations, now);
        let verdict = self.decide_locked(&mut guards, enforced, now, order);
        if observed.is_empty() || !verdict.is_allowed() {
            return verdict;
        }
        verdict.with_observed(self.decide_locked(&mut guards, observed, now, order))
    }

    /// Consumes under every rule or under none.
    fn decide_locked(
        &self,
        guards: &mut ShardGuards<'_>,
        checks: &[LocatedCheck<'_>],
        now: Moment,
        order: u32,
    ) -> Verdict {
        let decide = |&(location, rule, cost): &LocatedCheck<'_>| by_algorithm!(rule, rule => self.peek(guards, location, rule, now, cost));
        let mut verdicts: Vec<RuleVerdict> = checks.iter().map(decide).collect();
        let admitted = verdicts.iter().all(|verdict| verdict.outcome == Outcome::Allowed);
        for (&(location, rule, cost), verdict) in checks.iter().zip(&mut verdicts) {
            let writes = admitted || verdict.outcome != Outcome::Allowed;
            if writes {
                by_algorithm!(rule, rule => self.commit(guards, location, rule, now, cost));
            } else {
                let unchanged = by_algorithm!(rule, rule => self.peek(guards, location, rule, now, 0));
                verdict.remaining = unchanged.remaining;
            }
        }
        let capacities = checks.iter().map(|(_, rule, _)| rule.capacity());
        let verdict = Verdict::combine(verdicts, capacities, Source::Memory);
        verdict.map_or_else(|| Verdict::uncounted(Outcome::Allowed), |verdict| Verdict { order, ..verdict })
    }

    /// Returns the verdict on a request without consuming.
    #[must_use]
    pub fn probe(&self, check: Check<'_>) -> RuleVerdict {
        let (now, location) = (self.moment(), self.locate(check.key));
        let (mut guards, now, _) = self.lock_all(std::iter::once(location), now);
        by_algorithm!(check.rule, rule => self.peek(&mut guards, location, rule, now, check.cost))
    }

    /// Decides checks with known locations, for the fallback of another store.
    #[cfg(feature = "redis")]
    pub(crate) fn decide_located(&self, checks: &[(KeyLocation, Rule, u64)]) -> Verdict {
        let now = self.moment();
        if let [(location, rule, cost)] = checks {
            return by_algorithm!(rule, rule => self.decide_one(now, location.key, || location.scope, rule, *cost));
        }
        let checks: Vec<_> = checks.iter().map(|(location, rule, cost)| (*location, rule, *cost)).collect();
        self.decide_all(&checks, &[], now)
    }

    /// Corrects the tokens consumed by one key. Nothing is returned to a key without a state of its own.
    pub(super) fn settle_one<A: Algorithm<State: Stored>>(
        &self,
        now: Moment,
        location: KeyLocation,
        rule: &A,
        more: i64,
        counted_at_us: u64,
    ) {
        let (mut guards, now, _) = self.lock_all(std::iter::once(location), now);
        let Some(states) = self.states(&mut guards, location) else { return };
        // The tokens may have been taken from an earlier state of the key, so they are not returned to a shared one.
        if more < 0 && states.table::<A::State>().get(location.key).is_none() {
            return;
        }
        if let Some(change) = rule.settle(states.state(location), now, more, counted_at_us) {
            self.write::<A>(states, location, now, change);
        }
    }

    /// Locks the shards of all `locations`. Returns the locks, the time of the decision, which never runs back for a key,
    /// and its order among the decisions of the same microsecond.
    pub(super) fn lock_all(
        &self,
        locations: impl Iterator<Item = KeyLocation>,
        now: Moment,
    ) -> (ShardGuards<'_>, Moment, u32) {
        let mut indexes = [usize::MAX; MAX_CHECKS];
        for (slot, location) in indexes.iter_mut().zip(locations) {
            *slot = location.key.shard(self.shards.len());
        }
        indexes.sort_unstable();
        let mut shards = [const { None }; MAX_CHECKS];
        let (mut before, mut tick) = (usize::MAX, Tick::default());
        for (slot, index) in shards.iter_mut().zip(indexes) {
            if index == before || index == usize::MAX {
                continue;
            }
            before = index;
            let states = self.shards[index].lock();
            tick = tick.max(states.latest.next(now.now_us));
            *slot = Some((index, states));
        }
        // All shards continue at that tick: a later decision on any of them has a later one.
        shards.iter_mut().flatten().for_each(|(_, states)| states.latest = tick);
        (ShardGuards(shards), tick.moment(now), tick.order)
    }

    /// Returns the states of the shard of a key.
    pub(super) fn states<'l>(&self, guards: &'l mut ShardGuards<'_>, location: KeyLocation) -> Option<&'l mut States> {
        let index = location.key.shard(self.shards.len());
        guards.0.iter_mut().flatten().find(|(known, _)| *known == index).map(|(_, states)| &mut **states)
    }

    /// Decides without consuming.
    fn peek<A: Algorithm<State: Stored>>(
        &self,
        guards: &mut ShardGuards<'_>,
        location: KeyLocation,
        rule: &A,
        now: Moment,
        cost: u64,
    ) -> RuleVerdict {
        let state = self.states(guards, location).and_then(|states| states.state(location));
        rule.decide(state, now, cost).0
    }

    /// Decides again, with the same outcome, and stores the change.
    fn commit<A: Algorithm<State: Stored>>(
        &self,
        guards: &mut ShardGuards<'_>,
        location: KeyLocation,
        rule: &A,
        now: Moment,
        cost: u64,
    ) {
        let Some(states) = self.states(guards, location) else { return };
        match states.table::<A::State>().get_mut(location.key) {
            Some(state) => {
                if let (_, Some(change)) = rule.decide(Some(&*state), now, cost) {
                    *state = A::apply(Some(std::mem::replace(state, A::State::EMPTY)), change);
                }
            }
            None => {
                self.decide_new(states, location, rule, now, cost);
            }
        }
    }

    /// Stores a change of a key's state. A new state is stored without room in the shared one.
    fn write<A: Algorithm<State: Stored>>(
        &self,
        states: &mut States,
        location: KeyLocation,
        now: Moment,
        change: A::Change,
    ) {
        let state = A::apply(states.state(location).cloned(), change);
        match states.table().get_mut(location.key) {
            Some(known) => *known = state,
            None => self.insert(states, location, state, now),
        }
    }
}

impl States {
    /// Returns the state of a key: its own, or the one that its scope shares in this shard.
    pub(super) fn state<S: Stored>(&mut self, location: KeyLocation) -> Option<&S> {
        if self.table::<S>().get(location.key).is_some() {
            return self.table().get(location.key);
        }
        self.shared(location.scope)
    }
}
