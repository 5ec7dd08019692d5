//! Fingerprints of checks.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use crate::store::Check;
use crate::store::memory::hash;
use crate::store::redis::command::CallOptions;
use crate::sync::random_key;

/// Hash function with a random key. Clients cannot aim at a collision of its 128 bits.
pub(super) struct FingerprintSeed(hash::Hasher);

/// Fingerprint of the checks of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Keys and rules.
    pub(super) rules: u128,
    /// Keys, rules and costs.
    pub(super) checks: u128,
}

/// Map by fingerprints. They are hashes already.
pub(super) type FingerprintMap<V> = HashMap<u128, V, BuildHasherDefault<LowHalf>>;

/// Hasher that takes the lower half of a fingerprint.
#[derive(Default)]
pub(super) struct LowHalf(u64);

impl Default for FingerprintSeed {
    fn default() -> Self {
        Self(hash::Hasher::new(random_key()))
    }
}

impl FingerprintSeed {
    pub(super) fn fingerprint(&self, checks: &[Check<'_>], options: &CallOptions) -> Fingerprint {
        let mut hasher = self.0.words();
        options.hash(&mut hasher);
        checks.len().hash(&mut hasher);
        for check in checks {
            check.key.hash(&mut hasher);
            check.rule.hash(&mut hasher);
        }
        let rules = hasher.finish_128();
        checks.iter().for_each(|check| hasher.write_u64(check.cost));
        Fingerprint { rules, checks: hasher.finish_128() }
    }
}

impl Hasher for LowHalf {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u128(&mut self, fingerprint: u128) {
        self.0 = fingerprint as u64;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::key::BucketKey;
    use crate::rule::{Rule, TokenBucket};

    #[test]
    fn another_key_rule_or_cost_has_another_fingerprint() {
        let seeds = FingerprintSeed::default();
        let [one, other] = [10, 20].map(|rate| Rule::Gcra(TokenBucket::per_second(rate, 20).unwrap()));
        let ask = |scope, id: &[u8], rule, cost| {
            seeds.fingerprint(&[Check { key: BucketKey { scope, id }, rule, cost }], &CallOptions::default())
        };
        let asked = ask("r", b"me", &one, 1);
        assert_eq!(asked, ask("r", b"me", &one, 1));
        let dearer = ask("r", b"me", &one, 2);
        assert_eq!((dearer.rules, dearer.checks == asked.checks), (asked.rules, false));
        for another in [ask("rm", b"e", &one, 1), ask("r", b"you", &one, 1), ask("r", b"me", &other, 1)] {
            assert!(another.rules != asked.rules && another.checks != asked.checks);
        }
        let check = Check { key: BucketKey { scope: "r", id: b"me" }, rule: &one, cost: 1 };
        assert_ne!(seeds.fingerprint(&[check, check], &CallOptions::default()).rules, asked.rules);
    }
}
