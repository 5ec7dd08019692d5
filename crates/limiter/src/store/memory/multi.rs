//! Several rules at once, and corrections.

use super::shard::{States, Stored};
use super::{KeyLocation, MemoryStore};
use crate::algorithm::{Algorithm, Moment, State};
use crate::rule::{Rule, by_algorithm};
use crate::store::MAX_CHECKS;
use crate::sync::{MutexGuard, Ordering};
use crate::verdict::{Outcome, RuleVerdict, Source, Verdict};

/// The locks of all shards that a decision touches, taken in the order of the shards, so that two decisions never wait
/// for each other.
pub(super) struct ShardGuards<'a> {
    shards: [Option<(usize, MutexGuard<'a, States>)>; MAX_CHECKS],
    /// Taken last, and only if keys may be counted in there.
    overflow: Option<MutexGuard<'a, States>>,
}

/// How many keys other threads may add while a decision is made: nearer to `max_keys` than this it locks what all keys
/// without room share before it looks whether it needs that.
const RESERVE: usize = 1024;

impl MemoryStore {
    /// Decides under all rules, each a place, a rule and a cost: takes from each, or from none.
    pub(super) fn decide_all(&self, checks: &[(KeyLocation, &Rule, u64)], now: Moment) -> Verdict {
        let (mut locked, now) = self.lock_all(checks.iter().map(|(located, ..)| *located), now);
        let decide = |&(located, rule, cost): &(KeyLocation, &Rule, u64)| by_algorithm!(rule, rule => self.peek(&mut locked, located, rule, now, cost));
        let mut answers: Vec<RuleVerdict> = checks.iter().map(decide).collect();
        let admitted = answers.iter().all(|answer| answer.outcome == Outcome::Allowed);
        for (&(located, rule, cost), answer) in checks.iter().zip(&mut answers) {
            let takes = admitted || answer.outcome != Outcome::Allowed;
            if takes {
                by_algorithm!(rule, rule => self.commit(&mut locked, located, rule, now, cost));
            } else {
                let untaken = by_algorithm!(rule, rule => self.peek(&mut locked, located, rule, now, 0));
                answer.remaining = untaken.remaining;
            }
        }
        let capacities = checks.iter().map(|(_, rule, _)| rule.capacity());
        Verdict::combine(answers, capacities, Source::Memory).unwrap_or_else(|| Verdict::uncounted(Outcome::Allowed))
    }

    /// Decides one located check, or several; for a store that stands in for another.
    #[cfg(feature = "redis")]
    pub(crate) fn decide_located(&self, checks: &[(KeyLocation, Rule, u64)]) -> Verdict {
        let now = self.moment(checks.iter().map(|(_, rule, _)| rule));
        if let [(located, rule, cost)] = checks {
            let answer = by_algorithm!(rule, rule => self.decide_one(now, located.key, || located.scope, rule, *cost));
            return answer.into_verdict(Source::Memory);
        }
        let checks: Vec<_> = checks.iter().map(|(located, rule, cost)| (*located, rule, *cost)).collect();
        self.decide_all(&checks, now)
    }

    /// Corrects what one key took.
    pub(super) fn settle_one<A>(&self, now: Moment, located: KeyLocation, rule: &A, more: i64, counted_at_us: u64)
    where
        A: Algorithm,
        A::State: Stored,
    {
        let (mut locked, now) = self.lock_all(std::iter::once(located), now);
        let change = rule.settle(self.state::<A>(&mut locked, located), now, more, counted_at_us);
        if let Some(change) = change {
            self.write::<A>(&mut locked, located, now, change);
        }
    }

    pub(super) fn lock_all(
        &self,
        located: impl Iterator<Item = KeyLocation>,
        now: Moment,
    ) -> (ShardGuards<'_>, Moment) {
        let mut indexes = [usize::MAX; MAX_CHECKS];
        let mut keys = 0;
        for (slot, located) in indexes.iter_mut().zip(located) {
            *slot = located.key.shard(self.shards.len());
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

    /// What is known of a key: its own state, or the one that it shares with all for which there was no room.
    pub(super) fn state<'l, A>(&self, locked: &'l mut ShardGuards<'_>, located: KeyLocation) -> Option<&'l A::State>
    where
        A: Algorithm,
        A::State: Stored,
    {
        let ShardGuards { shards, overflow } = locked;
        let own = states(shards, located.key.shard(self.shards.len()))?.table::<A::State>().get(located.key);
        own.or_else(|| overflow.as_mut()?.table().get(located.scope))
    }

    /// Decides without taking.
    fn peek<A>(
        &self,
        locked: &mut ShardGuards<'_>,
        located: KeyLocation,
        rule: &A,
        now: Moment,
        cost: u64,
    ) -> RuleVerdict
    where
        A: Algorithm,
        A::State: Stored,
    {
        rule.decide(self.state::<A>(locked, located), now, cost).0
    }

    /// Decides again, with the same outcome, and keeps what came of it.
    fn commit<'l, A>(&'l self, locked: &mut ShardGuards<'l>, located: KeyLocation, rule: &A, now: Moment, cost: u64)
    where
        A: Algorithm,
        A::State: Stored,
    {
        let own = states(&mut locked.shards, located.key.shard(self.shards.len()));
        if let Some(state) = own.and_then(|own| own.table::<A::State>().get_mut(located.key)) {
            if let (_, Some(change)) = rule.decide(Some(&*state), now, cost) {
                *state = A::apply(Some(std::mem::replace(state, A::State::EMPTY)), change);
            }
        } else if let (_, Some(change)) = rule.decide(self.state::<A>(locked, located), now, cost) {
            self.write::<A>(locked, located, now, change);
        }
    }

    pub(super) fn write<'l, A>(
        &'l self,
        locked: &mut ShardGuards<'l>,
        located: KeyLocation,
        now: Moment,
        change: A::Change,
    ) where
        A: Algorithm,
        A::State: Stored,
    {
        let inherited = self.state::<A>(locked, located).cloned();
        let ShardGuards { shards, overflow } = locked;
        let Some(own) = states(shards, located.key.shard(self.shards.len())) else { return };
        let state = A::apply(inherited, change);
        if let Some(known) = own.table::<A::State>().get_mut(located.key) {
            *known = state;
        } else if let Err(state) = own.insert(located.key, state, now.now_us, &self.len, self.max_keys) {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
            self.write_to_overflow(overflow, located, now, state);
        }
    }

    fn write_to_overflow<'l, S: Stored>(
        &'l self,
        overflow: &mut Option<MutexGuard<'l, States>>,
        located: KeyLocation,
        now: Moment,
        state: S,
    ) {
        self.overflow_until_us.fetch_max(state.expires_at_us(), Ordering::Release);
        overflow.get_or_insert_with(|| self.overflow.lock()).table().set(located.scope, state, now.now_us);
    }
}

/// The states of shard `index`, which is locked.
fn states<'l>(
    shards: &'l mut [Option<(usize, MutexGuard<'_, States>)>; MAX_CHECKS],
    index: usize,
) -> Option<&'l mut States> {
    shards.iter_mut().flatten().find(|(known, _)| *known == index).map(|(_, states)| &mut **states)
}
