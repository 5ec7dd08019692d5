//! What tells one question from another.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use super::super::operands::Style;
use crate::store::Check;

/// Makes identities that nobody outside of this process can aim at: 128 bits, of two hashes with random keys.
#[derive(Default)]
pub(super) struct Seeds([RandomState; 2]);

/// What a request asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Identity {
    /// Keys and rules, which a changed rule is part of.
    pub(super) rules: u128,
    /// Those, and how much of each.
    pub(super) question: u128,
}

impl Seeds {
    pub(super) fn identify(&self, checks: &[Check<'_>], style: &Style) -> Identity {
        let [high, low] = self.0.each_ref().map(|seed| {
            let mut hasher = seed.build_hasher();
            style.hash(&mut hasher);
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
        Identity { rules: join(high.0, low.0), question: join(high.1, low.1) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::key::BucketKey;
    use crate::rule::{Rule, TokenBucket};

    #[test]
    fn another_key_rule_or_cost_is_another_question() {
        let seeds = Seeds::default();
        let [one, other] = [10, 20].map(|rate| Rule::Gcra(TokenBucket::per_second(rate, 20).unwrap()));
        let ask = |scope, id: &[u8], rule, cost| {
            seeds.identify(&[Check { key: BucketKey { scope, id }, rule, cost }], &Style::default())
        };
        let asked = ask("r", b"me", &one, 1);
        assert_eq!(asked, ask("r", b"me", &one, 1));
        let dearer = ask("r", b"me", &one, 2);
        assert_eq!((dearer.rules, dearer.question == asked.question), (asked.rules, false));
        for another in [ask("rm", b"e", &one, 1), ask("r", b"you", &one, 1), ask("r", b"me", &other, 1)] {
            assert!(another.rules != asked.rules && another.question != asked.question);
        }
        let check = Check { key: BucketKey { scope: "r", id: b"me" }, rule: &one, cost: 1 };
        assert_ne!(seeds.identify(&[check, check], &Style::default()).rules, asked.rules);
    }
}
