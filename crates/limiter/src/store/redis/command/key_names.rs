//! Names of buckets in Redis, for operators who look for them.

use super::key_location::short_name;
use super::options::CallOptions;
use super::script_call::decide;
use crate::store::Check;

/// Returns the Redis keys that one decision under all of `checks` reads and writes, without
/// [`RedisSettings::key_prefix`](crate::store::redis::RedisSettings::key_prefix).
///
/// `hash_ids`: key ids are written as hashes. `locked`: a [`LockedStore`](crate::store::redis::LockedStore) decides,
/// which has one key for each rule.
#[must_use]
pub fn key_names(checks: &[Check<'_>], hash_ids: bool, locked: bool) -> Vec<String> {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    if locked {
        return checks.iter().map(|check| text(&short_name(check.key, check.rule.algorithm(), hash_ids))).collect();
    }
    decide(checks, &CallOptions { hash_ids, ..CallOptions::default() }).keys.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::time::Duration;

    use super::*;
    use crate::key::BucketKey;
    use crate::rule::{Align, FixedWindow, Rule, TokenBucket};

    #[test]
    fn names_are_the_keys_of_a_decision() {
        let bucket = Rule::TokenBucket(TokenBucket::per_second(1, 2).unwrap());
        let window = Rule::FixedWindow(FixedWindow::new(5, Duration::from_secs(1), Align::First).unwrap());
        let check = |scope, rule| Check { key: BucketKey { scope, id: b"ada" }, rule, cost: 1 };
        let spring_names = ["request_rate_limiter.{orders.ada}.tokens", "request_rate_limiter.{orders.ada}.timestamp"];
        assert_eq!(key_names(&[check("orders", &bucket)], false, false), spring_names);
        assert_eq!(key_names(&[check("orders", &window)], false, true), ["window.{orders.ada}"]);
        let both = [check("orders#a", &bucket), check("orders#b", &window)];
        assert_eq!(key_names(&both, false, false), ["rules.{orders.ada}"]);
        assert!(key_names(&[check("orders", &bucket)], true, false)[0].contains(".#"));
    }
}
