//! Replies of scripts, decoded.

use std::time::Duration;

use redis::Value;

use crate::verdict::{Outcome, RuleVerdict};

/// Rest of a reply: integers with at most 18 digits, and a space between two of them.
struct Numbers<'r>(&'r [u8]);

/// Decodes a reply for `checks` rules: text of five integers for each. `None`: the reply is invalid.
pub(crate) fn rule_verdicts(reply: &Value, checks: usize) -> Option<Vec<RuleVerdict>> {
    let mut numbers = Numbers::of(reply)?;
    let rule_verdicts = numbers.rule_verdicts(checks)?;
    numbers.0.is_empty().then_some(rule_verdicts)
}

/// Decodes the reply for a batch: the verdicts, and behind them the number of admitted requests. The verdicts are those after
/// these requests, or to the first request if none was admitted.
pub(crate) fn batch_verdicts(reply: &Value, checks: usize) -> Option<(u64, Vec<RuleVerdict>)> {
    let mut numbers = Numbers::of(reply)?;
    let rule_verdicts = numbers.rule_verdicts(checks)?;
    let admitted = u64::try_from(numbers.number()?).ok()?;
    numbers.0.is_empty().then_some((admitted, rule_verdicts))
}

/// Decodes the bytes of a reply, for one request or for a batch. For fuzzing.
#[must_use]
pub fn script_reply(bytes: &[u8], rules: usize) -> Option<Vec<RuleVerdict>> {
    let reply = redis::parse_redis_value(bytes).ok()?;
    rule_verdicts(&reply, rules).or_else(|| batch_verdicts(&reply, rules).map(|(_, verdicts)| verdicts))
}

impl<'r> Numbers<'r> {
    fn of(reply: &'r Value) -> Option<Self> {
        let Value::BulkString(text) = reply else { return None };
        Some(Self(text))
    }

    /// Reads an integer and the space behind it, in one pass: to split the text and to parse the parts takes three times as
    /// many instructions.
    fn number(&mut self) -> Option<i64> {
        let (mut rest, sign) = match self.0.strip_prefix(b"-") {
            Some(rest) => (rest, -1),
            None => (self.0, 1),
        };
        let (length, mut value) = (rest.len(), 0_i64);
        while let [digit @ b'0'..=b'9', after @ ..] = rest {
            value = value.wrapping_mul(10).wrapping_add(i64::from(digit - b'0'));
            rest = after;
        }
        let digits = length - rest.len();
        self.0 = match rest {
            [] => rest,
            [b' ', after @ ..] => after,
            _ => return None,
        };
        (1..=18).contains(&digits).then(|| sign * value)
    }

    fn rule_verdicts(&mut self, checks: usize) -> Option<Vec<RuleVerdict>> {
        (0..checks).map(|_| self.rule_verdict()).collect()
    }

    fn rule_verdict(&mut self) -> Option<RuleVerdict> {
        let [allowed, remaining, wait_us] = [self.number()?, self.number()?, self.number()?];
        let [reset_after_us, now_us] = [self.number()?, self.number()?];
        let (outcome, delay) = match (allowed, u64::try_from(wait_us)) {
            (1, Ok(delay_us)) => (Outcome::Allowed, Duration::from_micros(delay_us)),
            (0, Ok(wait_us)) => (Outcome::Denied { retry_after: Duration::from_micros(wait_us) }, Duration::ZERO),
            (0, Err(_)) if wait_us == -1 => (Outcome::NeverAdmitted, Duration::ZERO),
            _ => return None,
        };
        Some(RuleVerdict {
            outcome,
            remaining: u64::try_from(remaining).ok()?,
            reset_after: Duration::from_micros(u64::try_from(reset_after_us).ok()?),
            delay,
            counted_at_us: u64::try_from(now_us).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn text(reply: &str) -> Value {
        Value::BulkString(reply.into())
    }

    fn reply(numbers: &str) -> Option<RuleVerdict> {
        rule_verdicts(&text(numbers), 1).map(|rule_verdicts| rule_verdicts[0])
    }

    #[test]
    fn replies_become_answers() {
        let allowed = reply("1 19 0 100 5").unwrap();
        assert_eq!((allowed.outcome, allowed.counted_at_us), (Outcome::Allowed, 5));
        assert_eq!(reply("1 19 40 100 5").unwrap().delay, Duration::from_micros(40));
        let denied = reply("0 0 70 100 5").unwrap();
        assert_eq!(denied.outcome, Outcome::Denied { retry_after: Duration::from_micros(70) });
        assert_eq!((denied.remaining, denied.reset_after), (0, Duration::from_micros(100)));
        assert_eq!(reply("1 999999999999999999 0 100 5").unwrap().remaining, 999_999_999_999_999_999);
        assert_eq!(reply("0 20 -1 0 5").unwrap().outcome, Outcome::NeverAdmitted);
        assert_eq!(rule_verdicts(&text("1 2 0 4 5 0 0 9 9 5"), 2).unwrap().len(), 2);
        assert_eq!(batch_verdicts(&text("1 2 0 4 5 3"), 1).map(|(admitted, _)| admitted), Some(3));
    }

    #[test]
    fn an_invalid_reply_is_none() {
        for numbers in ["", "1 2", "2 0 0 0 0", "1 -1 0 0 0", "1 1 0 -1 0", "1 1 0 0 0 0", "1 1 0 0 x", "1 1 0 0 -"] {
            assert_eq!(reply(numbers), None, "{numbers:?}");
        }
        assert_eq!(reply("0 1 -2 0 0"), None);
        assert_eq!(reply("1 1000000000000000000 0 0 0"), None, "19 digits");
        assert_eq!(rule_verdicts(&Value::Nil, 1), None);
        assert_eq!(rule_verdicts(&Value::Array(vec![Value::Int(1); 5]), 1), None);
        assert_eq!(rule_verdicts(&text("1 1 1 1 1"), 5), None);
        for numbers in ["1 2 0 4 5", "1 2 0 4 5 -1", "1 2 0 4 5 3 3"] {
            assert_eq!(batch_verdicts(&text(numbers), 1), None, "{numbers:?}");
        }
    }
}
