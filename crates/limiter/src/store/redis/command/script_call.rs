//! Script calls: a decision or a correction as one command.

use std::sync::Arc;

use redis::Cmd;

use super::CallOptions;
use super::arg_list::ArgList;
use super::key_location::KeyLocation;
use super::script_args::{BatchSize, ScriptArgs};
use crate::key::BucketKey;
use crate::rule::{Algorithm, MAX_SAFE_INTEGER, Quota};
use crate::store::redis::script::{ListMode, ListedRule, Script};
use crate::store::{Check, MAX_CHECKS};

/// Script call that is ready to send.
pub(crate) struct ScriptCall {
    pub(crate) script: Arc<Script>,
    /// Names of the keys.
    pub(crate) keys: ArgList,
    pub(crate) args: ArgList,
    /// Number of requests that wait for the reply.
    pub(crate) requests: u64,
    /// Part of the largest batch that the call takes: the weights of its rules, up to [`MAX_WEIGHT`].
    pub(crate) weight: usize,
}

/// Largest weight of all calls in a batch.
pub(crate) const MAX_WEIGHT: usize = 64 * MAX_CHECKS;

impl ScriptCall {
    pub(super) fn new(script: Arc<Script>, args: ScriptArgs<'_>, weight: usize) -> Self {
        let ScriptArgs { keys, args, .. } = args;
        Self { script, keys, args, requests: 1, weight: weight.min(MAX_WEIGHT) }
    }

    /// Returns the number of keys, and of arguments.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.keys.len(), self.args.len())
    }

    /// The call as `EVALSHA`.
    pub(crate) fn cmd(&self) -> Cmd {
        evalsha(&self.script, &[self], &[])
    }

    /// Many calls as one of `batched`: `EVALSHA batched keys [key …] keys-each arguments-each [argument …]`.
    pub(crate) fn batch_cmd(batched: &Script, calls: &[&Self]) -> Cmd {
        let (keys, args) = calls.first().map(|call| call.counts()).unwrap_or_default();
        evalsha(batched, calls, &[keys, args])
    }
}

/// `EVALSHA` of `script` with the keys of `calls`, and `numbers` before the arguments of `calls`.
fn evalsha(script: &Script, calls: &[&ScriptCall], numbers: &[usize]) -> Cmd {
    let sum = |size: fn(&ArgList) -> usize| calls.iter().map(|call| size(&call.keys) + size(&call.args)).sum::<usize>();
    let mut cmd = Cmd::with_capacity(5 + sum(ArgList::len), sum(ArgList::bytes) + 64);
    cmd.arg("EVALSHA").arg(script.sha1()).arg(calls.iter().map(|call| call.keys.len()).sum::<usize>());
    for key in calls.iter().flat_map(|call| call.keys.iter()) {
        cmd.arg(key);
    }
    cmd.arg(numbers);
    for arg in calls.iter().flat_map(|call| call.args.iter()) {
        cmd.arg(arg);
    }
    cmd
}

/// Call that decides one request under `enforced`, and then under `observed` if they allow it.
pub(crate) fn decide(enforced: &[Check<'_>], observed: &[Check<'_>], options: &CallOptions) -> ScriptCall {
    if let ([check], []) = (enforced, observed)
        && let (algorithm, location) = (check.rule.algorithm(), KeyLocation::of(check.key, check.rule.algorithm()))
        && !location.packed
    {
        let mut args = ScriptArgs::new(options);
        args.add_keys(location.key, location.rule_name, algorithm.spec().key_words);
        args.rule(check.rule, itoa::Buffer::new().format(safe_cost(check)).as_bytes());
        args.lead(check.rule, options);
        return ScriptCall::new(Script::single(algorithm), args, algorithm.spec().weight);
    }
    let observed = observed.iter().map(|check| ListedCheck { observed: true, ..ListedCheck::of(check) });
    list(enforced.iter().map(ListedCheck::of).chain(observed), ListMode::Take, None, options)
}

/// Time of a lease's grant, and the time at which its return is due, both on Redis' clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseTimes {
    pub(crate) granted_us: u64,
    pub(crate) due_us: u64,
}

