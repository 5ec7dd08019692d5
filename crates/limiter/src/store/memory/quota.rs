//! Operations on prepaid quotas besides decisions.

use super::MemoryStore;
use super::multi::ShardGuards;
use super::shares::Demand;
use super::{KeyLocation, Moment};
use crate::algorithm::quota::QuotaState;
use crate::key::BucketKey;
use crate::quota::{self, Withdrawal, WithdrawalError};
use crate::rule::{Quota, Rule};
use crate::store::{Check, Decision, Store};

impl MemoryStore {
    /// Returns the remaining tokens of a quota.
    #[must_use]
    pub fn quota_remaining(&self, key: BucketKey<'_>, rule: &Quota) -> u64 {
        let (mut guards, location, now) = self.lock_quota(key);
        rule.remaining(self.states(&mut guards, location).and_then(|states| states.state(location)), now)
    }

    /// Sets the remaining tokens of a quota to `left` and returns them.
    pub fn set_quota(&self, key: BucketKey<'_>, rule: &Quota, left: u64) -> u64 {
        self.change_quota(key, rule, |state, now| rule.set(state, now, left))
    }

    /// Grants `more` tokens to a quota and returns the remaining tokens. A negative grant may leave a debt.
    pub fn grant_quota(&self, key: BucketKey<'_>, rule: &Quota, more: i64) -> u64 {
        self.change_quota(key, rule, |state, now| rule.grant(state, now, more))
    }

    /// Withdraws from many quotas in order, each independently: the whole amount or nothing.
    pub fn withdraw_quotas(
        &self,
        rule: &Quota,
        wanted: &[(BucketKey<'_>, u64)],
    ) -> Vec<Result<Withdrawal, WithdrawalError>> {
        let rule = Rule::Quota(rule.clone());
        let withdraw = |&(key, cost): &(BucketKey<'_>, u64)| {
            quota::validate(key, cost)?;
            match self.decide(&[Check { key, rule: &rule, cost }], &[]) {
                Decision::Ready(verdict) => {
                    quota::outcome(verdict.is_allowed(), cost, verdict.remaining.unwrap_or_default())
                }
                Decision::Pending(_) => Err(WithdrawalError::Insufficient { remaining: 0 }),
            }
        };
        wanted.iter().map(withdraw).collect()
    }

    /// Changes a quota. The key gets a state of its own even without room, since a shared state would give the change to
    /// other keys, and more than once.
    fn change_quota(
        &self,
        key: BucketKey<'_>,
        rule: &Quota,
        change: impl FnOnce(Option<&QuotaState>, Moment) -> Option<QuotaState>,
    ) -> u64 {
        let (mut guards, location, now) = self.lock_quota(key);
        let Some(states) = self.states(&mut guards, location) else { return rule.remaining(None, now) };
        let Some(state) = change(states.state(location), now) else {
            return rule.remaining(states.state(location), now);
        };
        let remaining = rule.remaining(Some(&state), now);
        match states.table().get_mut(location.key) {
            Some(known) => *known = state,
            None => {
                let KeyLocation { key, scope } = location;
                let inserted = states.insert((key, scope), state, now, &self.shares, Demand::Always);
                debug_assert!(inserted.is_ok(), "room is always taken");
            }
        }
        remaining
    }

    fn lock_quota(&self, key: BucketKey<'_>) -> (ShardGuards<'_>, KeyLocation, Moment) {
        let now = Moment { now_us: self.clock.now_us(), wall_us: self.clock.wall_us() };
        let location = self.locate(key);
        let (guards, now, _) = self.lock_all(std::iter::once(location), now);
        (guards, location, now)
    }
}
