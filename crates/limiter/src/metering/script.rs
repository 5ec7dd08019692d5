//! `lua/request_counter.lua` as commands and replies.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, Value};

use super::batch::Delta;
use crate::store::redis::{HashSlot, Script};

/// The script of all calls.
pub(super) static REQUEST_COUNTER: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../lua/request_counter.lua")));

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

/// The calls that add `deltas` to their hashes as `sender`'s batch `number`, each with the slot of its keys.
pub(super) fn calls(sender: &str, number: u64, deltas: &[Delta]) -> Vec<(HashSlot, Cmd)> {
    deltas.iter().map(|delta| (HashSlot::of(&delta.name), add(sender, number, delta))).collect()
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

/// What became of a delta; `None` when the answer makes no sense.
pub(super) fn fate(reply: &Value) -> Option<Fate> {
    match reply {
        Value::Int(0 | 1) => Some(Fate::Landed),
        Value::Int(-1) => Some(Fate::Refused),
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
        let fates = [1, 0, -1].map(|number| fate(&Value::Int(number)).unwrap());
        assert_eq!(fates, [Fate::Landed, Fate::Landed, Fate::Refused]);
        assert_eq!([Value::Int(2), Value::Nil].map(|reply| fate(&reply)), [None, None]);
    }
}
