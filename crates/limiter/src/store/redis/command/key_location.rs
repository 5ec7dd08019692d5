//! Location of a rule's state in Redis.

use super::CallOptions;
use crate::key::{BucketKey, redis_text};
use crate::rule::Algorithm;
use crate::store::redis::hash_slot::HashSlot;

/// Key word of a string that several rules share.
pub(super) const SHARED_STRING: &str = "rules";

/// Location of a rule's state.
pub(crate) struct KeyLocation<'a> {
    /// Key that the Redis key is named after and that determines its slot. All rules of a limiter that count one key id
    /// share it.
    pub(crate) key: BucketKey<'a>,
    /// Name of the rule within its limiter (`limiter#name`). A limiter's only rule has none, in a list too if it is the one
    /// that counts under the limiter; neither have rules that limiters share (`#name`). Those have keys of their own.
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

/// Slot of all Redis keys of a rule. The prefix has no braces, so the hash tag decides.
pub(crate) fn slot_of(key: BucketKey<'_>, algorithm: Algorithm, options: &CallOptions) -> HashSlot {
    let mut name = Vec::with_capacity(96);
    let location = KeyLocation::of(key, algorithm);
    match location.packed {
        true => write_short_name(location.key, options.hash_ids, SHARED_STRING, &mut name),
        false => write_stem(location.key, options.hash_ids, algorithm.spec().key_words, &mut name),
    }
    HashSlot::of(&name)
}

/// Appends what the names of the bucket's keys have in common, one key for each of `words`. With several words, as Spring
/// Cloud Gateway names them, the word follows.
pub(super) fn write_stem(key: BucketKey<'_>, hash_id: bool, words: &[&str], out: &mut Vec<u8>) {
    match words {
        [word] => write_short_name(key, hash_id, word, out),
        _ => redis_text::write(key, hash_id, out),
    }
}

/// Returns the name of a bucket that has one Redis key: `gcra.{orders.10.0.0.1}`.
pub(crate) fn short_name(key: BucketKey<'_>, algorithm: Algorithm, hash_id: bool) -> Vec<u8> {
    let mut name = Vec::with_capacity(96);
    let word = algorithm.spec().key_words.first().copied().unwrap_or_default();
    write_short_name(key, hash_id, word, &mut name);
    name
}

fn write_short_name(key: BucketKey<'_>, hash_id: bool, word: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(word.as_bytes());
    out.extend_from_slice(b".{");
    redis_text::write_scope(key.scope, out);
    out.push(b'.');
    redis_text::write_id(key.id, hash_id, out);
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use proptest::prelude::*;

    use super::*;
    use crate::rule::samples;
    use crate::store::Check;
    use crate::store::redis::command::decide;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn all_keys_of_a_call_are_in_the_slot_of_their_rule(
            scope in "[a.%{}= ]{0,4}(#r|#2|)", id in "[a.#%{}=|+\u{e9}\n]{0,6}", hash_ids in any::<bool>(),
            prefix in "([a-z:.]{1,3}|)"
        ) {
            let options = CallOptions { prefix: prefix.as_str().into(), hash_ids, ..CallOptions::default() };
            let key = BucketKey { scope: &scope, id: id.as_bytes() };
            for rule in samples() {
                let slot = slot_of(key, rule.algorithm(), &options);
                for name in decide(&[Check { key, rule: &rule, cost: 1 }], &[], &options).keys.iter() {
                    prop_assert!(name.starts_with(prefix.as_bytes()));
                    prop_assert_eq!(HashSlot::of(name), slot, "{}", String::from_utf8_lossy(name));
                }
            }
        }

        #[test]
        fn rules_of_a_list_share_a_slot(scope in "[a.%{}= ]{1,4}", id in "[a.#%{}=|+\u{e9}\n]{0,6}") {
            let rules = samples();
            // One of them, not in Spring's keys, counts as a rule without a list does.
            let name = |number| if number == 1 { String::new() } else { format!("#r{number}") };
            let names: Vec<String> = (0..rules.len()).map(|number| format!("{scope}{}", name(number))).collect();
            let checks: Vec<_> = names.iter().zip(&rules).map(|(scope, rule)| {
                Check { key: BucketKey { scope, id: id.as_bytes() }, rule, cost: 1 }
            }).collect();
            let slots: std::collections::BTreeSet<_> =
                decide(&checks, &[], &CallOptions::default()).keys.iter().map(HashSlot::of).collect();
            prop_assert_eq!(slots.len(), 1);
        }
    }

    #[test]
    fn springs_keys_share_the_slot_of_a_list_unless_a_part_is_encoded() {
        let slots = |id: &str| {
            [("orders", Algorithm::TokenBucket), ("orders#daily", Algorithm::TokenBucket)].map(|(scope, algorithm)| {
                slot_of(BucketKey { scope, id: id.as_bytes() }, algorithm, &CallOptions::default())
            })
        };
        for id in ["10.0.0.1", "2001:db8::1", "a@example.org", "6f1c-_~/", ""] {
            assert_eq!(slots(id)[0], slots(id)[1], "{id}");
        }
        assert_ne!(slots("Bearer x")[0], slots("Bearer x")[1]);
    }
}
