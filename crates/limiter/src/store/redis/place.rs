//! Where in Redis the state of a rule is kept.

use super::hash_slot::HashSlot;
use super::operands::Style;
use super::script::Script;
use crate::key::{BucketKey, redis_text};
use crate::rule::Algorithm;

/// By which script a rule of a list is decided. Spring knows no lists, so a token bucket in one is kept as GCRA keeps it,
/// with the same verdicts.
pub(super) fn packed(algorithm: Algorithm) -> Algorithm {
    match algorithm {
        Algorithm::TokenBucket => Algorithm::Gcra,
        other => other,
    }
}

/// Where the state of a rule is kept.
pub(super) struct Place<'a> {
    /// What its key is named after, and what the slot depends on: all rules of a limiter that count one key id have it
    /// in common.
    pub(super) key: BucketKey<'a>,
    /// What tells it from the other rules of its limiter (`limiter#name`). What limiters share (`#name`) has a key of its
    /// own, where each of them finds it, and so has a limiter's only rule.
    pub(super) name: Option<&'a str>,
    /// Whether it is in one string with others.
    pub(super) packs: bool,
}

impl<'a> Place<'a> {
    pub(super) fn of(key: BucketKey<'a>, algorithm: Algorithm) -> Self {
        let parts = key.scope.rsplit_once('#').filter(|(scope, name)| {
            !scope.is_empty()
                && name.starts_with(|c: char| c.is_ascii_alphabetic())
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        });
        match parts {
            Some((scope, name)) => {
                let packs = Script::is_packable(packed(algorithm));
                Self { key: BucketKey { scope, ..key }, name: Some(name), packs }
            }
            None => Self { key, name: None, packs: false },
        }
    }
}

/// The slot of all keys of a rule.
pub(super) fn slot_of(key: BucketKey<'_>, algorithm: Algorithm, style: &Style) -> HashSlot {
    let mut name = Vec::with_capacity(96);
    redis_text::write(Place::of(key, algorithm).key, style.hash_ids, &mut name);
    HashSlot::of(&name)
}
