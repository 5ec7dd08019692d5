//! Buckets shared with Spring Cloud Gateway during a migration.

use redis::Connection;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Rule, TokenBucket};
use tollgate_limiter::store::{Check, OnStoreFailure, Store};

use crate::model::{Rng, answer, number};
use crate::script::{eval, keys};
use crate::support::{RedisServer, seconds, store};

const SECOND: u64 = 1_000_000;
const START: u64 = 1_763_700_000 * SECOND + 123_456;

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

/// Both gateways on one bucket, at times set by the test.
struct Shared<'c> {
    redis: &'c mut Connection,
    id: String,
    rate: u64,
    burst: u64,
    /// Times and costs of all admitted requests.
    admitted: Vec<(u64, u64)>,
}

impl Shared<'_> {
    fn ask(&mut self, spring_asks: bool, now: u64, cost: u64) {
        let [rate, burst, cost_text] = [self.rate, self.burst, cost].map(|number| number.to_string());
        let allowed = if spring_asks {
            spring(self.redis, &self.id, [&rate, &burst, &(now / SECOND).to_string(), &cost_text]).0
        } else {
            let (allowed, _, wait, _) = eval(self.redis, &self.id, [&rate, &burst, &seconds(now), &cost_text]).unwrap();
            if allowed == 0 && cost <= self.burst {
                self.check_wait(now, u64::try_from(wait).unwrap(), cost);
            }
            allowed
        };
        if allowed == 1 {
            self.admitted.push((now, cost));
        }
    }

    /// Asserts that the request is admitted after `wait`, and not a microsecond earlier.
    fn check_wait(&mut self, now: u64, wait: u64, cost: u64) {
        let [tokens, timestamp] = keys(&self.id);
        let state: [Vec<u8>; 2] = redis::cmd("MGET").arg(&tokens).arg(&timestamp).query(self.redis).unwrap();
        let [rate, burst, cost] = [self.rate, self.burst, cost].map(|number| number.to_string());
        for (at, admits) in [(now + wait - 1, 0), (now + wait, 1)] {
            let said = eval(self.redis, &self.id, [&rate, &burst, &seconds(at), &cost]).unwrap();
            assert_eq!(said.0, admits, "{wait} µs after {now}: {said:?}");
            for (key, value) in [&tokens, &timestamp].into_iter().zip(&state) {
                redis::cmd("SET").arg(key).arg(value).arg("KEEPTTL").exec(self.redis).unwrap();
            }
        }
    }

    /// Asserts the bound in every interval: burst, rate, and the refill of one second. Spring's numbers are doubles.
    fn check_bound(&self) {
        for (first, &(from, _)) in self.admitted.iter().enumerate() {
            let mut sum = 0;
            for &(until, cost) in &self.admitted[first..] {
                sum += cost;
                let bound = (self.burst + self.rate) as f64 + self.rate as f64 * (until - from) as f64 / 1e6;
                assert!(sum as f64 <= bound + 1e-3, "{sum} in {} µs, at most {bound}", until - from);
            }
        }
    }
}

#[test]
fn both_gateways_in_turns_admit_one_bucket_and_the_refill_of_a_second() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let mut shared = Shared { redis, id: "a".to_owned(), rate: 10, burst: 20, admitted: Vec::new() };
    for turn in 0..=300 {
        shared.ask(turn % 2 == 0, START + turn * SECOND / 30, 1);
    }
    let admitted = shared.admitted.len();
    assert!((110..=130).contains(&admitted), "{admitted} of 301 in 10 s, of 20 + 10 per second");
}

#[test]
fn random_turns_of_both_gateways_keep_the_bound() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let traces = number("TOLLGATE_TRACES").unwrap_or(10_000) / 50;
    for seed in number("TOLLGATE_SEED").map_or(0..traces, |seed| seed..seed + 1) {
        let mut rng = Rng::new(seed);
        let rate = rng.pick(&[1, 2, 3, 10, 50]);
        let burst = rate * rng.pick(&[1, 2, 5]) + rng.pick(&[0, 1, 3]);
        let mut shared = Shared { redis: &mut *redis, id: seed.to_string(), rate, burst, admitted: Vec::new() };
        let (mut now, mut springs) = (START + rng.below(SECOND), 5);
        for _ in 0..100 {
            now += match rng.below(8) {
                0 | 1 => 0,
                2 => rng.below(3_000),
                3 => rng.below(SECOND / 5),
                4 => rng.below(SECOND),
                5 => SECOND - now % SECOND,
                6 => rng.below(3 * SECOND),
                // A pause as long as the keys would live.
                _ if rng.chance(1, 5) => rng.below(2 * burst / rate + 3) * SECOND,
                _ => 0,
            };
            if rng.chance(1, 30) {
                springs = rng.pick(&[0, 1, 5, 9, 10]);
            }
            let (spring_asks, cost) = (rng.chance(springs, 10), rng.pick(&[1, 1, 1, 2]));
            shared.ask(spring_asks, now, cost);
        }
        shared.check_bound();
    }
}

