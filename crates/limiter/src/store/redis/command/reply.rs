//! Replies of scripts, decoded.

use std::time::Duration;

use redis::Value;

use crate::verdict::{Outcome, RuleVerdict};

/// Decodes a reply for `checks` rules: text of five integers for each. `None`: the reply is invalid.
pub(crate) fn answers(reply: &Value, checks: usize) -> Option<Vec<RuleVerdict>> {
    let mut numbers = numbers(reply)?;
    let answers = decode(&mut numbers, checks)?;
    numbers.next().is_none().then_some(answers)
}

/// Decodes the reply for a batch: the answers, and behind them the number of admitted requests. The answers are those after
/// these requests, or to the first request if none was admitted.
pub(crate) fn batch_answers(reply: &Value, checks: usize) -> Option<(u64, Vec<RuleVerdict>)> {
    let mut numbers = numbers(reply)?;
    let answers = decode(&mut numbers, checks)?;
    let admitted = u64::try_from(numbers.next()??).ok()?;
    numbers.next().is_none().then_some((admitted, answers))
}

/// Decodes the bytes of a reply, for one request or for a batch. For fuzzing.
#[must_use]
pub fn script_reply(bytes: &[u8], rules: usize) -> Option<Vec<RuleVerdict>> {
    let reply = redis::parse_redis_value(bytes).ok()?;
    answers(&reply, rules).or_else(|| batch_answers(&reply, rules).map(|(_, verdicts)| verdicts))
}

/// Integers of a reply; an item is `None` if it is no integer.
fn numbers(reply: &Value) -> Option<impl Iterator<Item = Option<i64>>> {
    let Value::BulkString(text) = reply else { return None };
    Some(std::str::from_utf8(text).ok()?.split(' ').map(|number| number.parse().ok()))
}

fn decode(numbers: &mut impl Iterator<Item = Option<i64>>, checks: usize) -> Option<Vec<RuleVerdict>> {
    (0..checks).map(|_| answer(|| numbers.next().flatten())).collect()
}

fn answer(mut number: impl FnMut() -> Option<i64>) -> Option<RuleVerdict> {
    let [allowed, remaining, wait_us, reset_after_us, now_us] = [number()?, number()?, number()?, number()?, number()?];
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn text(reply: &str) -> Value {
        Value::BulkString(reply.into())
    }

    fn reply(numbers: &str) -> Option<RuleVerdict> {
        answers(&text(numbers), 1).map(|answers| answers[0])
    }

    #[test]
    fn replies_become_answers() {
        let allowed = reply("1 19 0 100 5").unwrap();
        assert_eq!((allowed.outcome, allowed.counted_at_us), (Outcome::Allowed, 5));
        assert_eq!(reply("1 19 40 100 5").unwrap().delay, Duration::from_micros(40));
        let denied = reply("0 0 70 100 5").unwrap();
        assert_eq!(denied.outcome, Outcome::Denied { retry_after: Duration::from_micros(70) });
        assert_eq!((denied.remaining, denied.reset_after), (0, Duration::from_micros(100)));
        assert_eq!(reply("0 20 -1 0 5").unwrap().outcome, Outcome::NeverAdmitted);
        assert_eq!(answers(&text("1 2 0 4 5 0 0 9 9 5"), 2).unwrap().len(), 2);
        assert_eq!(batch_answers(&text("1 2 0 4 5 3"), 1).map(|(admitted, _)| admitted), Some(3));
    }

    #[test]
    fn an_invalid_reply_is_none() {
        for numbers in ["", "1 2", "2 0 0 0 0", "1 -1 0 0 0", "1 1 0 -1 0", "1 1 0 0 0 0", "1 1 0 0 0 ", "1 1 0 0 x"] {
            assert_eq!(reply(numbers), None, "{numbers:?}");
        }
        assert_eq!(reply("0 1 -2 0 0"), None);
        assert_eq!(answers(&Value::Nil, 1), None);
        assert_eq!(answers(&Value::Array(vec![Value::Int(1); 5]), 1), None);
        assert_eq!(answers(&text("1 1 1 1 1"), 5), None);
        for numbers in ["1 2 0 4 5", "1 2 0 4 5 -1", "1 2 0 4 5 3 3"] {
            assert_eq!(batch_answers(&text(numbers), 1), None, "{numbers:?}");
        }
    }
}
