//! Operations on prepaid quotas as script calls.

use std::sync::Arc;

use redis::Cmd;

use super::key_location::{KeyLocation, slot_of};
use super::options::CallOptions;
use super::script_args::ScriptArgs;
use super::script_call::ScriptCall;
use crate::key::BucketKey;
use crate::rule::{Algorithm, Quota};
use crate::store::redis::hash_slot::HashSlot;
use crate::store::redis::script::Script;

/// Operation on a prepaid quota.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QuotaAction {
    Take,
    Grant,
    Set,
}

impl QuotaAction {
    fn as_str(self) -> &'static str {
        match self {
            Self::Take => "take",
            Self::Grant => "grant",
            Self::Set => "set",
        }
    }
}

/// Calls that operate on each of many quotas, each with the slot of its keys, and their script.
pub(crate) fn quota_calls(
    rule: &Quota,
    operations: &[(BucketKey<'_>, QuotaAction, i64)],
    options: &CallOptions,
) -> (Arc<Script>, Vec<(HashSlot, Cmd)>) {
    let script = Script::single(Algorithm::Quota);
    let call = |&(key, action, amount): &(BucketKey<'_>, QuotaAction, i64)| {
        let mut args = keys_of(key, options);
        args.quota(rule, action.as_str(), amount.to_string().as_bytes());
        (slot_of(key, Algorithm::Quota, options), ScriptCall::new(Arc::clone(&script), args, 1).cmd)
    };
    let calls = operations.iter().map(call).collect();
    (script, calls)
}

/// Returns the name of a quota's Redis key.
pub(crate) fn quota_key_name(key: BucketKey<'_>, options: &CallOptions) -> Vec<u8> {
    keys_of(key, options).into_keys().get(0).map(<[u8]>::to_vec).unwrap_or_default()
}

fn keys_of<'o>(key: BucketKey<'_>, options: &'o CallOptions) -> ScriptArgs<'o> {
    let location = KeyLocation::of(key, Algorithm::Quota);
    let mut args = ScriptArgs::new(options);
    args.add_keys(location.key, location.rule_name, Algorithm::Quota.spec().key_words);
    args
}
