//! Operations on prepaid quotas besides decisions, and reads of many keys for operators. They need Redis and have no
//! fallback.

use std::sync::Arc;

use redis::Value;

use super::RedisStore;
use crate::key::BucketKey;
use crate::quota::{self, Withdrawal, WithdrawalError};
use crate::rule::{Algorithm, MAX_SAFE_INTEGER, Quota, Rule};
use crate::store::Check;
use crate::store::redis::client::Unanswered;
use crate::store::redis::command::{self, QuotaAction, ScriptCall, slot_of};
use crate::store::redis::error::StoreError;
use crate::store::redis::hash_slot::HashSlot;
use crate::store::redis::stats::Operation;
use crate::verdict::{Outcome, RuleVerdict};

/// Failure of a call whose reply is invalid.
const INVALID: Unanswered = Unanswered { kind: StoreError::Other, may_have_run: true };

impl RedisStore {
    /// Returns the remaining quota.
    ///
    /// # Errors
    /// Redis did not reply in time.
    pub async fn quota_remaining(&self, key: BucketKey<'_>, rule: &Quota) -> Result<u64, StoreError> {
        Ok(self.quota_operation(key, rule, QuotaAction::Take, 0).await?)
    }

    /// Sets the remaining quota to `remaining`. Returns the remaining quota.
    ///
    /// # Errors
    /// Redis did not reply in time; the quota may have been set.
    pub async fn set_quota(&self, key: BucketKey<'_>, rule: &Quota, remaining: u64) -> Result<u64, Unanswered> {
        self.quota_operation(key, rule, QuotaAction::Set, remaining.min(MAX_SAFE_INTEGER) as i64).await
    }

    /// Adds `more` to a quota. A negative number is subtracted, below zero if necessary. Returns the remaining quota.
    ///
    /// # Errors
    /// Redis did not reply in time; the grant may have been made.
    pub async fn grant_quota(&self, key: BucketKey<'_>, rule: &Quota, more: i64) -> Result<u64, Unanswered> {
        let max = MAX_SAFE_INTEGER as i64;
        self.quota_operation(key, rule, QuotaAction::Grant, more.clamp(-max, max)).await
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
        let verdicts: Result<Vec<_>, _> = self.quota_operations(rule, &operations).await.into_iter().collect();
        let mut verdicts = verdicts?.into_iter();
        let outcome = |&(key, amount): &(BucketKey<'_>, u64)| {
            quota::validate(key, amount)?;
            let verdict = verdicts.next().ok_or(WithdrawalError::Insufficient { remaining: 0 })?;
            quota::outcome(verdict.outcome == Outcome::Allowed, amount, verdict.remaining)
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
        let verdict = self.quota_operations(rule, &[(key, action, amount)]).await.pop();
        verdict.ok_or(INVALID)?.map(|verdict| verdict.remaining)
    }

    /// Returns the result of each operation on its own.
    async fn quota_operations(
        &self,
        rule: &Quota,
        operations: &[(BucketKey<'_>, QuotaAction, i64)],
    ) -> Vec<Result<RuleVerdict, Unanswered>> {
        let slot = |key| slot_of(key, Algorithm::Quota, &self.options);
        let call = |&(key, action, amount): &_| (slot(key), command::quota(key, rule, action, amount, &self.options));
        let calls: Vec<(HashSlot, ScriptCall)> = operations.iter().map(call).collect();
        let changed = operations.iter().zip(&calls).filter(|((_, action, _), _)| !matches!(action, QuotaAction::Take));
        let changed: Vec<Vec<u8>> = changed.flat_map(|(_, (_, call))| call.keys.iter().map(<[u8]>::to_vec)).collect();
        let invalidate = || changed.iter().for_each(|key| self.client.context().invalidations.invalidate(key));
        invalidate();
        let verdicts = self.run_calls(calls).await;
        // The script may have run although a reply is missing. It notifies the other gateways itself.
        invalidate();
        verdicts
    }

    /// Returns the state of each key of `wanted`, in its order, with one pipeline to each server. Under a quota, a number
    /// beside a key is granted to it first; other rules ignore it. Nothing is consumed.
    ///
    /// The error of one key does not affect the others. A grant with an error may have been made.
    pub async fn read_all(
        &self,
        rule: &Rule,
        wanted: &[(BucketKey<'_>, Option<u64>)],
    ) -> Vec<Result<RuleVerdict, Unanswered>> {
        if let Rule::Quota(quota) = rule {
            let operation = |&(key, grant): &(_, Option<u64>)| match grant {
                Some(grant) => (key, QuotaAction::Grant, grant.min(MAX_SAFE_INTEGER) as i64),
                None => (key, QuotaAction::Take, 0),
            };
            return self.quota_operations(quota, &wanted.iter().map(operation).collect::<Vec<_>>()).await;
        }
        let checks = wanted.iter().map(|&(key, _)| Check { key, rule, cost: 0 });
        let calls = checks.map(|check| (self.slot(&check), command::decide(&[check], &[], &self.options)));
        self.run_calls(calls.collect()).await
    }

    /// Sends calls of one script, each with the slot of its keys.
    async fn run_calls(&self, calls: Vec<(HashSlot, ScriptCall)>) -> Vec<Result<RuleVerdict, Unanswered>> {
        let Some(script) = calls.first().map(|(_, call)| Arc::clone(&call.script)) else { return Vec::new() };
        let commands: Vec<_> = calls.into_iter().map(|(slot, call)| (slot, call.cmd())).collect();
        let verdict = |reply: Result<Value, Unanswered>| {
            command::rule_verdicts(&reply?, 1).and_then(|mut rule_verdicts| rule_verdicts.pop()).ok_or(INVALID)
        };
        self.client.run_all(Operation::Quota, &script, &commands).await.into_iter().map(verdict).collect()
    }
}
