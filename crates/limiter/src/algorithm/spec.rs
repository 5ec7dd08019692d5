//! Table of the facts about each algorithm that stores, headers and configuration need.
//!
//! A new algorithm is a Rust file with its settings and its [`Algorithm`](super::Algorithm) implementation, a Lua script, a
//! row here and one in the list of rules. All scripts reply alike, so that decoding a reply needs no row.

use std::time::Duration;

use crate::rule::{
    Algorithm, NumberKind, NumberSpec, Rule, RuleError, SlidingWindowCounter, SlidingWindowLog, TokenBucket,
};

/// Form of an algorithm's settings in configuration, with the function that makes the rule where algorithms share one.
#[derive(Clone, Copy, Debug)]
pub enum SettingsForm {
    /// A rate, a period and a burst.
    Bucket(fn(TokenBucket) -> Rule),
    /// A limit per window of one length.
    Window(fn(u64, Duration) -> Result<Rule, RuleError>),
    /// A limit per window, which has a length or follows a calendar.
    FixedWindow,
    /// A rate, and the longest wait for a turn.
    Pace,
    /// A prepaid total, which a calendar may reset.
    Quota,
}

/// Facts about one algorithm.
#[derive(Debug)]
pub struct AlgorithmSpec {
    /// Algorithm that the row describes; [`Algorithm::as_str`] is its name in configuration and metrics.
    pub algorithm: Algorithm,
    /// Text of the Lua script that decides under one rule.
    pub script: &'static str,
    /// Words that tell the keys of one bucket in Redis apart. With one word, the key is `word.{scope.id}`; with several,
    /// each key is Spring Cloud Gateway's prefix and a word.
    pub key_words: &'static [&'static str],
    /// Algorithm that decides the rule, with the same verdicts, when it is one of several named rules of a limiter.
    pub in_list: Algorithm,
    /// True if the script keeps its state in one string, which can share a Redis key with the states of other rules.
    pub packable: bool,
    /// True if all Redis keys are strings, and an empty string counts as a missing key.
    pub keeps_strings: bool,
    /// True if the return of a lease needs the time of its grant. A bucket takes back all of it: a lease is short.
    pub leases_by_time: bool,
    /// True if a correction may rewrite the entries of all later requests.
    pub settles_slowly: bool,
    /// Weight of a decision in a batch: the longest one, compared with the other algorithms.
    pub weight: usize,
    /// True if several equal requests can be decided by one call.
    pub coalesces: bool,
    /// True if a gateway can lease requests and decide them without a call.
    pub leasable: bool,
    /// True if plain commands under a lock can decide (`atomicity: lock`).
    pub lockable: bool,
    /// True if allowed requests are delayed.
    pub paces: bool,
    /// True if the limit is a prepaid total, which operators set and grant.
    pub prepaid: bool,
    /// Settings in configuration.
    pub settings: SettingsForm,
    /// Numbers that can change while keys keep their state; [`Rule::with_numbers`](crate::rule::Rule::with_numbers)
    /// changes them.
    pub numbers: &'static [NumberSpec],
}

const fn count(name: &'static str) -> NumberSpec {
    NumberSpec { name, kind: NumberKind::Count }
}

const fn rate(name: &'static str) -> NumberSpec {
    NumberSpec { name, kind: NumberKind::Rate }
}

const fn time(name: &'static str) -> NumberSpec {
    NumberSpec { name, kind: NumberKind::Time }
}

/// Numbers of buckets.
const BUCKET: &[NumberSpec] = &[rate("replenish-rate"), time("period"), count("burst-capacity")];

/// Values that most rows share.
const DEFAULT: AlgorithmSpec = AlgorithmSpec {
    algorithm: Algorithm::Gcra,
    script: "",
    key_words: &[],
    in_list: Algorithm::Gcra,
    packable: true,
    keeps_strings: true,
    leases_by_time: true,
    settles_slowly: false,
    weight: 1,
    coalesces: true,
    leasable: false,
    lockable: false,
    paces: false,
    prepaid: false,
    settings: SettingsForm::FixedWindow,
    numbers: &[count("limit")],
};

