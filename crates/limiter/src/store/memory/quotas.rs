//! Prepaid stocks, beyond decisions.

use super::MemoryStore;
use super::multi::ShardGuards;
use super::{KeyLocation, Moment};
use crate::algorithm::quota::QuotaState;
use crate::key::BucketKey;
use crate::quota::{self, Withdrawal, WithdrawalError};
use crate::rule::{Quota, Rule};
use crate::store::{Check, Decision, Store};

impl MemoryStore {
    /// What is left in a stock.
    #[must_use]
    pub fn quota_remaining(&self, key: BucketKey<'_>, rule: &Quota) -> u64 {
        let (mut locked, located, now) = self.lock_quota(key);
        rule.remaining(self.state::<Quota>(&mut locked, located), now)
    }

    /// Leaves just `left` in a stock; returns what is left.
    pub fn set_quota(&self, key: BucketKey<'_>, rule: &Quota, left: u64) -> u64 {
        self.change_quota(key, rule, |stock, now| rule.set(stock, now, left))
    }

    /// Puts `more` into a stock, or takes out what a negative one says, into debt if it must; returns what is left.
    pub fn grant_quota(&self, key: BucketKey<'_>, rule: &Quota, more: i64) -> u64 {
        self.change_quota(key, rule, |stock, now| rule.grant(stock, now, more))
    }

    /// Takes from each of many stocks what is asked of it, or nothing from that one; in their order, each on its own.
    pub fn withdraw_quotas(
        &self,
        rule: &Quota,
        wanted: &[(BucketKey<'_>, u64)],
    ) -> Vec<Result<Withdrawal, WithdrawalError>> {
        let rule = Rule::Quota(rule.clone());
        let take = |&(key, cost): &(BucketKey<'_>, u64)| {
            quota::validate(key, cost)?;
            match self.decide(&[Check { key, rule: &rule, cost }]) {
                Decision::Ready(verdict) => {
                    quota::outcome(verdict.is_allowed(), cost, verdict.remaining.unwrap_or_default())
                }
                Decision::Pending(_) => Err(WithdrawalError::Insufficient { remaining: 0 }),
            }
        };
        wanted.iter().map(take).collect()
    }

    fn change_quota(
        &self,
        key: BucketKey<'_>,
        rule: &Quota,
        change: impl FnOnce(Option<&QuotaState>, Moment) -> QuotaState,
    ) -> u64 {
        let (mut locked, located, now) = self.lock_quota(key);
        let stock = change(self.state::<Quota>(&mut locked, located), now);
        self.write::<Quota>(&mut locked, located, now, stock);
        rule.remaining(Some(&stock), now)
    }

    fn lock_quota(&self, key: BucketKey<'_>) -> (ShardGuards<'_>, KeyLocation, Moment) {
        let now = Moment { now_us: self.clock.now_us(), wall_us: self.clock.wall_us() };
        let located = self.locate(key);
        let (locked, now) = self.lock_all(std::iter::once(located), now);
        (locked, located, now)
    }
}
