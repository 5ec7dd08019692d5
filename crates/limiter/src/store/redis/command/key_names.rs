//! Names of buckets in Redis, for operators who look for them.

use std::sync::Arc;

use super::key_location::{own_key, short_name};
use super::options::CallOptions;
use super::script_call::decide;
use crate::store::Check;
use crate::store::redis::limiters::Limiters;

/// Names of the keys of a limiter in Redis.
#[derive(Clone, Debug, Default)]
pub struct KeyNames {
    /// [`RedisSettings::key_prefix`](crate::store::redis::RedisSettings::key_prefix).
    pub prefix: Arc<str>,
    /// Key ids are written as hashes.
    pub hash_ids: bool,
    /// A [`LockedStore`](crate::store::redis::LockedStore) decides, which has one key for each rule.
    pub is_locked: bool,
    /// Rules of all limiters, as the store knows them.
    pub limiters: Arc<Limiters>,
}

impl KeyNames {
    /// Returns the keys that one decision under all of `checks` reads and writes.
    #[must_use]
    pub fn of(&self, checks: &[Check<'_>]) -> Vec<String> {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        if self.is_locked {
            let name = |check: &Check<'_>| {
                let algorithm = check.rule.algorithm();
                let name = short_name(own_key(check.key, algorithm, &self.limiters), algorithm, self.hash_ids);
                format!("{}{}", self.prefix, text(&name))
            };
            return checks.iter().map(name).collect();
        }
        let (prefix, limiters) = (Arc::clone(&self.prefix), Arc::clone(&self.limiters));
        let options = CallOptions { prefix, limiters, hash_ids: self.hash_ids, ..CallOptions::default() };
        decide(checks, &options).keys.iter().map(text).collect()
    }
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
        let names = |hash_ids, is_locked| KeyNames { hash_ids, is_locked, ..KeyNames::default() };
        let check = |scope, rule| Check { key: BucketKey { scope, id: b"ada" }, rule, cost: 1 };
        let spring_names = ["request_rate_limiter.{orders.ada}.tokens", "request_rate_limiter.{orders.ada}.timestamp"];
        assert_eq!(names(false, false).of(&[check("orders", &bucket)]), spring_names);
        assert_eq!(names(false, true).of(&[check("orders", &window)]), ["window.{orders.ada}"]);
        let both = [check("orders#a", &bucket), check("orders#b", &window)];
        assert_eq!(names(false, false).of(&both), ["rules.{orders.ada}"]);
        assert!(names(true, false).of(&[check("orders", &bucket)])[0].contains(".#"));
    }
}
