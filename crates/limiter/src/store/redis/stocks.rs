//! Prepaid stocks, beyond decisions: straight from Redis or not at all.

use redis::Value;

use super::call::{self, StockAction};
use super::error::StoreError;
use super::many::Unanswered;
use super::stats::Operation;
use super::store::RedisStore;
use crate::key::BucketKey;
use crate::quota::{self, Withdrawal, WithdrawalError};
use crate::rule::{MAX_SAFE_INTEGER, Quota};
use crate::verdict::{Outcome, RuleVerdict};

impl RedisStore {
    /// What is left in a stock.
    ///
    /// # Errors
    /// Redis did not answer in time.
    pub async fn quota_remaining(&self, key: BucketKey<'_>, rule: &Quota) -> Result<u64, StoreError> {
        self.one_stock(key, rule, StockAction::Take, 0).await
    }

    /// Leaves just `left` in a stock; returns what is left.
    ///
    /// # Errors
    /// Redis did not answer in time; it may have been set.
    pub async fn set_quota(&self, key: BucketKey<'_>, rule: &Quota, left: u64) -> Result<u64, StoreError> {
        self.one_stock(key, rule, StockAction::Set, left.min(MAX_SAFE_INTEGER) as i64).await
    }

    /// Puts `more` into a stock, or takes out what a negative one says, into debt if it must; returns what is left.
    ///
    /// # Errors
    /// Redis did not answer in time; it may have been granted.
    pub async fn grant_quota(&self, key: BucketKey<'_>, rule: &Quota, more: i64) -> Result<u64, StoreError> {
        let most = MAX_SAFE_INTEGER as i64;
        self.one_stock(key, rule, StockAction::Grant, more.clamp(-most, most)).await
    }

    /// Takes from each of many stocks what is asked of it, or nothing from that one; in their order, each on its own, in
    /// one pipeline to each server.
    ///
    /// # Errors
    /// Redis did not answer in time; some or all of it may have been taken.
    pub async fn withdraw_quotas(
        &self,
        rule: &Quota,
        wanted: &[(BucketKey<'_>, u64)],
    ) -> Result<Vec<Result<Withdrawal, WithdrawalError>>, StoreError> {
        let valid: Vec<_> = wanted.iter().filter(|(key, amount)| quota::validate(*key, *amount).is_ok()).collect();
        let operations: Vec<_> = valid.iter().map(|(key, amount)| (*key, StockAction::Take, *amount as i64)).collect();
        let mut answers = self.stocks(rule, &operations).await?.into_iter();
        let outcome = |&(key, amount): &(BucketKey<'_>, u64)| {
            quota::validate(key, amount)?;
            let answer = answers.next().ok_or(WithdrawalError::Insufficient { remaining: 0 })?;
            quota::outcome(answer.outcome == Outcome::Allowed, amount, answer.remaining)
        };
        Ok(wanted.iter().map(outcome).collect())
    }

    async fn one_stock(
        &self,
        key: BucketKey<'_>,
        rule: &Quota,
        action: StockAction,
        amount: i64,
    ) -> Result<u64, StoreError> {
        let answers = self.stocks(rule, &[(key, action, amount)]).await?;
        answers.first().map(|answer| answer.remaining).ok_or(StoreError::Other)
    }

    async fn stocks(
        &self,
        rule: &Quota,
        operations: &[(BucketKey<'_>, StockAction, i64)],
    ) -> Result<Vec<RuleVerdict>, StoreError> {
        let given = operations.iter().filter(|(_, action, _)| !matches!(action, StockAction::Take));
        let given: Vec<_> = given.map(|(key, ..)| call::stock_name(*key, &self.style)).collect();
        let hot = self.client.hot();
        given.iter().for_each(|name| hot.returned(name));
        let (script, calls) = call::stocks(rule, operations, &self.style);
        let replies = self.client.run_all(Operation::Stock, &script, &calls).await.into_iter();
        // Redis may have done it, whatever came of the answers; other gateways are told by the script.
        given.iter().for_each(|name| hot.returned(name));
        let answer = |reply: Result<Value, Unanswered>| {
            let reply = reply.map_err(|unanswered| unanswered.kind)?;
            call::answers(&reply, 1).and_then(|mut only| only.pop()).ok_or(StoreError::Other)
        };
        replies.map(answer).collect()
    }
}
