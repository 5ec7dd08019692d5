//! `lua/request_counter.lua` as commands and replies.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};

use super::batch::Delta;
use crate::limiter::store::redis::Script;

static REQUEST_COUNTER: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../../lua/request_counter.lua")));

/// How long Redis remembers the number of a sender's last batch. No batch is sent again for as long
/// ([`RESEND_FOR`]); a sender is one run of a process, and its numbers stay this long after it.
const REMEMBERED_FOR: Duration = Duration::from_secs(24 * 3_600);

/// How long after it was first sent a batch may be sent again. The hour is for clocks that run at different speeds.
pub(super) const RESEND_FOR: Duration = Duration::from_secs(23 * 3_600);

/// The largest increment that the script takes.
const MOST: u64 = 999_999_999_999_999_999;

/// What became of one delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its counts are in Redis, by this call or by one before it.
    Landed,
    /// It can never be added: something else is stored there.
    Refused,
}

/// Adds `deltas` to their hashes as `sender`'s batch `number`. The script goes first: two kilobytes a tick, and none of
/// the calls behind it can find it missing.
pub(super) fn pipeline(sender: &str, number: u64, deltas: &[Delta]) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(deltas.len() + 1);
    pipeline.add_command(REQUEST_COUNTER.load());
    for delta in deltas {
        pipeline.add_command(add(sender, number, delta));
    }
    pipeline
}

fn add(sender: &str, number: u64, delta: &Delta) -> Cmd {
    let marker = [&delta.name[..], b".", sender.as_bytes()].concat();
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(REQUEST_COUNTER.sha1()).arg(2).arg(&delta.name[..]).arg(marker);
    cmd.arg(number).arg(delta.ttl_secs).arg(REMEMBERED_FOR.as_secs());
    for (field, counts) in &delta.fields {
        for (what, count) in counts.named() {
            if count > 0 {
                cmd.arg([field, what.as_bytes()].concat()).arg(count.min(MOST));
            }
        }
    }
    cmd
}

/// What became of `deltas` deltas, in order; `None` when the answers make no sense.
pub(super) fn fates(replies: &[Value], deltas: usize) -> Option<Vec<Fate>> {
    let fate = |reply: &Value| match reply {
        Value::Int(0 | 1) => Some(Fate::Landed),
        Value::Int(-1) => Some(Fate::Refused),
        _ => None,
    };
    match replies.split_first() {
        Some((_, replies)) if replies.len() == deltas => replies.iter().map(fate).collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::metering::Counts;

    #[test]
    fn the_command_has_the_scripts_order_and_no_zeroes() {
        let delta = Delta {
            name: (*b"request_counter.{r.a}.2026-11-21").into(),
            ttl_secs: 60,
            fields: vec![((*b"GET.").into(), Counts { requests: 3, bytes_in: 0, bytes_out: u64::MAX })],
            cells: 1,
        };
        let text = String::from_utf8(add("g", 7, &delta).get_packed_command()).unwrap();
        let args: Vec<&str> = text.split("\r\n").skip(2).step_by(2).collect();
        let (name, marker) = ("request_counter.{r.a}.2026-11-21", "request_counter.{r.a}.2026-11-21.g");
        let evalsha = ["EVALSHA", REQUEST_COUNTER.sha1(), "2", name, marker, "7", "60", "86400"];
        assert_eq!(args[..8], evalsha);
        assert_eq!(args[8..], ["GET.requests", "3", "GET.bytes_out", "999999999999999999"]);
    }

    #[test]
    fn replies_become_fates() {
        let replies = |numbers: &[i64]| -> Vec<Value> {
            std::iter::once(Value::Okay).chain(numbers.iter().copied().map(Value::Int)).collect()
        };
        assert_eq!(fates(&replies(&[1, 0, -1]), 3).unwrap(), [Fate::Landed, Fate::Landed, Fate::Refused]);
        for (replies, deltas) in [(replies(&[1]), 2), (replies(&[1, 2]), 2), (Vec::new(), 0)] {
            assert_eq!(fates(&replies, deltas), None);
        }
        assert_eq!(fates(&[Value::Okay, Value::Nil], 1), None);
    }
}
