//! What buckets are called in Redis, for people who look for them there.

use super::call::decide;
use super::operands::{Style, short_name, suffixes};
use crate::store::Check;

/// The keys that one decision under all of `checks` reads and writes. `hash_ids`: key ids are written as hashes.
/// `locked`: decisions are those of a [`LockedStore`](super::LockedStore), whose rules have a key each.
#[must_use]
pub fn key_names(checks: &[Check<'_>], hash_ids: bool, locked: bool) -> Vec<String> {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    if locked {
        let of_check = |check: &Check<'_>| {
            let what = suffixes(check.rule.algorithm()).first().copied().unwrap_or_default();
            text(&short_name(check.key, hash_ids, what))
        };
        return checks.iter().map(of_check).collect();
    }
    decide(checks, &Style { hash_ids, clock: None }).keys().map(text).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::time::Duration;

    use super::*;
    use crate::key::BucketKey;
    use crate::rule::{Align, FixedWindow, Rule, TokenBucket};

    #[test]
    fn names_are_those_that_a_decision_uses() {
        let bucket = Rule::TokenBucket(TokenBucket::per_second(1, 2).unwrap());
        let window = Rule::FixedWindow(FixedWindow::new(5, Duration::from_secs(1), Align::First).unwrap());
        let check = |scope, rule| Check { key: BucketKey { scope, id: b"ada" }, rule, cost: 1 };
        let springs = ["request_rate_limiter.{orders.ada}.tokens", "request_rate_limiter.{orders.ada}.timestamp"];
        assert_eq!(key_names(&[check("orders", &bucket)], false, false), springs);
        assert_eq!(key_names(&[check("orders", &window)], false, true), ["window.{orders.ada}"]);
        let both = [check("orders#a", &bucket), check("orders#b", &window)];
        assert_eq!(key_names(&both, false, false), ["rules.{orders.ada}"]);
        assert!(key_names(&[check("orders", &bucket)], true, false)[0].contains(".#"));
    }
}
