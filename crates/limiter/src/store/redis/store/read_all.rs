//! Reads of many keys under one rule, for operators. They need Redis and have no fallback.

use redis::Value;

use super::RedisStore;
use super::quota::INVALID;
use crate::key::BucketKey;
use crate::rule::{MAX_SAFE_INTEGER, Rule};
use crate::store::Check;
use crate::store::redis::client::Unanswered;
use crate::store::redis::command::{self, QuotaAction};
use crate::store::redis::stats::Operation;
use crate::verdict::RuleVerdict;

impl RedisStore {
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
            return self.run_quota_operations(quota, &wanted.iter().map(operation).collect::<Vec<_>>()).await;
        }
        let checks = wanted.iter().map(|&(key, _)| Check { key, rule, cost: 0 });
        let calls = checks.map(|check| (self.slot(&check), command::decide(&[check], &self.options)));
        let (mut script, mut commands) = (None, Vec::with_capacity(wanted.len()));
        for (slot, call) in calls {
            // One rule has one script.
            script.get_or_insert(call.script);
            commands.push((slot, call.cmd));
        }
        let Some(script) = script else { return Vec::new() };
        let verdict = |reply: Result<Value, Unanswered>| {
            command::answers(&reply?, 1).and_then(|mut only| only.pop()).ok_or(INVALID)
        };
        self.client.run_all(Operation::Quota, &script, &commands).await.into_iter().map(verdict).collect()
    }
}
