//! Scripts, and the token bucket's as a command and as a reply.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, Value};

use crate::limiter::algorithm::token_bucket::Answer;
use crate::limiter::key::{BucketKey, redis_text};
use crate::limiter::rule::TokenBucket;
use crate::limiter::verdict::Outcome;

/// `lua/token_bucket.lua`.
const TEXT: &str = include_str!("../../../../lua/token_bucket.lua");

/// The token bucket's.
pub(super) static TOKEN_BUCKET: LazyLock<Script> = LazyLock::new(|| Script::new(TEXT));

/// A Lua script and the name that Redis knows it by.
#[derive(Debug)]
pub(crate) struct Script {
    text: Cow<'static, str>,
    sha1: String,
}

impl Script {
    /// `text` as a script.
    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        let sha1 = redis::Script::new(&text).get_hash().to_owned();
        Self { text, sha1 }
    }

    /// Its SHA-1 in hexadecimal, for `EVALSHA`.
    pub(crate) fn sha1(&self) -> &str {
        &self.sha1
    }

    /// The command that teaches Redis the script.
    pub(crate) fn load(&self) -> Cmd {
        let mut cmd = redis::cmd("SCRIPT");
        cmd.arg("LOAD").arg(&*self.text);
        cmd
    }
}

/// The command that decides one request, at Redis' own time.
pub(super) fn decide(key: BucketKey<'_>, hash_id: bool, rule: &TokenBucket) -> Cmd {
    let mut name = Vec::with_capacity(192);
    redis_text::write(key, hash_id, &mut name);
    let prefix = name.len();
    let mut cmd = Cmd::with_capacity(9, 2 * prefix + 128);
    cmd.arg("EVALSHA").arg(TOKEN_BUCKET.sha1()).arg(2);
    for suffix in ["tokens", "timestamp"] {
        name.truncate(prefix);
        name.extend_from_slice(suffix.as_bytes());
        cmd.arg(name.as_slice());
    }
    // The driver writes whole numbers without allocating.
    cmd.arg(rule.replenish_rate().get()).arg(rule.burst_capacity()).arg("").arg(rule.requested_tokens().get());
    cmd
}

/// What the script answered; `None` when that makes no sense.
pub(super) fn answer(reply: &Value) -> Option<Answer> {
    let Value::Array(items) = reply else { return None };
    let [Value::Int(allowed), Value::Int(remaining), Value::Int(retry_after_us), Value::Int(reset_after_us)] =
        items[..]
    else {
        return None;
    };
    let outcome = match (allowed, u64::try_from(retry_after_us)) {
        (1, _) => Outcome::Allowed,
        (0, Ok(retry_after_us)) => Outcome::Denied { retry_after: Duration::from_micros(retry_after_us) },
        (0, Err(_)) => Outcome::NeverAdmitted,
        _ => return None,
    };
    Some(Answer {
        outcome,
        remaining: u32::try_from(remaining).ok()?,
        reset_after: Duration::from_micros(u64::try_from(reset_after_us).ok()?),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn reply(items: &[i64]) -> Option<Answer> {
        answer(&Value::Array(items.iter().copied().map(Value::Int).collect()))
    }

    #[test]
    fn the_command_has_springs_keys_and_argument_order() {
        let rule = TokenBucket::new(10, 20, 3).unwrap();
        let cmd = decide(BucketKey { scope: "orders", id: b"10.0.0.1" }, false, &rule);
        let text = String::from_utf8(cmd.get_packed_command()).unwrap();
        let args: Vec<&str> = text.split("\r\n").skip(2).step_by(2).collect();
        let (tokens, timestamp) =
            ("request_rate_limiter.{orders.10.0.0.1}.tokens", "request_rate_limiter.{orders.10.0.0.1}.timestamp");
        assert_eq!(args, ["EVALSHA", TOKEN_BUCKET.sha1(), "2", tokens, timestamp, "10", "20", "", "3"]);
    }

    #[test]
    fn replies_become_answers() {
        assert_eq!(reply(&[1, 19, 0, 100]).unwrap().outcome, Outcome::Allowed);
        let denied = reply(&[0, 0, 70, 100]).unwrap();
        assert_eq!(denied.outcome, Outcome::Denied { retry_after: Duration::from_micros(70) });
        assert_eq!((denied.remaining, denied.reset_after), (0, Duration::from_micros(100)));
        assert_eq!(reply(&[0, 20, -1, 0]).unwrap().outcome, Outcome::NeverAdmitted);
    }

    #[test]
    fn a_reply_that_makes_no_sense_is_none() {
        for items in [&[][..], &[1, 2], &[2, 0, 0, 0], &[1, -1, 0, 0], &[1, 1, 0, -1], &[1, 1, 0, 0, 0]] {
            assert_eq!(reply(items), None, "{items:?}");
        }
        assert_eq!(answer(&Value::Nil), None);
        assert_eq!(answer(&Value::Array(vec![Value::Okay; 4])), None);
    }
}
