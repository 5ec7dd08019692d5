//! Division of the store's room among limiters, so that a flood of keys on one limiter leaves room to the others.
//!
//! Half of the room belongs to all limiters in equal shares. The other half is a pool for limiters that have used their
//! share. Each entry of the store has an [`Owner`]: the share or the pool in which it is counted until it is dropped. A
//! limiter can therefore take from the pool, but never from the share of another limiter.

use std::collections::HashMap;
use std::sync::Arc;

use super::table::KeyHash;

/// Share or pool in which an entry is counted: 0 for the pool, otherwise the number of a limiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Owner(u16);

/// Numbers of dropped entries, by owner.
#[derive(Debug, Default)]
pub(super) struct Released(Vec<usize>);

/// Room of the store, and its use by each limiter.
#[derive(Debug, Default)]
pub(super) struct Shares {
    max_keys: usize,
    len: usize,
    pooled: usize,
    /// Limiters by their number, from 1.
    limiters: Vec<LimiterShare>,
    /// Numbers of limiters that are gone.
    vacant: Vec<u16>,
    /// Numbers of the others.
    numbers: HashMap<KeyHash, u16>,
    overflowed: u64,
}

/// Use of the room by one limiter.
#[derive(Debug)]
struct LimiterShare {
    /// Scope; `None` if the limiter is gone.
    scope: Option<KeyHash>,
    /// Name, if the limiter is declared.
    name: Option<Arc<str>>,
    /// Entries in its share.
    used: usize,
    /// Decisions on its shared buckets since they were last reported.
    overflowed: u64,
}

/// Condition for taking room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// Room within the share or the pool. Any client can create such keys.
    IfFree,
    /// Room beyond them if necessary, for keys that an operator creates.
    Always,
}

impl Owner {
    const POOL: Self = Self(0);

    /// Returns the position of the owner among all.
    pub(super) fn index(self) -> usize {
        self.0.into()
    }
}

impl Released {
    pub(super) fn add(&mut self, Owner(number): Owner) {
        let number = usize::from(number);
        if self.0.len() <= number {
            self.0.resize(number + 1, 0);
        }
        self.0[number] += 1;
    }

    #[cfg(test)]
    pub(super) fn total(&self) -> usize {
        self.0.iter().sum()
    }
}

impl Shares {
    pub(super) fn new(max_keys: usize) -> Self {
        Self { max_keys, ..Self::default() }
    }

    /// Returns the number of entries, including expired ones that are not dropped yet.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of decisions on shared buckets.
    pub(super) fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Takes room for an entry of `scope`, which may replace an expired entry of `expired`. Returns the owner of the new
    /// entry. Without room the expired entry stays counted.
    pub(super) fn take(&mut self, scope: KeyHash, expired: Option<Owner>, demand: Demand) -> Option<Owner> {
        let number = self.number(scope);
        match expired {
            Some(owner) if owner == Owner::POOL || Some(owner.0) == number => Some(owner),
            Some(owner) => {
                self.release_one(owner);
                let taken = self.take_free(number, demand);
                if taken.is_none() {
                    self.count(owner);
                }
                taken
            }
            None => self.take_free(number, demand),
        }
    }

    /// Returns the room of dropped entries.
    pub(super) fn release(&mut self, Released(counts): &Released) {
        for (number, &count) in counts.iter().enumerate() {
            self.len -= count;
            *self.used_mut(number) -= count;
        }
    }

    /// Returns the room of one dropped entry.
    pub(super) fn release_one(&mut self, Owner(number): Owner) {
        self.len -= 1;
        *self.used_mut(number.into()) -= 1;
    }

    /// Counts a decision on a shared bucket of `scope`.
    pub(super) fn count_overflow(&mut self, scope: KeyHash) {
        self.overflowed += 1;
        if let Some(limiter) = self.number(scope).and_then(|number| self.limiter_mut(number.into())) {
            limiter.overflowed += 1;
        }
    }

    /// Returns the scopes of the limiters by their number, from 1.
    pub(super) fn scopes(&self) -> Vec<Option<KeyHash>> {
        self.limiters.iter().map(|limiter| limiter.scope).collect()
    }

