//! Reply to `CLUSTER SLOTS`.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use redis::Value;

use crate::store::redis::connection_settings::HostPort;
use crate::store::redis::hash_slot::HashSlot;

/// Ranges of slots and their primaries, as one node knows them.
pub(super) type SlotRanges = Vec<(RangeInclusive<u16>, HostPort)>;

/// A cluster as one node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClusterView {
    pub(super) ranges: SlotRanges,
    /// Ids of primaries and replicas; none before Redis 4.
    pub(super) ids: BTreeSet<Vec<u8>>,
}

/// Parses the reply of a node that was reached as `replying_host`: `[first, last, [host, port, id, ..], replica..]` for each range.
///
/// An empty host means that node. The host `?` is a node without the preferred kind of name; nothing can be
/// sent to it. `None`: the reply is invalid or has no slots.
pub(super) fn parse_slots(reply: &Value, replying_host: &str) -> Option<ClusterView> {
    let Value::Array(entries) = reply else { return None };
    let ranges: SlotRanges =
        entries.iter().map(|entry| range(entry, replying_host)).collect::<Option<Vec<_>>>()?.concat();
    let nodes = entries.iter().filter_map(|entry| entry.as_sequence()?.get(2..)).flatten();
    let id = |node: &Value| match node.as_sequence()?.get(2)? {
        Value::BulkString(id) => Some(id.clone()),
        _ => None,
    };
    (!ranges.is_empty()).then(|| ClusterView { ranges, ids: nodes.filter_map(id).collect() })
}

fn range(entry: &Value, replying_host: &str) -> Option<SlotRanges> {
    let Value::Array(entry) = entry else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = entry.as_slice() else { return None };
    let [host, Value::Int(port), ..] = primary.as_slice() else { return None };
    let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
    if last >= HashSlot::COUNT {
        return None;
    }
    let host = match host {
        Value::Nil => replying_host,
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::SimpleString(host) => host,
        _ => return None,
    };
    let host = match host {
        "?" => return Some(SlotRanges::new()),
        "" => replying_host,
        host => host,
    };
    Some(vec![(first..=last, HostPort { host: host.to_owned(), port: u16::try_from(*port).ok()? })])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn entry(first: i64, last: i64, host: Value, port: i64) -> Value {
        let node = |host, port, id: &str| Value::Array(vec![host, Value::Int(port), text(id)]);
        Value::Array(vec![Value::Int(first), Value::Int(last), node(host, port, "id"), node(text("replica"), 1, "id2")])
    }

    fn text(host: &str) -> Value {
        Value::BulkString(host.as_bytes().to_vec())
    }

    #[test]
    fn ranges_are_read_with_their_primaries() {
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
        let view = parse_slots(&reply, "asked").unwrap();
        assert_eq!((view.ranges, view.ids), (known, BTreeSet::from([b"id".to_vec(), b"id2".to_vec()])));
    }

    #[test]
    fn an_invalid_reply_is_none() {
        let of = |entries: Vec<Value>| parse_slots(&Value::Array(entries), "asked");
        assert_eq!(parse_slots(&Value::Okay, "asked"), None);
        assert_eq!(of(Vec::new()), None, "a reply without slots");
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
