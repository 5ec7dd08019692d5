//! `config/schema.json` accepts valid files and refuses wrong arguments of filters and predicates.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn validator() -> Validator {
    let text = std::fs::read_to_string(root().join("config/schema.json")).unwrap();
    jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
}

fn value(yaml: &str) -> Value {
    let mut value: serde_yaml::Value = serde_yaml::from_str(yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"));
    value.apply_merge().unwrap();
    serde_json::to_value(value).unwrap()
}

fn errors(validator: &Validator, instance: &Value) -> Vec<String> {
    validator.iter_errors(instance).map(|error| error.to_string()).collect()
}

/// One route with this filter.
fn with_filter(filter: &str) -> Value {
    value(&format!("routes: [{{id: a, uri: 'echo:', predicates: [Path=/**], filters: [{filter}]}}]"))
}

/// One route with this predicate.
fn with_predicate(predicate: &str) -> Value {
    value(&format!("routes: [{{id: a, uri: 'echo:', predicates: [{predicate}]}}]"))
}

#[test]
fn every_file_in_config_is_valid() {
    let validator = validator();
    let mut count = 0;
    for entry in std::fs::read_dir(root().join("config")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let mut file = value(&std::fs::read_to_string(&path).unwrap());
        // Spring's form has the same sections under other roots.
        for step in ["spring", "cloud", "gateway", "server", "webflux"] {
            if let Some(inner) = file.get(step).filter(|_| path.ends_with("spring.yaml")) {
                file = inner.clone();
            }
        }
        let found = errors(&validator, &file);
        assert!(found.is_empty(), "{}: {found:#?}", path.display());
        assert!(file["routes"].is_array(), "{} has no routes", path.display());
        count += 1;
    }
    assert!(count >= 10, "only {count} files");
}

#[test]
fn versions_of_tls_are_valid_with_and_without_quotes() {
    for version in ["1.2", "1.3", "'1.3'"] {
        let found = errors(&validator(), &value(&format!("httpclient: {{tls: {{min-version: {version}}}}}")));
        assert_eq!(found, Vec::<String>::new(), "{version}");
    }
}

#[test]
fn complete_filters_are_valid() {
    let validator = validator();
    for filter in [
        "{name: RequestRateLimiter, args: {replenish-rate: 10, burst-capacity: 20, period: 1m, key-resolver: ip}}",
        "{name: RequestRateLimiter, args: {replenishRate: 10, burst_capacity: 20, keyResolver: '#{@userKeyResolver}'}}",
        "{name: RequestRateLimiter, args: {redis-rate-limiter.replenishRate: 10, redis-rate-limiter.burstCapacity: 20, \
         redis-rate-limiter.requestedTokens: 1, deny-empty-key: false, status-code: TOO_MANY_REQUESTS}}",
        "{name: RequestRateLimiter, args: {redis-rate-limiter: {replenishRate: 10, burstCapacity: 20}}}",
        "{name: RequestRateLimiter, args: {replenish-rate: 0.5, burst-capacity: 2}}",
        "{name: RequestRateLimiter, args: {algorithm: fixed-window, limit: 100, window: day, time-zone: Europe/Berlin, \
         key-resolver: [ip, route], mode: observe, on-limit: 'forward:/busy', gateways: auto, lease: 100ms}}",
        "{name: RequestRateLimiter, args: {algorithm: leaky-bucket, rate: 10, max-wait: 1s, max-queue: 5, warm-up: 1m}}",
        "{name: RequestRateLimiter, args: {algorithm: quota, allowance: 1000, reset: month, on-store-failure: deny}}",
        "{name: RequestRateLimiter, args: {cost: 'header:X-Cost', max-cost: 10, limits: [{name: second, \
         replenish-rate: 10}, {name: daily, algorithm: fixed-window, limit: 9, window: 1d, align: clock, mode: off}]}}",
        "{name: RequestRateLimiter, args: {plan-resolver: {redis-hash: plans, cache: 5s}, default-plan: free, plans: \
         {free: {replenish-rate: 1}, gold: {limits: [{limit: 5, window: 1s, algorithm: gcra}]}, staff: unlimited}}}",
        "{name: RequestRateLimiter, args: {replenish-rate: 1, plans: {a: unlimited}, plan-resolver: {table: {b: a}}}}",
        "{name: RequestRateLimiter, args: {atomicity: lock, lock: {retry: fixed, delay: 100ms, tries: 5}}}",
        "{name: RequestRateLimiter, args: {replenish-rate: '${RATE}', enforce-percent: 50, exempt: [10.0.0.0/8], \
         body: {content-type: text/plain, text: slow down}}}",
        "{name: ConcurrencyLimiter, args: {limit: 10, lease: 30s, key-resolver: ip, limit-header: X-Limit}}",
        "{name: RequestCounter, args: {key-resolver: ip, dimensions: [route, status], period: month, ttl: 400d}}",
        "{name: Retry, args: {retries: 3, statuses: [BAD_GATEWAY, 503], methods: GET, series: SERVER_ERROR, \
         backoff: {firstBackoff: 10ms, factor: 2, basedOnPreviousValue: false}, jitter: {randomFactor: 0.5}}}",
        "{name: Retry, args: {backoff.firstBackoff: 10ms}}",
        "Retry=3",
        "{name: CircuitBreaker, args: {name: orders, fallbackUri: 'forward:/down', statusCodes: [500, NOT_FOUND]}}",
        "SecureHeaders",
        "'AddRequestHeader=X-A, 1'",
        "{name: RequestSize, args: {maxSize: 5MB}}",
        "{name: RequestSize, args: {max-size: 5000000}}",
        "{name: PreserveHostHeader}",
    ] {
        let found = errors(&validator, &with_filter(filter));
        assert!(found.is_empty(), "{filter}: {found:#?}");
    }
}

#[test]
fn misspelled_arguments_and_wrong_types_are_invalid() {
    let validator = validator();
    for filter in [
        "{name: RequestRateLimiter, args: {replenish-rat: 10}}",
        "{name: RequestRateLimiter, args: {replenish-rate: many}}",
        "{name: RequestRateLimiter, args: {replenish-rate: -0.5}}",
        "{name: RequestRateLimiter, args: {redis-rate-limiter.replenishRat: 10}}",
        "{name: RequestRateLimiter, args: {redis-rate-limiter: {replenishRat: 10}}}",
        "{name: RequestRateLimiter, args: {algorithm: token-bukket}}",
        "{name: RequestRateLimiter, args: {window: fortnight}}",
        "{name: RequestRateLimiter, args: {mode: dry-run}}",
        "{name: RequestRateLimiter, args: {limits: {name: a}}}",
        "{name: RequestRateLimiter, args: {limits: [{name: a, replenish-rat: 1}]}}",
        "{name: RequestRateLimiter, args: {plans: {free: {replenish-rat: 1}}}}",
        "{name: RequestRateLimiter, args: {lock: {tris: 1}}}",
        "{name: RequestRateLimiter, args: {enforce-percent: 101}}",
        "{name: RequestRateLimiter, args: {status-code: [429]}}",
        "{name: RequestRateLimiter, argz: {}}",
        "RequestRateLimiter=1",
        "{name: ConcurrencyLimiter, args: {limit: ten}}",
        "{name: ConcurrencyLimiter, args: {store: disk}}",
        "{name: RequestCounter, args: {period: week}}",
        "{name: RequestCounter, args: {dimensions: [colour]}}",
        "{name: Retry, args: {retrys: 3}}",
        "{name: Retry, args: {retries: 0}}",
        "{name: Retry, args: {backoff: {firstBackof: 1s}}}",
        "{name: Retry, args: {jitter: {randomFactor: 2}}}",
        "{name: CircuitBreaker, args: {fallback: 'forward:/a'}}",
        "{name: RequestSize, args: {maxSiz: 5MB}}",
        "{name: PreserveHostHeader, args: {host: a}}",
        "StripPrefx=1",
        "{name: StripPrefx}",
    ] {
        assert!(!validator.is_valid(&with_filter(filter)), "{filter}");
    }
}

#[test]
fn predicates_are_validated_like_filters() {
    let validator = validator();
    for predicate in [
        "Path=/a",
        "'Method= GET,POST'",
        "{name: Path, args: {patterns: [/a, /b], matchTrailingSlash: true}}",
        "{name: Path, args: {pattern: /a}}",
        "{name: Header, args: {header: X-A, regexp: b}}",
        "{name: Weight, args: {weight.group: a, weight.weight: 1}}",
        "{any: [Path=/a, {not: Method=GET}]}",
        "{all: [{name: Query, args: {param: a}}]}",
    ] {
        let found = errors(&validator, &with_predicate(predicate));
        assert!(found.is_empty(), "{predicate}: {found:#?}");
    }
    for predicate in ["Pth=/a", "{name: Header, args: {heder: X-A}}", "{name: Header, arg: {}}", "{any: Path=/a}"] {
        assert!(!validator.is_valid(&with_predicate(predicate)), "{predicate}");
    }
}
