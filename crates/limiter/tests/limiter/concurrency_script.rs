//! `lua/concurrency.lua` at times set by the test, compared with its model.

use std::process::Command;

use proptest::prelude::*;
use redis::{Connection, RedisResult};
use tollgate_limiter::concurrency::{Owner, Reply, SlotTable, Slots, Step};
use tollgate_limiter::key::BucketKey;

use crate::support::RedisServer;
use crate::support::seconds;

const TEXT: &str = include_str!("../../lua/concurrency.lua");
const KEY: &str = "concurrency_limiter.{r.k}.leases";
const START_US: u64 = 1_763_700_000_000_000;

type Numbers = (i64, i64, i64, i64);

fn eval(redis: &mut Connection, args: [&str; 5]) -> RedisResult<Numbers> {
    redis::cmd("EVAL").arg(TEXT).arg(1).arg(KEY).arg(&args).query(redis)
}

fn owners(redis: &mut Connection) -> Vec<(String, f64)> {
    redis::cmd("ZRANGE").arg(KEY).arg(0).arg(-1).arg("WITHSCORES").query(redis).unwrap()
}

#[test]
fn an_owner_is_stored_with_the_end_of_its_lease_in_microseconds() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let reply = eval(redis, ["acquire", "a", "2", "1500000", "1763700000.000001"]).unwrap();
    assert_eq!(reply, (1, 1, 1_500_000, 1_763_700_000_000_001));
    assert_eq!(owners(redis), [("a".to_owned(), 1_763_700_001_500_001.0)]);
    let reply = eval(redis, ["acquire", "b", "2", "1500000", "1763700001.5"]).unwrap();
    assert_eq!(reply, (1, 2, 1, 1_763_700_001_500_000));
    assert_eq!(eval(redis, ["acquire", "c", "2", "1500000", "1763700001.5"]).unwrap().0, 0);
    let reply = eval(redis, ["acquire", "c", "2", "1500000", "1763700001.500001"]).unwrap();
    assert_eq!((reply.0, reply.1), (1, 2), "a slot does not hold at its end");
    assert_eq!(owners(redis).len(), 2, "the ended slot is removed");
}

#[test]
fn uses_the_time_of_the_server_by_default() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let (before, _): (i64, i64) = redis::cmd("TIME").query(redis).unwrap();
    let (step, _, ends_in_us, now_us) = eval(redis, ["acquire", "a", "1", "30000000", ""]).unwrap();
    assert_eq!((step, ends_in_us), (1, 30_000_000));
    assert!((before..before + 60).contains(&(now_us / 1_000_000)), "{now_us} is about {before}");
}

#[test]
fn only_the_owner_releases_its_slot() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    eval(redis, ["acquire", "a", "1", "1000000", "1763700000"]).unwrap();
    assert_eq!(eval(redis, ["release", "b", "1", "1000000", "1763700000"]).unwrap().0, 0);
    assert_eq!(owners(redis).len(), 1);
    assert_eq!(eval(redis, ["release", "a", "1", "1000000", "1763700000"]).unwrap(), (1, 0, 0, START_US as i64));
    assert!(!redis::cmd("EXISTS").arg(KEY).query::<bool>(redis).unwrap(), "the last release deletes the key");
}

#[test]
fn a_refusal_writes_nothing() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    eval(redis, ["acquire", "old", "1", "1000000", "1763700000"]).unwrap();
    eval(redis, ["acquire", "a", "2", "5000000", "1763700000"]).unwrap();
    redis::cmd("CONFIG").arg("RESETSTAT").exec(redis).unwrap();
    // One slot has ended, but the other uses up a limit of 1.
    assert_eq!(eval(redis, ["acquire", "b", "1", "1000000", "1763700002"]).unwrap().0, 0);
    assert_eq!(eval(redis, ["renew", "old", "1", "1000000", "1763700002"]).unwrap().0, 0);
    let stats: String = redis::cmd("INFO").arg("commandstats").query(redis).unwrap();
    for write in ["zadd", "zrem", "zremrangebyscore", "pexpire"] {
        assert!(!stats.contains(&format!("cmdstat_{write}:")), "{stats}");
    }
}

#[test]
fn the_key_expires_after_the_last_lease_of_any_owner() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    for (owner, ttl_us, millis) in [("a", "1500000", 2_500), ("b", "60000000", 61_000), ("c", "100000", 61_000)] {
        eval(redis, ["acquire", owner, "9", ttl_us, "1763700000"]).unwrap();
        let left: i64 = redis::cmd("PTTL").arg(KEY).query(redis).unwrap();
        assert!(left > millis - 900 && left <= millis + 1, "{owner}: {left} ms, not {millis}");
    }
}

