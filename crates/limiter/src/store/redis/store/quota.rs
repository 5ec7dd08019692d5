//! Operations on prepaid quotas besides decisions. They need Redis and have no fallback.

use redis::Value;

use super::RedisStore;
use crate::key::BucketKey;
use crate::quota::{self, Withdrawal, WithdrawalError};
use crate::rule::{MAX_SAFE_INTEGER, Quota};
use crate::store::redis::client::Unanswered;
use crate::store::redis::command::{self, QuotaAction};
use crate::store::redis::error::StoreError;
use crate::store::redis::stats::Operation;
use crate::verdict::{Outcome, RuleVerdict};

/// Failure of a call whose reply is invalid.
pub(super) const INVALID: Unanswered = Unanswered { kind: StoreError::Other, may_have_run: true };

impl RedisStore {
    /// Returns the remaining quota.
    ///
    /// # Errors
    /// Redis did not reply in time.
    pub async fn quota_remaining(&self, key: BucketKey<'_>, rule: &Quota) -> Result<u64, StoreError> {
        Ok(self.quota_operation(key, rule, QuotaAction::Take, 0).await?)
    }

    /// Sets the remaining quota to `left`. Returns the remaining quota.
    ///
    /// # Errors
    /// Redis did not reply in time; the quota may have been set.
    pub async fn set_quota(&self, key: BucketKey<'_>, rule: &Quota, left: u64) -> Result<u64, Unanswered> {
        self.quota_operation(key, rule, QuotaAction::Set, left.min(MAX_SAFE_INTEGER) as i64).await
    }

    /// Adds `more` to a quota. A negative number is subtracted, below zero if necessary. Returns the remaining quota.
    ///
    /// # Errors
    /// Redis did not reply in time; the grant may have been made.
    pub async fn grant_quota(&self, key: BucketKey<'_>, rule: &Quota, more: i64) -> Result<u64, Unanswered> {
        let most = MAX_SAFE_INTEGER as i64;
        self.quota_operation(key, rule, QuotaAction::Grant, more.clamp(-most, most)).await
    }

    /// Withdraws an amount from each of many quotas, each in full or not at all and independently of the others, with one
    /// pipeline to each server. Results are in the order of `wanted`.
    ///
    /// # Errors
    /// Redis did not reply in time; some or all amounts may have been withdrawn.
    pub async fn withdraw_quotas(
        &self,
        rule: &Quota,
        wanted: &[(BucketKey<'_>, u64)],
    ) -> Result<Vec<Result<Withdrawal, WithdrawalError>>, StoreError> {
        let valid: Vec<_> = wanted.iter().filter(|(key, amount)| quota::validate(*key, *amount).is_ok()).collect();
        let operations: Vec<_> = valid.iter().map(|(key, amount)| (*key, QuotaAction::Take, *amount as i64)).collect();
        let mut answers = self.quota_operations(rule, &operations).await?.into_iter();
        let outcome = |&(key, amount): &(BucketKey<'_>, u64)| {
            quota::validate(key, amount)?;
            let answer = answers.next().ok_or(WithdrawalError::Insufficient { remaining: 0 })?;
            quota::outcome(answer.outcome == Outcome::Allowed, amount, answer.remaining)
        };
        Ok(wanted.iter().map(outcome).collect())
    }

    async fn quota_operation(
        &self,
        key: BucketKey<'_>,
        rule: &Quota,
        action: QuotaAction,
        amount: i64,
    ) -> Result<u64, Unanswered> {
        let answers = self.quota_operations(rule, &[(key, action, amount)]).await?;
        answers.first().map(|answer| answer.remaining).ok_or(INVALID)
    }

    async fn quota_operations(
        &self,
        rule: &Quota,
        operations: &[(BucketKey<'_>, QuotaAction, i64)],
    ) -> Result<Vec<RuleVerdict>, Unanswered> {
        self.run_quota_operations(rule, operations).await.into_iter().collect()
    }

    /// Returns the result of each operation on its own.
    pub(super) async fn run_quota_operations(
        &self,
        rule: &Quota,
        operations: &[(BucketKey<'_>, QuotaAction, i64)],
    ) -> Vec<Result<RuleVerdict, Unanswered>> {
        let raised = operations.iter().filter(|(_, action, _)| !matches!(action, QuotaAction::Take));
        let raised: Vec<_> = raised.map(|(key, ..)| command::quota_key_name(*key, &self.options)).collect();
        let invalidations = self.client.invalidations();
        raised.iter().for_each(|name| invalidations.invalidate(name));
        let (script, calls) = command::quota_calls(rule, operations, &self.options);
        let replies = self.client.run_all(Operation::Quota, &script, &calls).await.into_iter();
        // The script may have run although a reply is missing. It notifies the other gateways itself.
        raised.iter().for_each(|name| invalidations.invalidate(name));
        let answer = |reply: Result<Value, Unanswered>| {
            command::answers(&reply?, 1).and_then(|mut only| only.pop()).ok_or(INVALID)
        };
        replies.map(answer).collect()
    }
}
