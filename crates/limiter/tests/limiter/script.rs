//! `lua/token_bucket.lua` at times set by the test.

use std::time::Duration;

use proptest::prelude::*;
use redis::{Connection, RedisError, RedisResult};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Rule, TokenBucket};
use tollgate_limiter::store::memory::Clock;
use tollgate_limiter::store::{Check, Decision, Store};
use tollgate_limiter::verdict::Outcome;

use crate::support::{RedisServer, memory, run_line, seconds};

pub(crate) const TEXT: &str = include_str!("../../lua/token_bucket.lua");
const START_US: u64 = 1_763_700_000_000_000;

/// `{allowed, remaining, retry after us, reset after us}`; without the time of the decision.
type Reply = (i64, i64, i64, i64);

pub(crate) fn keys(id: &str) -> [String; 2] {
    ["tokens", "timestamp"].map(|suffix| format!("request_rate_limiter.{{r.{id}}}.{suffix}"))
}

pub(crate) fn eval(connection: &mut Connection, id: &str, args: [&str; 4]) -> RedisResult<Reply> {
    let [tokens, timestamp] = keys(id);
    let reply: RedisResult<(i64, i64, i64, i64, i64)> =
        redis::cmd("EVAL").arg(TEXT).arg(2).arg(tokens).arg(timestamp).arg(&args).query(connection);
    reply.map(|(allowed, left, retry_us, reset_us, _)| (allowed, left, retry_us, reset_us))
}

fn get(connection: &mut Connection, id: &str) -> [Option<String>; 2] {
    keys(id).map(|key| redis::cmd("GET").arg(key).query(connection).unwrap())
}

fn set(connection: &mut Connection, id: &str, tokens: &str, timestamp: &str) {
    for (key, value) in keys(id).iter().zip([tokens, timestamp]) {
        redis::cmd("SET").arg(key).arg(value).exec(connection).unwrap();
    }
}

#[test]
fn stores_tokens_and_seconds_with_six_decimals() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    assert_eq!(eval(redis, "a", ["3", "10", "1763700000", "4"]).unwrap(), (1, 6, 0, 1_333_334));
    assert_eq!(get(redis, "a"), [Some("6.000000".into()), Some("1763700000.0000000210013".into())]);
    assert_eq!(eval(redis, "a", ["3", "10", "1763700000.25", "6"]).unwrap(), (1, 0, 0, 3_083_334));
    assert_eq!(get(redis, "a"), [Some("0.750000".into()), Some("1763700000.2500000210013".into())]);
    assert_eq!(eval(redis, "a", ["3", "10", "1763700000.25", "1"]).unwrap(), (0, 0, 83_334, 3_083_334));
}

#[test]
fn uses_the_time_of_the_server_by_default() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let (before, _): (u64, u64) = redis::cmd("TIME").query(redis).unwrap();
    assert_eq!(eval(redis, "a", ["1", "2", "", "1"]).unwrap(), (1, 1, 0, 1_000_000));
    let at: f64 = get(redis, "a")[1].as_ref().unwrap().parse().unwrap();
    assert!(at >= before as f64 && at < before as f64 + 60.0, "{at} is about {before}");
}

#[test]
fn a_denial_writes_nothing() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    eval(redis, "a", ["1", "2", "1763700000", "2"]).unwrap();
    let before = get(redis, "a");
    assert_eq!(eval(redis, "a", ["1", "2", "1763700000.5", "1"]).unwrap(), (0, 0, 500_000, 1_500_000));
    assert_eq!(get(redis, "a"), before);
    assert_eq!(eval(redis, "b", ["1", "2", "1763700000", "3"]).unwrap(), (0, 2, -1, 0));
    assert_eq!(get(redis, "b"), [None, None]);
}

