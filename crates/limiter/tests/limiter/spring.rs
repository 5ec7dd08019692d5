//! Buckets shared with Spring Cloud Gateway during a migration.

use redis::Connection;

use crate::script::{eval, keys};
use crate::support::RedisServer;

/// Reimplementation of Spring's script: whole seconds, both keys are written even on a denial.
const SPRING: &str = "
local rate, capacity, requested = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local now = tonumber(ARGV[3]) or tonumber(redis.call('TIME')[1])
local before = tonumber(redis.call('GET', KEYS[1])) or capacity
local at = tonumber(redis.call('GET', KEYS[2])) or 0
local level = math.min(capacity, before + math.max(0, now - at) * rate)
local allowed = level >= requested
if allowed then level = level - requested end
local ttl = math.floor(2 * capacity / rate)
if ttl > 0 then
  redis.call('SETEX', KEYS[1], ttl, level)
  redis.call('SETEX', KEYS[2], ttl, now)
end
return {allowed and 1 or 0, level}
";

fn spring(redis: &mut Connection, id: &str, args: [&str; 4]) -> (i64, i64) {
    let [tokens, timestamp] = keys(id);
    redis::cmd("EVAL").arg(SPRING).arg(2).arg(tokens).arg(timestamp).arg(&args).query(redis).unwrap()
}

#[test]
fn spring_sees_tokens_consumed_by_tollgate() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    assert_eq!(eval(redis, "a", ["3", "10", "1763700000.4", "7"]).unwrap().1, 3);
    assert_eq!(
        spring(redis, "a", ["3", "10", "1763700000", "1"]),
        (1, 2),
        "the second of Spring began before the request"
    );
    assert_eq!(spring(redis, "b", ["3", "10", "1763700000", "1"]), (1, 9), "another bucket is full");
}

#[test]
fn tollgate_sees_tokens_consumed_by_spring() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    assert_eq!(spring(redis, "a", ["1", "10", "1763700000", "8"]), (1, 2));
    assert_eq!(eval(redis, "a", ["1", "10", "1763700000", "1"]).unwrap(), (1, 1, 0, 9_000_000));
    assert_eq!(spring(redis, "a", ["1", "10", "1763700001", "2"]), (1, 0));
    assert_eq!(eval(redis, "a", ["1", "10", "1763700001.5", "1"]).unwrap(), (0, 0, 500_000, 9_500_000));
}

#[test]
fn fractions_written_by_spring_are_parsed() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    eval(redis, "a", ["1", "10", "1763700000", "10"]).unwrap();
    assert_eq!(eval(redis, "a", ["1", "10", "1763700002.1", "1"]).unwrap().1, 1);
    // Spring adds 0.9 tokens to 1.1, consumes one, and writes all digits of a double.
    assert_eq!(spring(redis, "a", ["1", "10", "1763700003", "1"]), (1, 1));
    let tokens: String = redis::cmd("GET").arg(&keys("a")[0]).query(redis).unwrap();
    assert!(tokens.len() > 8 || tokens == "1", "{tokens} is a printed double");
    assert_eq!(eval(redis, "a", ["1", "10", "1763700003", "1"]).unwrap(), (1, 0, 0, 10_000_000));
}

#[test]
fn alternating_gateways_admit_no_more_than_one_bucket() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let mut admitted = 0;
    for second in 0..10 {
        for _ in 0..4 {
            let now = (1_763_700_000 + second).to_string();
            admitted += eval(redis, "a", ["2", "5", &now, "1"]).unwrap().0;
            admitted += spring(redis, "a", ["2", "5", &now, "1"]).0;
        }
    }
    assert_eq!(admitted, 5 + 2 * 9);
}
