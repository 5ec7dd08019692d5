//! Prepaid stocks, beyond decisions.

use super::MemoryStore;
use super::list::Locked;
use super::{Located, Moment};
use crate::algorithm::quota::Stock;
use crate::key::BucketKey;
use crate::quota::{self, NotTaken, Taken};
use crate::rule::{Quota, Rule};
use crate::store::{Check, Decision, Store};

impl MemoryStore {
    /// What is left in a stock.
    #[must_use]
    pub fn stock_left(&self, key: BucketKey<'_>, rule: &Quota) -> u64 {
        let (mut locked, located, now) = self.lock_stock(key);
        rule.left(self.state::<Quota>(&mut locked, located), now)
    }

    /// Leaves just `left` in a stock; returns what is left.
    pub fn set_stock(&self, key: BucketKey<'_>, rule: &Quota, left: u64) -> u64 {
        self.change_stock(key, rule, |stock, now| rule.set(stock, now, left))
    }

    /// Puts `more` into a stock, or takes out what a negative one says, into debt if it must; returns what is left.
    pub fn grant_stock(&self, key: BucketKey<'_>, rule: &Quota, more: i64) -> u64 {
        self.change_stock(key, rule, |stock, now| rule.grant(stock, now, more))
    }

    /// Takes from each of many stocks what is asked of it, or nothing from that one; in their order, each on its own.
    pub fn take_stocks(&self, rule: &Quota, wanted: &[(BucketKey<'_>, u64)]) -> Vec<Result<Taken, NotTaken>> {
        let rule = Rule::Quota(rule.clone());
        let take = |&(key, cost): &(BucketKey<'_>, u64)| {
            quota::validate(key, cost)?;
            match self.decide(&[Check { key, rule: &rule, cost }]) {
                Decision::Ready(verdict) => {
                    quota::outcome(verdict.is_allowed(), cost, verdict.remaining.unwrap_or_default())
                }
                Decision::Pending(_) => Err(NotTaken::Short { left: 0 }),
            }
        };
        wanted.iter().map(take).collect()
    }

    fn change_stock(
        &self,
        key: BucketKey<'_>,
        rule: &Quota,
        change: impl FnOnce(Option<&Stock>, Moment) -> Stock,
    ) -> u64 {
        let (mut locked, located, now) = self.lock_stock(key);
        let stock = change(self.state::<Quota>(&mut locked, located), now);
        self.keep::<Quota>(&mut locked, located, now, stock);
        rule.left(Some(&stock), now)
    }

    fn lock_stock(&self, key: BucketKey<'_>) -> (Locked<'_>, Located, Moment) {
        let now = Moment { now_us: self.clock.now_us(), wall_us: self.clock.wall_us() };
        let located = self.locate(key);
        let (locked, now) = self.lock_all(std::iter::once(located), now);
        (locked, located, now)
    }
}