#[test]
fn microseconds_return_when_spring_has_not_written_for_the_time_of_an_expiry() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let ask = |redis: &mut Connection, now: &str, cost: &str| eval(redis, "a", ["1", "2", now, cost]).unwrap();
    assert_eq!(spring(redis, "a", ["1", "2", "1763700000", "2"]), (1, 0));
    assert_eq!(ask(redis, "1763700001.7", "1"), (1, 0, 0, 1_300_000), "whole seconds");
    assert_eq!(ask(redis, "1763700001.9", "1"), (0, 0, 100_000, 1_100_000));
    assert_eq!(ask(redis, "1763700003.9", "2"), (1, 0, 0, 2_100_000));
    // From the fourth second on, without the refill of one second.
    assert_eq!(ask(redis, "1763700004.5", "1"), (0, 0, 500_000, 1_500_000));
    assert_eq!(ask(redis, "1763700005.1", "1"), (1, 0, 0, 1_900_000));
    assert_eq!(ask(redis, "1763700005.2", "1"), (0, 0, 800_000, 1_800_000), "microseconds");
}

#[test]
fn spring_sees_no_more_of_a_bucket_in_other_units_or_with_a_negative_balance() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let [tokens, timestamp] = keys("a");
    let call = |redis: &mut Connection, args: &[&str]| {
        let script =
            redis::cmd("EVAL").arg(crate::script::TEXT).arg(2).arg(&tokens).arg(&timestamp).arg(args).to_owned();
        script.query::<(i64, i64, i64, i64, i64)>(redis).unwrap()
    };
    let read = |redis: &mut Connection| redis::cmd("GET").arg(&tokens).query::<f64>(redis).unwrap();
    // 300 per minute, a burst of 20: five per second.
    for (at, left) in [("1763700000", 0), ("1763700000.11", 0)] {
        let cost = if left == 0 && at == "1763700000" { "20" } else { "0" };
        assert_eq!(call(redis, &["300", "20", at, cost, "60000000", "1"]).1, left);
    }
    assert_eq!(call(redis, &["300", "20", "1763700000.25", "1", "60000000", "1"]).1, 0);
    let seen = read(redis);
    assert!((0.249..=0.25).contains(&seen), "{seen} of 0.25");
    // A burst of 5 after 20 were spent.
    assert_eq!(call(redis, &["5", "5", "1763700000.5", "-1"]).1, 0);
    let seen = read(redis);
    assert!((-13.0 - 0.01..=-12.49).contains(&seen), "{seen} of -12.5");
    assert_eq!(spring(redis, "a", ["5", "5", "1763700001", "1"]).0, 0);
}

#[tokio::test]
async fn keys_of_every_printable_text_are_shared_with_spring() {
    let server = RedisServer::start();
    let store = store(&server.connected_client().await, OnStoreFailure::Deny);
    let redis = &mut server.connection();
    // So slow that nothing is refilled while the test runs.
    let rule = Rule::TokenBucket(TokenBucket::per_second(1, 100_000).unwrap());
    let token = format!("Bearer {}", "eyJhbGciOiJSUzI1NiJ9.".repeat(50));
    for (route, id) in
        [("orders", "dGVzdA=="), ("my route", "a+b|c d/e"), ("a=b", "50%7B#"), ("orders", "José"), ("orders", &token)]
    {
        let [tokens, timestamp] =
            ["tokens", "timestamp"].map(|word| format!("request_rate_limiter.{{{route}.{id}}}.{word}"));
        let check = Check { key: BucketKey { scope: route, id: id.as_bytes() }, rule: &rule, cost: 60_000 };
        assert!(answer(store.decide(&[check], &[])).await.is_allowed());
        let mut call = redis::cmd("EVAL");
        call.arg(SPRING).arg(2).arg(&tokens).arg(&timestamp).arg(&["1", "100000", "", "30000"]);
        let (allowed, left): (i64, i64) = call.query(redis).unwrap();
        assert!(allowed == 1 && left < 11_000, "{route} {id}: {left}");
        assert!(!answer(store.decide(&[check], &[])).await.is_allowed(), "{route} {id}");
    }
    assert_eq!(redis::cmd("DBSIZE").query::<u64>(redis).unwrap(), 10);
}