/// Call that returns the cost of `requests` requests under all of `checks`, or nothing if it is late or revoked.
pub(crate) fn return_leased(
    checks: &[Check<'_>],
    requests: u64,
    times: LeaseTimes,
    options: &CallOptions,
) -> ScriptCall {
    let returned = checks.iter().map(|check| ListedCheck {
        check,
        cost: format!("-{}", requests.saturating_mul(check.cost).min(MAX_SAFE_INTEGER)),
        counted_at_us: check.rule.algorithm().spec().leases_by_time.then_some(times.granted_us),
        observed: false,
    });
    list(returned, ListMode::Return, Some([times.due_us, times.granted_us]), options)
}

/// Name of the key that stands for the state of `check` in notices: the first, if it has several.
pub(crate) fn notice_key(check: &Check<'_>, options: &CallOptions) -> Vec<u8> {
    decide(&[*check], &[], options).keys.get(0).map(<[u8]>::to_vec).unwrap_or_default()
}

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

/// Call that operates on a prepaid quota.
pub(crate) fn quota(
    key: BucketKey<'_>,
    rule: &Quota,
    action: QuotaAction,
    amount: i64,
    options: &CallOptions,
) -> ScriptCall {
    let location = KeyLocation::of(key, Algorithm::Quota);
    let mut args = ScriptArgs::new(options);
    args.add_keys(location.key, location.rule_name, Algorithm::Quota.spec().key_words);
    args.quota(rule, action.as_str(), amount.to_string().as_bytes());
    ScriptCall::new(Script::single(Algorithm::Quota), args, 1)
}

/// Call that replies as [`decide`] would, and takes nothing.
pub(crate) fn look(checks: &[Check<'_>], options: &CallOptions) -> ScriptCall {
    list(checks.iter().map(ListedCheck::of), ListMode::Look, None, options)
}

/// Call that decides `batch` requests in turn, each under all of `checks`.
pub(crate) fn decide_batch(checks: &[Check<'_>], batch: BatchSize, options: &CallOptions) -> ScriptCall {
    let numbers = [batch.requests, batch.waiting];
    let call = list(checks.iter().map(ListedCheck::of), ListMode::Batch, Some(numbers), options);
    ScriptCall { requests: batch.waiting, ..call }
}

/// Returns true if one call can decide several such requests. Requests that take nothing or more than the capacity
/// cannot be combined, and neither can those of algorithms that give each its own turn.
pub(crate) fn can_coalesce(checks: &[Check<'_>]) -> bool {
    checks
        .iter()
        .all(|check| (1..=check.rule.capacity()).contains(&check.cost) && check.rule.algorithm().spec().coalesces)
}

/// Call that corrects the cost of a request by `more`.
pub(crate) fn settle(check: &Check<'_>, more: i64, counted_at_us: u64, options: &CallOptions) -> ScriptCall {
    let cost = format!("{:+}", more.clamp(-(MAX_SAFE_INTEGER as i64), MAX_SAFE_INTEGER as i64));
    let algorithm = check.rule.algorithm();
    let location = KeyLocation::of(check.key, algorithm);
    if location.packed {
        let check = ListedCheck { check, cost, counted_at_us: Some(counted_at_us), observed: false };
        return list(std::iter::once(check), ListMode::Take, None, options);
    }
    let mut args = ScriptArgs::new(options);
    args.add_keys(location.key, location.rule_name, algorithm.spec().key_words);
    args.rule(check.rule, cost.as_bytes());
    args.number(counted_at_us);
    let weight = if algorithm.spec().settles_slowly { MAX_WEIGHT } else { algorithm.spec().weight };
    ScriptCall::new(Script::single(algorithm), args, weight)
}

/// Cost as a number that scripts can count with: a client may have sent any.
fn safe_cost(check: &Check<'_>) -> u64 {
    check.cost.min(MAX_SAFE_INTEGER)
}

/// Check of a call for several rules.
struct ListedCheck<'a> {
    check: &'a Check<'a>,
    cost: String,
    /// Time at which the cost was counted, for a correction that depends on it.
    counted_at_us: Option<u64>,
    observed: bool,
}

impl<'a> ListedCheck<'a> {
    fn of(check: &'a Check<'a>) -> Self {
        Self { check, cost: safe_cost(check).to_string(), counted_at_us: None, observed: false }
    }
}

/// Call for several rules. `numbers` are the first arguments of the mode.
fn list<'a>(
    checks: impl Iterator<Item = ListedCheck<'a>>,
    mode: ListMode,
    numbers: Option<[u64; 2]>,
    options: &CallOptions,
) -> ScriptCall {
    let mut args = ScriptArgs::new(options);
    numbers.into_iter().flatten().for_each(|number| args.number(number));
    let mut rules = Vec::new();
    for ListedCheck { check, cost, counted_at_us, observed } in checks {
        let alone = check.rule.algorithm();
        let location = KeyLocation::of(check.key, alone);
        let (algorithm, key, packed_as) = match location.rule_name {
            Some(name) if location.packed => {
                // Plans may give one name to rules of different algorithms, which must not read each other's state.
                let algorithm = alone.spec().in_list;
                let state_name = format!("{}_{name}", algorithm.as_str()).into();
                (algorithm, args.add_shared_key(location.key), Some(state_name))
            }
            name => (alone, args.add_keys(location.key, name, alone.spec().key_words), None),
        };
        let arg = args.args.len();
        args.rule(check.rule, cost.as_bytes());
        match counted_at_us {
            Some(counted_at_us) => args.number(counted_at_us),
            None => args.lead(check.rule, options),
        }
        rules.push(ListedRule { algorithm, packed_as, key, arg, args: args.args.len() - arg, observed });
    }
    if mode == ListMode::Return {
        let leasable = rules.iter().filter(|rule| rule.algorithm.spec().leasable);
        args.add_revocations(leasable.map(|rule| rule.key));
    }
    let weight = rules.iter().map(|rule| rule.algorithm.spec().weight).sum();
    ScriptCall::new(Script::list(&rules, mode), args, weight)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::time::Duration;

    use super::*;
    use crate::rule::{Align, FixedWindow, Rule, TokenBucket};

    const KEY: BucketKey<'_> = BucketKey { scope: "orders", id: b"10.0.0.1" };

    fn args(call: &ScriptCall) -> Vec<String> {
        let text = String::from_utf8(call.cmd().get_packed_command()).unwrap();
        text.split("\r\n").skip(2).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn the_command_has_springs_keys_and_argument_order() {
        let rule = Rule::TokenBucket(TokenBucket::per_second(10, 20).unwrap());
        let call = decide(&[Check { key: KEY, rule: &rule, cost: 3 }], &[], &CallOptions::default());
        let (tokens, timestamp) =
            ("request_rate_limiter.{orders.10.0.0.1}.tokens", "request_rate_limiter.{orders.10.0.0.1}.timestamp");
        assert_eq!(args(&call), ["EVALSHA", call.script.sha1(), "2", tokens, timestamp, "10", "20", "", "3"]);
        let call = settle(&Check { key: KEY, rule: &rule, cost: 3 }, -2, 77, &CallOptions::default());
        assert_eq!(args(&call)[5..], ["10", "20", "", "-2", "77"]);
    }

    #[test]
    fn costs_are_limited_to_safe_integers() {
        let rule = Rule::Gcra(TokenBucket::per_second(10, 20).unwrap());
        let check = Check { key: KEY, rule: &rule, cost: u64::MAX };
        assert_eq!(args(&decide(&[check], &[], &CallOptions::default()))[7], MAX_SAFE_INTEGER.to_string());
        let most = i64::try_from(MAX_SAFE_INTEGER).unwrap();
        for (more, sent) in [(i64::MAX, most), (i64::MIN, -most)] {
            assert_eq!(args(&settle(&check, more, 0, &CallOptions::default()))[7], format!("{sent:+}"));
        }
    }

    #[test]
    fn a_rule_with_another_period_sends_its_units() {
        let rule = Rule::Gcra(TokenBucket::new(5, Duration::from_secs(60), 20).unwrap());
        let call = decide(&[Check { key: KEY, rule: &rule, cost: 1 }], &[], &CallOptions::default());
        assert_eq!(args(&call)[3..], ["gcra.{orders.10.0.0.1}", "5", "20", "", "1", "60000000", "1"]);
    }

    #[test]
    fn several_rules_are_one_call() {
        let bucket = Rule::TokenBucket(TokenBucket::per_second(10, 20).unwrap());
        let window = Rule::FixedWindow(FixedWindow::new(9, Duration::from_secs(1), Align::Clock).unwrap());
        let other = BucketKey { scope: "orders#daily", id: b"x" };
        let checks = [Check { key: KEY, rule: &bucket, cost: 1 }, Check { key: other, rule: &window, cost: 2 }];
        let args = args(&decide(&checks, &[], &CallOptions::default()));
        let [tokens, timestamp] =
            ["tokens", "timestamp"].map(|suffix| format!("request_rate_limiter.{{orders.10.0.0.1}}.{suffix}"));
        let keys = [tokens.as_str(), &timestamp, "rules.{orders.x}"];
        assert_eq!((args[2].as_str(), &args[3..6]), ("3", &keys.map(str::to_owned)[..]));
        assert_eq!(args[6..], ["10", "20", "", "1", "9", "1000000", "", "2", "clock"]);
    }
}
