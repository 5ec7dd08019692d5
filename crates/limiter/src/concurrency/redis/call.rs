//! Operations on slots as commands, and their replies decoded.

use std::sync::LazyLock;

use redis::{Cmd, Value};

use crate::concurrency::Concurrency;
use crate::concurrency::slots::Owner;
use crate::concurrency::slots::{Reply, Step};
use crate::key::{BucketKey, redis_text};
use crate::store::redis::Script;

/// Beginning of every name. Scope and key id follow as [`redis_text`] writes them, so that no two pairs collide.
const BEGINNING: &[u8] = b"concurrency_limiter.{";

/// Script of all operations.
pub(super) static SCRIPT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../../lua/concurrency.lua")));

/// Operation on a slot.
#[derive(Clone, Copy)]
pub(super) enum SlotOperation {
    Acquire,
    Renew,
    Release,
}

impl SlotOperation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
        }
    }
}

/// Redis key of the slots of `key`.
pub(super) fn name(prefix: &str, key: BucketKey<'_>, hash_id: bool) -> Vec<u8> {
    let mut name = Vec::with_capacity(96);
    name.extend_from_slice(prefix.as_bytes());
    name.extend_from_slice(BEGINNING);
    redis_text::write_scope(key.scope, &mut name);
    name.push(b'.');
    redis_text::write_id(key.id, hash_id, &mut name);
    name.extend_from_slice(b"}.leases");
    name
}

/// Command that runs `operation` for `owner` on the slots named `name`, at Redis' own time.
pub(super) fn command(operation: SlotOperation, name: &[u8], owner: Owner, rule: &Concurrency) -> Cmd {
    let mut cmd = Cmd::with_capacity(9, name.len() + 160);
    cmd.arg("EVALSHA").arg(SCRIPT.sha1()).arg(1).arg(name);
    cmd.arg(operation.as_str()).arg(owner.to_string()).arg(rule.limit()).arg(rule.ttl_us()).arg("");
    cmd
}

/// Decodes the script's reply; `None`: it is invalid.
pub(super) fn reply(value: &Value) -> Option<Reply> {
    let Value::Array(items) = value else { return None };
    let [Value::Int(step), Value::Int(held), Value::Int(ends_in_us), Value::Int(_)] = items.as_slice() else {
        return None;
    };
    let step = match step {
        0 => Step::Refused,
        1 => Step::Done,
        2 => Step::Retaken,
        _ => return None,
    };
    Some(Reply { step, held: u64::try_from(*held).ok()?, ends_in_us: u64::try_from(*ends_in_us).ok()? })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn names_keep_scope_and_key_id_apart_and_in_one_slot() {
        let name = |scope, id: &[u8]| String::from_utf8(name("", BucketKey { scope, id }, false)).unwrap();
        assert_eq!(name("orders", b"10.0.0.1"), "concurrency_limiter.{orders.10.0.0.1}.leases");
        assert_eq!(name("a.b", b"}c"), "concurrency_limiter.{a%2Eb.%7Dc}.leases");
        assert_ne!(name("a.b", b"c"), name("a", b"b.c"));
        let prefixed = super::name("prod:", BucketKey { scope: "a", id: b"b" }, false);
        assert_eq!(prefixed, b"prod:concurrency_limiter.{a.b}.leases");
    }

    #[test]
    fn an_invalid_reply_is_none() {
        let int = Value::Int;
        assert!(reply(&Value::Array(vec![int(2), int(3), int(4), int(5)])).is_some());
        for value in [Value::Nil, Value::Array(vec![int(1)]), Value::Array(vec![int(3), int(0), int(0), int(0)])] {
            assert_eq!(reply(&value), None, "{value:?}");
        }
    }
}