    /// Returns the owner for each owner of another process: the pool, then the limiters with these scopes.
    pub(super) fn owners(&mut self, scopes: &[Option<KeyHash>]) -> Vec<Owner> {
        let of_limiter = |scope: &Option<KeyHash>| self.number((*scope)?).map(Owner);
        std::iter::once(Some(Owner::POOL)).chain(scopes.iter().map(of_limiter)).map(Option::unwrap_or_default).collect()
    }

    /// Gives each of `declared` a share. Other limiters keep theirs while they have entries.
    pub(super) fn declare(&mut self, declared: &[(KeyHash, Arc<str>)]) {
        let names: HashMap<_, _> = declared.iter().map(|(scope, name)| (*scope, name)).collect();
        for (number, limiter) in (1..=u16::MAX).zip(&mut self.limiters) {
            limiter.name = limiter.scope.and_then(|scope| names.get(&scope)).map(|name| Arc::clone(name));
            if let Some(scope) = limiter.scope.take_if(|_| limiter.name.is_none() && limiter.used == 0) {
                self.numbers.remove(&scope);
                self.vacant.push(number);
            }
        }
        for (scope, name) in declared {
            if let Some(limiter) = self.number(*scope).and_then(|number| self.limiter_mut(number.into())) {
                limiter.name = Some(Arc::clone(name));
            }
        }
    }

    /// Returns the declared limiters that decided on shared buckets since the last call, and the number of decisions.
    pub(super) fn report_overflows(&mut self) -> Vec<(Arc<str>, u64)> {
        let report = |limiter: &mut LimiterShare| {
            let decisions = std::mem::take(&mut limiter.overflowed);
            limiter.name.clone().filter(|_| decisions > 0).map(|name| (name, decisions))
        };
        self.limiters.iter_mut().filter_map(report).collect()
    }

    /// Returns the number of entries that each limiter can have whatever the others do.
    fn share(&self) -> usize {
        (self.max_keys / 2).checked_div(self.numbers.len()).unwrap_or(0)
    }

    fn pool(&self) -> usize {
        self.max_keys - self.share() * self.numbers.len()
    }

    fn take_free(&mut self, number: Option<u16>, demand: Demand) -> Option<Owner> {
        let share_owner = number.map_or(Owner::POOL, Owner);
        let is_within_share = number.is_some_and(|number| *self.used_mut(number.into()) < self.share());
        let has_room = self.len < self.max_keys;
        let owner = if has_room && is_within_share {
            share_owner
        } else if has_room && self.pooled < self.pool() {
            Owner::POOL
        } else if demand == Demand::Always {
            share_owner
        } else {
            return None;
        };
        self.count(owner);
        Some(owner)
    }

    /// Counts an entry, with or without room.
    pub(super) fn count(&mut self, Owner(number): Owner) {
        self.len += 1;
        *self.used_mut(number.into()) += 1;
    }

    fn used_mut(&mut self, number: usize) -> &mut usize {
        // 0 is the pool.
        match number.checked_sub(1).and_then(|index| self.limiters.get_mut(index)) {
            Some(limiter) => &mut limiter.used,
            None => &mut self.pooled,
        }
    }

    fn limiter_mut(&mut self, number: usize) -> Option<&mut LimiterShare> {
        self.limiters.get_mut(number.checked_sub(1)?)
    }

    /// Returns the number of the limiter with `scope`, a new one if necessary; `None` if all numbers are in use.
    fn number(&mut self, scope: KeyHash) -> Option<u16> {
        if let Some(&number) = self.numbers.get(&scope) {
            return Some(number);
        }
        let limiter = LimiterShare { scope: Some(scope), name: None, used: 0, overflowed: 0 };
        let number = match self.vacant.pop() {
            Some(number) => {
                self.limiters[usize::from(number) - 1] = limiter;
                number
            }
            None => {
                let number = u16::try_from(self.limiters.len() + 1).ok()?;
                self.limiters.push(limiter);
                number
            }
        };
        self.numbers.insert(scope, number);
        Some(number)
    }
}

#[cfg(test)]
mod tests;
