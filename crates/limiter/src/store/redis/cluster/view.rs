//! What a node of a cluster knows of it.

use std::ops::RangeInclusive;

use redis::Value;

use super::super::hash_slot::HashSlot;
use super::super::settings::HostPort;

/// Which primary keeps which slots, as one node sees it.
pub(super) type View = Vec<(RangeInclusive<u16>, HostPort)>;

/// Reads the answer to `CLUSTER SLOTS` of a node that was reached as `asked`: `[first, last, [host, port, ..], replica..]`
/// for each range. A node that does not know its own host leaves it empty, and means the one that was asked; `?` is a
/// node that has no name where names were wanted, and nobody can be sent there. `None`: it makes no sense, or
/// knows of no slots.
pub(super) fn view(reply: &Value, asked: &str) -> Option<View> {
    let Value::Array(ranges) = reply else { return None };
    let known: View = ranges.iter().map(|entry| range(entry, asked)).collect::<Option<Vec<_>>>()?.concat();
    (!known.is_empty()).then_some(known)
}

fn range(entry: &Value, asked: &str) -> Option<View> {
    let Value::Array(entry) = entry else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = entry.as_slice() else { return None };
    let [host, Value::Int(port), ..] = primary.as_slice() else { return None };
    let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
    if last >= HashSlot::COUNT {
        return None;
    }
    let host = match host {
        Value::Nil => asked,
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::SimpleString(host) => host,
        _ => return None,
    };
    let host = match host {
        "?" => return Some(View::new()),
        "" => asked,
        host => host,
    };
    Some(vec![(first..=last, HostPort { host: host.to_owned(), port: u16::try_from(*port).ok()? })])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn entry(first: i64, last: i64, host: Value, port: i64) -> Value {
        let node = |host, port| Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec())]);
        let replica = node(Value::BulkString(b"replica".to_vec()), 1);
        Value::Array(vec![Value::Int(first), Value::Int(last), node(host, port), replica])
    }

    fn text(host: &str) -> Value {
        Value::BulkString(host.as_bytes().to_vec())
    }

    #[test]
    fn primaries_are_known_by_their_slots() {
        let reply = Value::Array(vec![
            entry(0, 5460, text("10.0.0.1"), 6379),
            entry(5461, 5461, text(""), 6380),
            entry(5462, 10_000, Value::Nil, 6381),
            entry(10_001, 16_382, text("redis-3.example"), 6382),
            entry(16_383, 16_383, text("?"), 6383),
        ]);
        let at = |host: &str, port| HostPort { host: host.into(), port };
        let known = vec![
            (0..=5460, at("10.0.0.1", 6379)),
            (5461..=5461, at("asked", 6380)),
            (5462..=10_000, at("asked", 6381)),
            (10_001..=16_382, at("redis-3.example", 6382)),
        ];
        assert_eq!(view(&reply, "asked").unwrap(), known);
    }

    #[test]
    fn an_answer_that_makes_no_sense_is_none() {
        let of = |entries: Vec<Value>| view(&Value::Array(entries), "asked");
        assert_eq!(view(&Value::Okay, "asked"), None);
        assert_eq!(of(Vec::new()), None, "no slots are no cluster");
        assert_eq!(of(vec![entry(0, 5, text("?"), 1)]), None);
        for bad in [
            entry(0, 16_384, text("h"), 1),
            entry(-1, 5, text("h"), 1),
            entry(0, 5, text("h"), 70_000),
            entry(0, 5, Value::Okay, 1),
            Value::Array(vec![Value::Int(0), Value::Int(5)]),
            Value::Int(3),
        ] {
            assert_eq!(of(vec![entry(0, 5, text("h"), 1), bad.clone()]), None, "{bad:?}");
        }
    }
}