#[test]
fn both_keys_expire_no_earlier_than_the_bucket_is_full() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let rules = [
        (1, 60, 120),
        (10, 20, 4),
        (3, 1, 1),
        (1000, 1, 1),
        (10_000, 9_999, 2),
        (10, 10, 2),
        (2, 3, 3),
        (1, 4_294_967_295_i64, 8_589_934_590),
    ];
    for (rate, burst, ttl) in rules {
        let id = format!("{rate}-{burst}");
        eval(redis, &id, [&rate.to_string(), &burst.to_string(), "1763700000", "1"]).unwrap();
        for key in keys(&id) {
            let left: i64 = redis::cmd("PTTL").arg(key).query(redis).unwrap();
            assert!(left <= ttl * 1_000 && left > ttl * 1_000 - 900, "{rate}/s, burst {burst}: {left} ms, not {ttl} s");
        }
    }
}

#[test]
fn invalid_arguments_fail_without_a_write() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let bad = [
        ["0", "2", "", "1"],
        ["-1", "2", "", "1"],
        ["1.5", "2", "", "1"],
        ["x", "2", "", "1"],
        ["nan", "2", "", "1"],
        ["1", "-1", "", "1"],
        ["1", "9007199255", "", "1"],
        ["4294967296", "2", "", "1"],
        ["1", "inf", "", "1"],
        ["1", "2", "yesterday", "1"],
        ["1", "2", "-5", "1"],
        ["1", "2", "", "1.5"],
        ["1", "2", "", "9007199254740992"],
        ["1", "2", "", ""],
    ];
    for args in bad {
        let error: RedisError = eval(redis, "a", args).unwrap_err();
        assert!(error.to_string().contains("must be"), "{args:?}: {error}");
    }
    let too_few: RedisResult<redis::Value> =
        redis::cmd("EVAL").arg(TEXT).arg(1).arg("k").arg(&["1", "2", "", "1"]).query(redis);
    assert!(too_few.unwrap_err().to_string().contains("expected 2 keys"));
    let missing: RedisResult<redis::Value> =
        redis::cmd("EVAL").arg(TEXT).arg(2).arg("k").arg("l").arg("1").query(redis);
    assert!(missing.unwrap_err().to_string().contains("burst must be"));
    assert_eq!(redis::cmd("DBSIZE").query::<u64>(redis).unwrap(), 0);
}

#[test]
fn a_value_that_is_not_a_number_counts_as_missing() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    for (tokens, timestamp, left) in [
        ("soup", "1763700000", 9),
        ("nan", "1763700000", 9),
        ("inf", "1763700000", 9),
        ("5", "soup", 4),
        ("5", "-inf", 4),
        ("-5", "1763700000", -1),
        ("1e300", "1763700000", 9),
        ("99", "1763700000", 9),
        ("7.0000000000000009", "1763700000", 6),
    ] {
        set(redis, "a", tokens, timestamp);
        let (allowed, remaining, ..) = eval(redis, "a", ["1", "10", "1763700000", "1"]).unwrap();
        assert_eq!((allowed, remaining), if left < 0 { (0, 0) } else { (1, left) }, "{tokens} at {timestamp}");
    }
}

#[test]
fn a_value_of_another_type_is_replaced() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    redis::cmd("LPUSH").arg(&keys("a")[0]).arg("x").exec(redis).unwrap();
    assert_eq!(eval(redis, "a", ["1", "2", "1763700000", "1"]).unwrap(), (1, 1, 0, 1_000_000));
    assert_eq!(eval(redis, "a", ["1", "2", "1763700000", "1"]).unwrap(), (1, 0, 0, 2_000_000));
}

#[test]
fn a_clock_set_back_adds_no_tokens_and_starves_no_key() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    eval(redis, "a", ["1", "2", "1763709999", "2"]).unwrap();
    assert_eq!(eval(redis, "a", ["1", "2", "1763700000", "1"]).unwrap(), (0, 0, 1_000_000, 2_000_000));
    assert_eq!(eval(redis, "a", ["1", "2", "1763700001", "1"]).unwrap(), (1, 0, 0, 2_000_000));
}

#[test]
fn the_command_in_the_header_runs() {
    let server = RedisServer::start();
    assert_eq!(run_line(&server, TEXT)[..4], ["1", "19", "0", "100000"]);
}

