//! A decision as a command, and its verdict as a reply.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use super::compose::{Mode, Part};
use super::hash_slot::HashSlot;
use super::operands::{Batch, Operands, Style, suffixes};
use super::place::{Place, packed, slot_of};
use super::script::Script;
use super::words::Words;
use crate::key::BucketKey;
use crate::rule::{Algorithm, MAX_SAFE_INTEGER, Quota};
use crate::store::Check;
use crate::verdict::{Outcome, RuleVerdict};

/// A script call that was not sent yet.
pub(super) struct Call {
    pub(super) script: Arc<Script>,
    pub(super) cmd: Cmd,
    /// How many keys and how many arguments it has.
    pub(super) shape: (usize, usize),
    /// Bytes of both.
    pub(super) bytes: usize,
    /// What it reads.
    pub(super) keys: Words,
}

impl Call {
    fn new(script: Arc<Script>, operands: Operands) -> Self {
        let (shape, bytes) = ((operands.keys(), operands.count()), operands.bytes());
        let mut cmd = Cmd::with_capacity(3 + shape.0 + shape.1, bytes + 48);
        cmd.arg("EVALSHA").arg(script.sha1()).arg(shape.0);
        for operand in operands.all() {
            cmd.arg(operand);
        }
        Self { script, cmd, shape, bytes, keys: operands.into_keys() }
    }

    /// The keys' names.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter()
    }
}