#[test]
fn invalid_arguments_fail_without_a_write() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let long = "x".repeat(129);
    for args in [
        ["take", "a", "1", "1000000", ""],
        ["", "a", "1", "1000000", ""],
        ["acquire", "", "1", "1000000", ""],
        ["acquire", &long, "1", "1000000", ""],
        ["acquire", "a", "0", "1000000", ""],
        ["acquire", "a", "-1", "1000000", ""],
        ["acquire", "a", "1.5", "1000000", ""],
        ["acquire", "a", "1e3", "1000000", ""],
        ["acquire", "a", "nan", "1000000", ""],
        ["acquire", "a", "9007199254740992", "1000000", ""],
        ["acquire", "a", "1", "0", ""],
        ["acquire", "a", "1", "x", ""],
        ["acquire", "a", "1", "31536000000001", ""],
        ["acquire", "a", "1", "1000000", "yesterday"],
        ["acquire", "a", "1", "1000000", "-5"],
        ["acquire", "a", "1", "1000000", "nan"],
        ["acquire", "a", "1", "1000000", "8000000000"],
    ] {
        let error = eval(redis, args).unwrap_err();
        assert!(error.to_string().contains("must be"), "{args:?}: {error}");
    }
    for (keys, args) in [(0, &["a"][..]), (2, &["k", "l", "acquire", "a", "1", "1", ""])] {
        let reply: RedisResult<redis::Value> = redis::cmd("EVAL").arg(TEXT).arg(keys).arg(args).query(redis);
        assert!(reply.unwrap_err().to_string().contains("expected 1 key"));
    }
    for missing in 0..5 {
        let args = &["acquire", "a", "1", "1000000", ""][..missing];
        let reply: RedisResult<redis::Value> = redis::cmd("EVAL").arg(TEXT).arg(1).arg(KEY).arg(args).query(redis);
        assert!(reply.unwrap_err().to_string().contains("must be"), "{args:?}");
    }
    assert_eq!(redis::cmd("DBSIZE").query::<u64>(redis).unwrap(), 0);
    redis::cmd("SET").arg(KEY).arg("mine").exec(redis).unwrap();
    assert!(eval(redis, ["acquire", "a", "1", "1000000", ""]).unwrap_err().to_string().contains("WRONGTYPE"));
    assert_eq!(redis::cmd("GET").arg(KEY).query::<String>(redis).unwrap(), "mine");
}

#[test]
fn the_command_in_the_header_runs() {
    let server = RedisServer::start();
    let line = TEXT.lines().find(|line| line.starts_with("redis-cli --eval")).unwrap();
    let line = line.replacen("redis-cli", &format!("redis-cli -p {}", server.port), 1);
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let run = || {
        let output = Command::new("sh").arg("-c").arg(&line).current_dir(root).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().take(3).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(run(), ["1", "1", "30000000"]);
    assert_eq!(run(), ["1", "1", "30000000"], "an owner that acquires again keeps its slot");
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Acquire,
    Renew,
    Release,
}

/// Operation of one of a few owners on one of two keys, after a move of the clock in either direction.
#[derive(Clone, Debug)]
struct SlotStep {
    operation: Operation,
    owner: u64,
    key: usize,
    limit: u64,
    ttl_us: u64,
    moves_us: i64,
}

fn slot_steps() -> impl Strategy<Value = SlotStep> {
    let operation = prop::sample::select(vec![
        Operation::Acquire,
        Operation::Acquire,
        Operation::Acquire,
        Operation::Renew,
        Operation::Renew,
        Operation::Release,
    ]);
    let ttl_us = prop_oneof![Just(30_000_000u64), 10_000_000u64..90_000_000];
    // Values around the slot detect off-by-one errors.
    let moves_us = prop_oneof![
        4 => Just(0i64),
        4 => 0i64..15_000_000,
        3 => prop::sample::select(vec![1i64, 29_999_999, 30_000_000, 30_000_001]),
        1 => 0i64..200_000_000,
        1 => -100_000_000i64..0,
    ];
    (operation, 1u64..7, 0usize..2, prop_oneof![4 => Just(2u64), 1 => 1u64..5], ttl_us, moves_us).prop_map(
        |(operation, owner, key, limit, ttl_us, moves_us)| SlotStep { operation, owner, key, limit, ttl_us, moves_us },
    )
}

fn numbers(reply: Reply, now_us: u64) -> Numbers {
    let step = match reply.step {
        Step::Refused => 0,
        Step::Done => 1,
        Step::Retaken => 2,
    };
    (step, reply.held as i64, reply.ends_in_us as i64, now_us as i64)
}

#[test]
fn model_memory_and_redis_agree_on_every_trace() {
    let server = RedisServer::start();
    let redis = std::cell::RefCell::new(server.connection());
    let sha: String = redis::cmd("SCRIPT").arg("LOAD").arg(TEXT).query(&mut redis.borrow_mut()).unwrap();
    let cases = std::env::var("TOLLGATE_TRACES").map_or(2_000, |cases| cases.parse().unwrap());
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&prop::collection::vec(slot_steps(), 1..40), |trace| {
            let (mut model, memory) = ([Slots::default(), Slots::default()], SlotTable::default());
            let (mut now_us, mut expected) = (START_US, Vec::new());
            let mut pipeline = redis::pipe();
            pipeline.cmd("FLUSHALL").ignore();
            for SlotStep { operation, owner, key, limit, ttl_us, moves_us } in trace {
                now_us = now_us.saturating_add_signed(moves_us);
                let id = Owner::new(7, owner);
                let (slots, place) = (&mut model[key], BucketKey { scope: "r", id: &[key as u8] });
                let (name, by_model, by_memory) = match operation {
                    Operation::Acquire => (
                        "acquire",
                        slots.acquire(id, limit, ttl_us, now_us),
                        memory.change(place, |slots| slots.acquire(id, limit, ttl_us, now_us)),
                    ),
                    Operation::Renew => (
                        "renew",
                        slots.renew(id, limit, ttl_us, now_us),
                        memory.change(place, |slots| slots.renew(id, limit, ttl_us, now_us)),
                    ),
                    Operation::Release => {
                        ("release", slots.release(id, now_us), memory.change(place, |slots| slots.release(id, now_us)))
                    }
                };
                prop_assert_eq!(by_model, by_memory);
                expected.push(numbers(by_model, now_us));
                pipeline.cmd("EVALSHA").arg(&sha).arg(1).arg(format!("k{key}"));
                pipeline.arg(name).arg(id.to_string()).arg(limit).arg(ttl_us).arg(seconds(now_us));
            }
            let replies: Vec<Numbers> = pipeline.query(&mut redis.borrow_mut()).unwrap();
            prop_assert_eq!(replies, expected);
            Ok(())
        })
        .unwrap();
}
