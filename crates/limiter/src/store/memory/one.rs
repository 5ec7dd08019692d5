//! Decisions under one rule, and states of new keys.

use super::shard::{States, Stored};
use super::shares::Demand;
use super::table::KeyHash;
use super::{KeyLocation, MemoryStore};
use crate::algorithm::{Algorithm, Moment, State};
use crate::verdict::{RuleVerdict, Source, Verdict};

impl MemoryStore {
    /// Decides under one rule. Inlined together with the algorithm and the hash, which saves 14 of 58 ns.
    #[inline(always)]
    pub(super) fn decide_one<A: Algorithm<State: Stored>>(
        &self,
        now: Moment,
        hash: KeyHash,
        scope: impl Fn() -> KeyHash,
        rule: &A,
        cost: u64,
    ) -> Verdict {
        let mut shard = self.shard_of(hash).lock();
        let tick = shard.tick(now.now_us);
        let now = tick.moment(now);
        let verdict = |verdict: RuleVerdict| Verdict { order: tick.order, ..verdict.into_verdict(Source::Memory) };
        if let Some(state) = shard.table().get_mut(hash) {
            // Returns of their own: where the paths meet, verdicts are written to memory and read back, 5 of 68 ns.
            if !rule.is_own(state) {
                return verdict(decide_other(rule, state, now, cost));
            }
            return verdict(decide_known(rule, state, now, cost));
        }
        verdict(self.decide_new(&mut shard, KeyLocation { key: hash, scope: scope() }, rule, now, cost))
    }

    /// Decides a request of a key without a state of its own, by the state that it shared with others, if any. A key with
    /// room starts with a copy of that state.
    pub(super) fn decide_new<A: Algorithm<State: Stored>>(
        &self,
        shard: &mut States,
        location: KeyLocation,
        rule: &A,
        now: Moment,
        cost: u64,
    ) -> RuleVerdict {
        let shared = shard.shared::<A::State>(location.scope).cloned();
        let is_shared = shared.is_some();
        let (verdict, change) = rule.decide(shared.as_ref(), now, cost);
        match change {
            Some(change) => self.insert(shard, location, A::apply(shared, change), now),
            None if is_shared => self.shares.lock().count_overflow(location.scope),
            None => {}
        }
        verdict
    }

    /// Inserts the state of a new key, or shares it without room.
    pub(super) fn insert<S: Stored>(&self, shard: &mut States, location: KeyLocation, state: S, now: Moment) {
        let KeyLocation { key, scope } = location;
        if let Err(state) = shard.insert((key, scope), state, now, &self.shares, Demand::IfFree) {
            shard.set_shared(scope, state, now);
            self.shares.lock().count_overflow(scope);
        }
    }
}

/// Decides a request of a key with a state.
#[inline(always)]
fn decide_known<A: Algorithm>(rule: &A, state: &mut A::State, now: Moment, cost: u64) -> RuleVerdict {
    let (decided, change) = rule.decide(Some(&*state), now, cost);
    if let Some(change) = change {
        *state = A::apply(Some(std::mem::replace(state, A::State::EMPTY)), change);
    }
    decided
}

/// Decides a request of a key whose state is not [own](Algorithm::is_own).
#[cold]
#[inline(never)]
fn decide_other<A: Algorithm>(rule: &A, state: &mut A::State, now: Moment, cost: u64) -> RuleVerdict {
    decide_known(rule, state, now, cost)
}