/// The call that decides all of `checks`.
pub(super) fn decide(checks: &[Check<'_>], style: &Style) -> Call {
    if let [only] = checks
        && let (algorithm, place) = (only.rule.algorithm(), Place::of(only.key, only.rule.algorithm()))
        && !place.packs
    {
        let mut all = Operands::new(style);
        all.key(place.key, place.name, suffixes(algorithm));
        all.rule(only.rule, cost_of(only).as_bytes());
        return Call::new(Script::single(algorithm), all);
    }
    list(checks.iter().map(|check| (check, cost_of(check), None)), Mode::Take, None, style)
}

/// The call that says what [`decide`] would, and takes nothing.
pub(super) fn look(checks: &[Check<'_>], style: &Style) -> Call {
    list(checks.iter().map(|check| (check, cost_of(check), None)), Mode::Look, None, style)
}

/// The call that decides so many requests, each under all of `checks`, one behind the other.
pub(super) fn decide_batch(checks: &[Check<'_>], batch: Batch, style: &Style) -> Call {
    list(checks.iter().map(|check| (check, cost_of(check), None)), Mode::Batch, Some(batch), style)
}

/// Whether as many requests can be decided by one call as by one each. Not if they take nothing, or more than there
/// ever is; and where each gets a turn of its own, it asks for its own.
pub(super) fn goes_in_batches(checks: &[Check<'_>]) -> bool {
    checks.iter().all(|check| {
        (1..=check.rule.capacity()).contains(&check.cost) && check.rule.algorithm() != Algorithm::LeakyBucket
    })
}

/// The call that corrects what a request took.
pub(super) fn settle(check: &Check<'_>, more: i64, counted_at_us: u64, style: &Style) -> Call {
    let cost = format!("{:+}", more.clamp(-(MAX_SAFE_INTEGER as i64), MAX_SAFE_INTEGER as i64));
    let algorithm = check.rule.algorithm();
    let place = Place::of(check.key, algorithm);
    if place.packs {
        return list(std::iter::once((check, cost, Some(counted_at_us))), Mode::Take, None, style);
    }
    let mut all = Operands::new(style);
    all.key(place.key, place.name, suffixes(algorithm));
    all.rule(check.rule, cost.as_bytes());
    all.counted_at(check.rule, counted_at_us);
    Call::new(Script::single(algorithm), all)
}

/// What is done with a stock.
#[derive(Clone, Copy, Debug)]
pub(super) enum StockAction {
    Take,
    Grant,
    Set,
}

/// The calls that do something with each of many stocks, each with the slot of its keys, and their script.
pub(super) fn stocks(
    rule: &Quota,
    operations: &[(BucketKey<'_>, StockAction, i64)],
    style: &Style,
) -> (Arc<Script>, Vec<(HashSlot, Cmd)>) {
    let script = Script::single(Algorithm::Quota);
    let call = |&(key, action, amount): &(BucketKey<'_>, StockAction, i64)| {
        let action = match action {
            StockAction::Take => "take",
            StockAction::Grant => "grant",
            StockAction::Set => "set",
        };
        let place = Place::of(key, Algorithm::Quota);
        let mut all = Operands::new(style);
        all.key(place.key, place.name, suffixes(Algorithm::Quota));
        all.stock(rule, action, amount.to_string().as_bytes());
        (slot_of(key, Algorithm::Quota, style), Call::new(Arc::clone(&script), all).cmd)
    };
    let calls = operations.iter().map(call).collect();
    (script, calls)
}

/// The name of a stock's key.
pub(super) fn stock_name(key: BucketKey<'_>, style: &Style) -> Vec<u8> {
    let place = Place::of(key, Algorithm::Quota);
    let mut all = Operands::new(style);
    all.key(place.key, place.name, suffixes(Algorithm::Quota));
    all.into_keys().get(0).map(<[u8]>::to_vec).unwrap_or_default()
}

/// What a request costs, in a number that scripts can count with: a client may have named it.
fn cost_of(check: &Check<'_>) -> String {
    check.cost.min(MAX_SAFE_INTEGER).to_string()
}

/// The call for several rules: each with its cost and, for a correction, when it was counted.
fn list<'a>(
    checks: impl Iterator<Item = (&'a Check<'a>, String, Option<u64>)>,
    mode: Mode,
    batch: Option<Batch>,
    style: &Style,
) -> Call {
    let mut all = Operands::new(style);
    if let Some(batch) = batch {
        all.batch(batch);
    }
    let mut parts = Vec::new();
    for (check, cost, counted_at_us) in checks {
        let own = check.rule.algorithm();
        let place = Place::of(check.key, own);
        let (algorithm, key, packed_as) = match place.name {
            Some(name) if place.packs => {
                // One name may stand for rules of different algorithms, in different plans: none reads the other's state.
                let kind = packed(own).as_str();
                (packed(own), all.key(place.key, None, &[b"rules"]), Some(format!("{kind}_{name}").into()))
            }
            name => (own, all.key(place.key, name, suffixes(own)), None),
        };
        let arg = all.count();
        all.rule(check.rule, cost.as_bytes());
        if let Some(counted_at_us) = counted_at_us {
            all.counted_at(check.rule, counted_at_us);
        }
        parts.push(Part { algorithm, packed_as, key, arg, args: all.count() - arg });
    }
    Call::new(Script::list(&parts, mode), all)
}

/// What a script answered for so many checks; `None` when that makes no sense.
pub(super) fn answers(reply: &Value, checks: usize) -> Option<Vec<RuleVerdict>> {
    let Value::Array(items) = reply else { return None };
    answers_of(items, checks)
}

fn answers_of(items: &[Value], checks: usize) -> Option<Vec<RuleVerdict>> {
    let (answers, rest) = items.as_chunks::<5>();
    let fits = answers.len() == checks && rest.is_empty();
    fits.then(|| answers.iter().map(answer).collect()).flatten()
}

/// The same for a batch: how many requests pass, and what the script answered when those had passed, or to the first if
/// none does.
pub(super) fn batch_answers(reply: &Value, checks: usize) -> Option<(u64, Vec<RuleVerdict>)> {
    let Value::Array(items) = reply else { return None };
    let (Value::Int(admitted), rest) = items.split_last()? else { return None };
    Some((u64::try_from(*admitted).ok()?, answers_of(rest, checks)?))
}

fn answer([allowed, remaining, wait_us, reset_after_us, now_us]: &[Value; 5]) -> Option<RuleVerdict> {
    let number = |value: &Value| match value {
        Value::Int(number) => Some(*number),
        _ => None,
    };
    let micros = |value: &Value| u64::try_from(number(value)?).ok();
    let (outcome, delay) = match (number(allowed)?, micros(wait_us)) {
        (1, Some(delay_us)) => (Outcome::Allowed, Duration::from_micros(delay_us)),
        (0, Some(wait_us)) => (Outcome::Denied { retry_after: Duration::from_micros(wait_us) }, Duration::ZERO),
        (0, None) if number(wait_us)? == -1 => (Outcome::NeverAdmitted, Duration::ZERO),
        _ => return None,
    };
    Some(RuleVerdict {
        outcome,
        remaining: micros(remaining)?,
        reset_after: Duration::from_micros(micros(reset_after_us)?),
        delay,
        counted_at_us: micros(now_us)?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::rule::{Align, FixedWindow, Rule, TokenBucket};

    const KEY: BucketKey<'_> = BucketKey { scope: "orders", id: b"10.0.0.1" };

    fn words(call: &Call) -> Vec<String> {
        let text = String::from_utf8(call.cmd.get_packed_command()).unwrap();
        text.split("\r\n").skip(2).step_by(2).map(str::to_owned).collect()
    }

    fn reply(items: &[i64]) -> Option<RuleVerdict> {
        answers(&Value::Array(items.iter().copied().map(Value::Int).collect()), 1).map(|answers| answers[0])
    }

    #[test]
    fn the_command_has_springs_keys_and_argument_order() {
        let rule = Rule::TokenBucket(TokenBucket::per_second(10, 20).unwrap());
        let call = decide(&[Check { key: KEY, rule: &rule, cost: 3 }], &Style::default());
        let (tokens, timestamp) =
            ("request_rate_limiter.{orders.10.0.0.1}.tokens", "request_rate_limiter.{orders.10.0.0.1}.timestamp");
        assert_eq!(words(&call), ["EVALSHA", call.script.sha1(), "2", tokens, timestamp, "10", "20", "", "3"]);
        let call = settle(&Check { key: KEY, rule: &rule, cost: 3 }, -2, 77, &Style::default());
        assert_eq!(words(&call)[5..], ["10", "20", "", "-2"]);
    }

    #[test]
    fn a_number_beyond_counting_is_no_error() {
        let rule = Rule::Gcra(TokenBucket::per_second(10, 20).unwrap());
        let check = Check { key: KEY, rule: &rule, cost: u64::MAX };
        assert_eq!(words(&decide(&[check], &Style::default()))[7], MAX_SAFE_INTEGER.to_string());
        let most = i64::try_from(MAX_SAFE_INTEGER).unwrap();
        for (more, says) in [(i64::MAX, most), (i64::MIN, -most)] {
            assert_eq!(words(&settle(&check, more, 0, &Style::default()))[7], format!("{says:+}"));
        }
    }

    #[test]
    fn a_rule_of_another_period_says_in_what_it_is_counted() {
        let rule = Rule::Gcra(TokenBucket::new(5, Duration::from_secs(60), 20).unwrap());
        let call = decide(&[Check { key: KEY, rule: &rule, cost: 1 }], &Style::default());
        assert_eq!(words(&call)[3..], ["gcra.{orders.10.0.0.1}", "5", "20", "", "1", "60000000", "1"]);
    }

    #[test]
    fn several_rules_are_one_call() {
        let bucket = Rule::TokenBucket(TokenBucket::per_second(10, 20).unwrap());
        let window = Rule::FixedWindow(FixedWindow::new(9, Duration::from_secs(1), Align::Clock).unwrap());
        let other = BucketKey { scope: "orders#daily", id: b"x" };
        let checks = [Check { key: KEY, rule: &bucket, cost: 1 }, Check { key: other, rule: &window, cost: 2 }];
        let words = words(&decide(&checks, &Style::default()));
        let [tokens, timestamp] =
            ["tokens", "timestamp"].map(|suffix| format!("request_rate_limiter.{{orders.10.0.0.1}}.{suffix}"));
        let keys = [tokens.as_str(), &timestamp, "rules.{orders.x}"];
        assert_eq!((words[2].as_str(), &words[3..6]), ("3", &keys.map(str::to_owned)[..]));
        assert_eq!(words[6..], ["10", "20", "", "1", "9", "1000000", "", "2", "clock"]);
    }

    #[test]
    fn replies_become_answers() {
        let allowed = reply(&[1, 19, 0, 100, 5]).unwrap();
        assert_eq!((allowed.outcome, allowed.counted_at_us), (Outcome::Allowed, 5));
        assert_eq!(reply(&[1, 19, 40, 100, 5]).unwrap().delay, Duration::from_micros(40));
        let denied = reply(&[0, 0, 70, 100, 5]).unwrap();
        assert_eq!(denied.outcome, Outcome::Denied { retry_after: Duration::from_micros(70) });
        assert_eq!((denied.remaining, denied.reset_after), (0, Duration::from_micros(100)));
        assert_eq!(reply(&[0, 20, -1, 0, 5]).unwrap().outcome, Outcome::NeverAdmitted);
        let both = Value::Array([1, 2, 0, 4, 5, 0, 0, 9, 9, 5].map(Value::Int).to_vec());
        assert_eq!(answers(&both, 2).unwrap().len(), 2);
    }

    #[test]
    fn a_reply_that_makes_no_sense_is_none() {
        for items in [&[][..], &[1, 2], &[2, 0, 0, 0, 0], &[1, -1, 0, 0, 0], &[1, 1, 0, -1, 0], &[1, 1, 0, 0, 0, 0]] {
            assert_eq!(reply(items), None, "{items:?}");
        }
        assert_eq!(reply(&[0, 1, -2, 0, 0]), None);
        assert_eq!(answers(&Value::Nil, 1), None);
        assert_eq!(answers(&Value::Array(vec![Value::Okay; 5]), 1), None);
        assert_eq!(answers(&Value::Array(vec![Value::Int(1); 5]), 5), None);
    }
}
