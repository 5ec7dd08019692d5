//! A decision as a command, and its verdict as a reply.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use super::script::{Part, Script};
use crate::limiter::key::redis_text;
use crate::limiter::rule::{Align, Flow, Rule};
use crate::limiter::store::Check;
use crate::limiter::verdict::{Answer, Outcome};

/// A script call that was not sent yet.
pub(super) struct Call {
    pub(super) script: Arc<Script>,
    pub(super) cmd: Cmd,
}

/// A check's keys and arguments.
#[derive(Default)]
struct Operands {
    keys: Vec<Vec<u8>>,
    args: Vec<Vec<u8>>,
}

/// The call that decides all of `checks`, at Redis' own time.
pub(super) fn decide(checks: &[Check<'_>], hash_ids: bool) -> Call {
    let mut all = Operands::default();
    let mut parts = Vec::with_capacity(checks.len());
    for check in checks {
        let (keys, args) = (all.keys.len(), all.args.len());
        all.key(check, hash_ids);
        all.rule(check.rule, check.cost.to_string().into_bytes());
        let algorithm = check.rule.algorithm();
        parts.push(Part { algorithm, keys: all.keys.len() - keys, args: all.args.len() - args });
    }
    let script = match parts.as_slice() {
        [only] => Script::single(only.algorithm),
        parts => Script::list(parts),
    };
    all.call(script)
}

/// The call that corrects what a request took.
pub(super) fn settle(check: &Check<'_>, more: i64, counted_at_us: u64, hash_ids: bool) -> Call {
    let mut all = Operands::default();
    all.key(check, hash_ids);
    all.rule(check.rule, format!("{more:+}").into_bytes());
    if !matches!(check.rule, Rule::TokenBucket(_) | Rule::Gcra(_)) {
        all.number(counted_at_us);
    }
    all.call(Script::single(check.rule.algorithm()))
}

impl Operands {
    fn key(&mut self, check: &Check<'_>, hash_id: bool) {
        let suffixes: &[&[u8]] = match check.rule {
            Rule::TokenBucket(_) => &[b"tokens", b"timestamp"],
            Rule::Gcra(_) => &[b"gcra"],
            Rule::FixedWindow(_) => &[b"window"],
        };
        let mut name = Vec::with_capacity(96);
        redis_text::write(check.key, hash_id, &mut name);
        self.keys.extend(suffixes.iter().map(|suffix| [&name[..], suffix].concat()));
    }

    fn number(&mut self, number: u64) {
        self.args.push(itoa::Buffer::new().format(number).as_bytes().to_vec());
    }

    fn text(&mut self, text: &str) {
        self.args.push(text.as_bytes().to_vec());
    }

    /// The arguments: two numbers of the rule, no time, the cost, and what else the rule says.
    fn rule(&mut self, rule: &Rule, cost: Vec<u8>) {
        match rule {
            Rule::TokenBucket(bucket) | Rule::Gcra(bucket) => {
                let flow = bucket.flow();
                self.number(flow.per_tick.into());
                self.number(bucket.burst_capacity());
                self.text("");
                self.args.push(cost);
                if (flow.units, flow.tick_us) != (Flow::PER_SECOND_UNITS, 1) {
                    self.number(flow.units);
                    self.number(flow.tick_us);
                }
            }
            Rule::FixedWindow(window) => {
                self.number(window.limit());
                self.number(window.window_us());
                self.text("");
                self.args.push(cost);
                self.text(match window.align() {
                    Align::First => "first",
                    Align::Clock => "clock",
                });
            }
        }
    }

    fn call(&self, script: Arc<Script>) -> Call {
        let bytes: usize = self.keys.iter().chain(&self.args).map(Vec::len).sum();
        let mut cmd = Cmd::with_capacity(3 + self.keys.len() + self.args.len(), bytes + 48);
        cmd.arg("EVALSHA").arg(script.sha1()).arg(self.keys.len());
        for operand in self.keys.iter().chain(&self.args) {
            cmd.arg(operand.as_slice());
        }
        Call { script, cmd }
    }
}

/// What a script answered for so many checks; `None` when that makes no sense.
pub(super) fn answers(reply: &Value, checks: usize) -> Option<Vec<Answer>> {
    let Value::Array(items) = reply else { return None };
    match checks {
        1 => Some(vec![answer(items)?]),
        _ if items.len() == checks => {
            let answers = items.iter().map(|item| match item {
                Value::Array(items) => answer(items),
                _ => None,
            });
            answers.collect()
        }
        _ => None,
    }
}

fn answer(items: &[Value]) -> Option<Answer> {
    let [allowed, remaining, wait_us, reset_after_us, now_us] = items else { return None };
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
    Some(Answer {
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
    use crate::limiter::key::BucketKey;
    use crate::limiter::rule::{FixedWindow, TokenBucket};

    const KEY: BucketKey<'_> = BucketKey { scope: "orders", id: b"10.0.0.1" };

    fn words(call: &Call) -> Vec<String> {
        let text = String::from_utf8(call.cmd.get_packed_command()).unwrap();
        text.split("\r\n").skip(2).step_by(2).map(str::to_owned).collect()
    }

    fn reply(items: &[i64]) -> Option<Answer> {
        answers(&Value::Array(items.iter().copied().map(Value::Int).collect()), 1).map(|answers| answers[0])
    }

    #[test]
    fn the_command_has_springs_keys_and_argument_order() {
        let rule = Rule::TokenBucket(TokenBucket::per_second(10, 20).unwrap());
        let call = decide(&[Check { key: KEY, rule: &rule, cost: 3 }], false);
        let (tokens, timestamp) =
            ("request_rate_limiter.{orders.10.0.0.1}.tokens", "request_rate_limiter.{orders.10.0.0.1}.timestamp");
        assert_eq!(words(&call), ["EVALSHA", call.script.sha1(), "2", tokens, timestamp, "10", "20", "", "3"]);
        let call = settle(&Check { key: KEY, rule: &rule, cost: 3 }, -2, 77, false);
        assert_eq!(words(&call)[5..], ["10", "20", "", "-2"]);
    }

    #[test]
    fn a_rule_of_another_period_says_in_what_it_is_counted() {
        let rule = Rule::Gcra(TokenBucket::new(5, Duration::from_secs(60), 20).unwrap());
        let call = decide(&[Check { key: KEY, rule: &rule, cost: 1 }], false);
        assert_eq!(
            words(&call)[3..],
            ["request_rate_limiter.{orders.10.0.0.1}.gcra", "5", "20", "", "1", "60000000", "1"]
        );
    }

    #[test]
    fn several_rules_are_one_call() {
        let bucket = Rule::TokenBucket(TokenBucket::per_second(10, 20).unwrap());
        let window = Rule::FixedWindow(FixedWindow::new(9, Duration::from_secs(1), Align::Clock).unwrap());
        let other = BucketKey { scope: "orders#daily", id: b"x" };
        let checks = [Check { key: KEY, rule: &bucket, cost: 1 }, Check { key: other, rule: &window, cost: 2 }];
        let words = words(&decide(&checks, false));
        assert_eq!(words[2..3], ["3"]);
        assert_eq!(
            words[5..],
            ["request_rate_limiter.{orders%23daily.x}.window", "10", "20", "", "1", "9", "1000000", "", "2", "clock"]
        );
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
        let both = Value::Array(vec![Value::Array([1, 2, 0, 4, 5].map(Value::Int).to_vec()); 2]);
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
