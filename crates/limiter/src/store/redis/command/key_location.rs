//! Location of a rule's state in Redis.

use super::options::CallOptions;
use crate::key::{BucketKey, redis_text};
use crate::rule::Algorithm;
use crate::store::redis::hash_slot::HashSlot;

/// Location of a rule's state.
pub(crate) struct KeyLocation<'a> {
    /// Key that the Redis key is named after and that determines its slot. All rules of a limiter that count one key id
    /// share it.
    pub(crate) key: BucketKey<'a>,
    /// Name of the rule within its limiter (`limiter#name`). A limiter's only rule has none, and neither have rules that
    /// limiters share (`#name`): those have a key of their own, where each limiter finds it.
    pub(crate) rule_name: Option<&'a str>,
    /// True if the state shares one string with those of other rules.
    pub(crate) packed: bool,
}

impl<'a> KeyLocation<'a> {
    pub(crate) fn of(key: BucketKey<'a>, algorithm: Algorithm) -> Self {
        let parts = key.scope.rsplit_once('#').filter(|(scope, name)| {
            !scope.is_empty()
                && name.starts_with(|c: char| c.is_ascii_alphabetic())
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        });
        match parts {
            Some((scope, name)) => {
                let packed = algorithm.spec().in_list.spec().packable;
                Self { key: BucketKey { scope, ..key }, rule_name: Some(name), packed }
            }
            None => Self { key, rule_name: None, packed: false },
        }
    }
}

/// Slot of all Redis keys of a rule.
pub(crate) fn slot_of(key: BucketKey<'_>, algorithm: Algorithm, options: &CallOptions) -> HashSlot {
    let mut name = Vec::with_capacity(96);
    redis_text::write(KeyLocation::of(key, algorithm).key, options.hash_ids, &mut name);
    HashSlot::of(&name)
}

/// Name of a bucket that has one Redis key: `gcra.{orders.10.0.0.1}`.
pub(crate) fn short_name(key: BucketKey<'_>, algorithm: Algorithm, hash_id: bool) -> Vec<u8> {
    let mut name = Vec::with_capacity(96);
    let word = algorithm.spec().key_words.first().copied().unwrap_or_default();
    write_short_name(key, hash_id, word, &mut name);
    name
}

pub(super) fn write_short_name(key: BucketKey<'_>, hash_id: bool, word: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(word.as_bytes());
    out.extend_from_slice(b".{");
    redis_text::write_scope(key.scope, out);
    out.push(b'.');
    redis_text::write_id(key.id, hash_id, out);
    out.push(b'}');
}