/// One row for each algorithm, in the order of [`Algorithm::ALL`].
static SPECS: [AlgorithmSpec; Algorithm::ALL.len()] = [
    AlgorithmSpec {
        algorithm: Algorithm::TokenBucket,
        script: include_str!("../../lua/token_bucket.lua"),
        // Spring Cloud Gateway's names.
        key_words: &["tokens", "timestamp"],
        // Spring has no lists of rules.
        in_list: Algorithm::Gcra,
        packable: false,
        leases_by_time: false,
        leasable: true,
        settings: SettingsForm::Bucket(Rule::TokenBucket),
        numbers: BUCKET,
        ..DEFAULT
    },
    AlgorithmSpec {
        algorithm: Algorithm::Gcra,
        script: include_str!("../../lua/gcra.lua"),
        // Short, since a million keys carry it: 24 bytes less for each than Spring's prefix.
        key_words: &["gcra"],
        in_list: Algorithm::Gcra,
        leases_by_time: false,
        leasable: true,
        settings: SettingsForm::Bucket(Rule::Gcra),
        numbers: BUCKET,
        ..DEFAULT
    },
    AlgorithmSpec {
        algorithm: Algorithm::FixedWindow,
        script: include_str!("../../lua/fixed_window.lua"),
        key_words: &["window"],
        in_list: Algorithm::FixedWindow,
        leasable: true,
        lockable: true,
        ..DEFAULT
    },
    AlgorithmSpec {
        algorithm: Algorithm::SlidingWindowLog,
        script: include_str!("../../lua/sliding_window_log.lua"),
        key_words: &["entries"],
        in_list: Algorithm::SlidingWindowLog,
        settings: SettingsForm::Window(|limit, window| SlidingWindowLog::new(limit, window).map(Rule::from)),
        // A sorted set.
        packable: false,
        keeps_strings: false,
        settles_slowly: true,
        // A search in the log, or a clock that was set back.
        weight: 48,
        lockable: true,
        ..DEFAULT
    },
    AlgorithmSpec {
        algorithm: Algorithm::SlidingWindowCounter,
        script: include_str!("../../lua/sliding_window_counter.lua"),
        key_words: &["counter"],
        in_list: Algorithm::SlidingWindowCounter,
        settings: SettingsForm::Window(|limit, window| SlidingWindowCounter::new(limit, window).map(Rule::from)),
        lockable: true,
        ..DEFAULT
    },
    AlgorithmSpec {
        algorithm: Algorithm::LeakyBucket,
        script: include_str!("../../lua/leaky_bucket.lua"),
        key_words: &["leaky"],
        in_list: Algorithm::LeakyBucket,
        // Each request asks for a turn of its own.
        coalesces: false,
        paces: true,
        settings: SettingsForm::Pace,
        numbers: &[rate("rate"), time("period"), time("max-wait"), count("max-queue")],
        ..DEFAULT
    },
    AlgorithmSpec {
        algorithm: Algorithm::Quota,
        script: include_str!("../../lua/quota.lua"),
        key_words: &["quota"],
        in_list: Algorithm::Quota,
        packable: false,
        prepaid: true,
        settings: SettingsForm::Quota,
        numbers: &[count("allowance")],
        ..DEFAULT
    },
];

impl Algorithm {
    /// Row of the algorithm in the table.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn spec(self) -> &'static AlgorithmSpec {
        &SPECS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_has_its_row() {
        for algorithm in Algorithm::ALL {
            let spec = algorithm.spec();
            assert_eq!(spec.algorithm, algorithm);
            assert!(!spec.script.is_empty() && !spec.key_words.is_empty(), "{algorithm:?}");
            assert!(spec.in_list.spec().in_list == spec.in_list, "{algorithm:?}");
        }
    }
}