#[derive(Clone, Debug)]
struct Step {
    gap_us: u64,
    key: u8,
    cost: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![Just(0), 1u64..1_000, 1u64..2_000_000, 1u64..100_000_000];
    let step = (gap, 0u8..3, 1u64..5).prop_map(|(gap_us, key, cost)| Step { gap_us, key, cost });
    prop::collection::vec(step, 1..40)
}

fn rates() -> impl Strategy<Value = u64> {
    prop_oneof![1u64..10, 1u64..10_000, Just(u64::from(u32::MAX)), Just(999_983)]
}

fn bursts() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..12, 1u64..100_000, Just(u64::from(u32::MAX))]
}

#[test]
fn memory_and_redis_agree_on_every_trace() {
    let server = RedisServer::start();
    let redis = std::cell::RefCell::new(server.connection());
    let config = ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&(rates(), bursts(), steps()), |(rate, burst, steps)| {
            let redis = &mut *redis.borrow_mut();
            redis::cmd("FLUSHALL").exec(redis).unwrap();
            let (memory, clock) = memory();
            clock.set(START_US);
            let mut expires_at_us = [u64::MAX; 3];
            for step in steps {
                clock.advance(Duration::from_micros(step.gap_us));
                let now_us = clock.now_us();
                let rule = Rule::TokenBucket(TokenBucket::per_second(rate, burst).unwrap());
                let id = step.key.to_string();
                let [tokens, timestamp] = keys(&id);
                // The server's clock hardly advances during a trace, so the test deletes expired keys.
                if now_us >= expires_at_us[usize::from(step.key)] {
                    redis::cmd("DEL").arg(&tokens).arg(&timestamp).exec(redis).unwrap();
                }
                let args = [rate.to_string(), burst.to_string(), seconds(now_us), step.cost.to_string()];
                let (reply, ttl): ((i64, i64, i64, i64, i64), i64) = redis::pipe()
                    .cmd("EVAL")
                    .arg(TEXT)
                    .arg(2)
                    .arg(&tokens)
                    .arg(&timestamp)
                    .arg(&args)
                    .cmd("TTL")
                    .arg(&tokens)
                    .cmd("PERSIST")
                    .arg(&tokens)
                    .ignore()
                    .cmd("PERSIST")
                    .arg(&timestamp)
                    .ignore()
                    .query(redis)
                    .unwrap();
                if ttl >= 0 {
                    expires_at_us[usize::from(step.key)] = now_us + ttl as u64 * 1_000_000;
                }
                let key = BucketKey { scope: "r", id: id.as_bytes() };
                let Decision::Ready(verdict) = memory.decide(&[Check { key, rule: &rule, cost: step.cost }], &[])
                else {
                    panic!("the memory store decides immediately");
                };
                let (allowed, retry_after) = match verdict.outcome {
                    Outcome::Allowed => (1, 0),
                    Outcome::Denied { retry_after } => (0, retry_after.as_micros() as i64),
                    Outcome::NeverAdmitted => (0, -1),
                    other => panic!("memory never says {other:?}"),
                };
                let remaining = verdict.remaining.unwrap() as i64;
                let reset_after = verdict.reset_after.as_micros() as i64;
                prop_assert_eq!(reply, (allowed, remaining, retry_after, reset_after, now_us as i64));
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn admits_again_after_exactly_the_promised_wait() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    for (rate, burst, cost) in [(1, 1, 1), (3, 5, 2), (7, 10, 10), (999_983, 4, 1), (1_000_003, 2, 2)] {
        let id = format!("{rate}");
        let ask = |redis: &mut Connection, now_us: u64| {
            eval(redis, &id, [&rate.to_string(), &burst.to_string(), &seconds(now_us), &cost.to_string()]).unwrap()
        };
        let wait_us = loop {
            let (allowed, _, wait_us, _) = ask(redis, START_US);
            if allowed == 0 {
                break wait_us as u64;
            }
        };
        assert_eq!(ask(redis, START_US + wait_us - 1).0, 0, "{rate}/s: a microsecond early");
        assert_eq!(ask(redis, START_US + wait_us).0, 1, "{rate}/s: in time");
    }
}
