//! Fingerprints of checks.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use crate::store::Check;
use crate::store::redis::command::CallOptions;

/// Random keys of two hash functions. Clients cannot aim at a collision of their 128 bits.
#[derive(Default)]
pub(super) struct FingerprintSeeds([RandomState; 2]);

/// Fingerprint of the checks of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Keys and rules.
    pub(super) rules: u128,
    /// Keys, rules and costs.
    pub(super) checks: u128,
}

impl FingerprintSeeds {
    pub(super) fn fingerprint(&self, checks: &[Check<'_>], options: &CallOptions) -> Fingerprint {
        let [high, low] = self.0.each_ref().map(|seed| {
            let mut hasher = seed.build_hasher();
            options.hash(&mut hasher);
            checks.len().hash(&mut hasher);
            for check in checks {
                check.key.hash(&mut hasher);
                check.rule.hash(&mut hasher);
            }
            let rules = hasher.finish();
            checks.iter().for_each(|check| hasher.write_u64(check.cost));
            (rules, hasher.finish())
        });
        let join = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
        Fingerprint { rules: join(high.0, low.0), checks: join(high.1, low.1) }
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
        let seeds = FingerprintSeeds::default();
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
