//! Replies of scripts, decoded.

use std::time::Duration;

use redis::Value;

use crate::verdict::{Outcome, RuleVerdict};

/// Decodes a reply for `checks` rules: five integers for each. `None`: the reply is invalid.
pub(crate) fn answers(reply: &Value, checks: usize) -> Option<Vec<RuleVerdict>> {
    let Value::Array(items) = reply else { return None };
    decode(items, checks)
}

/// Decodes the reply for a batch: the number of admitted requests, and the answers after those, or to the first request
/// if none was admitted.
pub(crate) fn batch_answers(reply: &Value, checks: usize) -> Option<(u64, Vec<RuleVerdict>)> {
    let Value::Array(items) = reply else { return None };
    let (Value::Int(admitted), rest) = items.split_last()? else { return None };
    Some((u64::try_from(*admitted).ok()?, decode(rest, checks)?))
}

/// Decodes the bytes of a reply, for one request or for a batch. For fuzzing.
#[must_use]
pub fn script_reply(bytes: &[u8], rules: usize) -> Option<Vec<RuleVerdict>> {
    let reply = redis::parse_redis_value(bytes).ok()?;
    answers(&reply, rules).or_else(|| batch_answers(&reply, rules).map(|(_, verdicts)| verdicts))
}

fn decode(items: &[Value], checks: usize) -> Option<Vec<RuleVerdict>> {
    let (answers, rest) = items.as_chunks::<5>();
    let fits = answers.len() == checks && rest.is_empty();
    fits.then(|| answers.iter().map(answer).collect()).flatten()
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

    fn reply(items: &[i64]) -> Option<RuleVerdict> {
        answers(&Value::Array(items.iter().copied().map(Value::Int).collect()), 1).map(|answers| answers[0])
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
    fn an_invalid_reply_is_none() {
        for items in [&[][..], &[1, 2], &[2, 0, 0, 0, 0], &[1, -1, 0, 0, 0], &[1, 1, 0, -1, 0], &[1, 1, 0, 0, 0, 0]] {
            assert_eq!(reply(items), None, "{items:?}");
        }
        assert_eq!(reply(&[0, 1, -2, 0, 0]), None);
        assert_eq!(answers(&Value::Nil, 1), None);
        assert_eq!(answers(&Value::Array(vec![Value::Okay; 5]), 1), None);
        assert_eq!(answers(&Value::Array(vec![Value::Int(1); 5]), 5), None);
    }
}
