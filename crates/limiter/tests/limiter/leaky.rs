//! `lua/leaky_bucket.lua` compared with memory, and its calls by the store.

use std::cell::RefCell;
use std::process::Command;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use redis::{Connection, RedisError, RedisResult};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{LeakyBucket, Rule, TokenBucket};
use tollgate_limiter::store::memory::{Clock, MemoryStore};
use tollgate_limiter::store::{Check, Decision, MAX_CHECKS, OnStoreFailure, Store};
use tollgate_limiter::verdict::{Outcome, Source, Verdict};

use crate::support::seconds;
use crate::support::{RedisServer, ask, eventually, memory, store};

const TEXT: &str = include_str!("../../lua/leaky_bucket.lua");
const KEY: &str = "leaky.{r.k}";
const START_US: u64 = 1_763_700_000_000_000;

/// `{allowed, free places, wait us, reset us, turn us}`.
type Reply = (i64, u64, i64, u64, u64);

/// Settings of a rule: interval, longest wait and warm-up in µs, and the queue.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    interval_us: u64,
    max_wait_us: u64,
    max_queue: u64,
    warm_up_us: u64,
}

const TEN_A_SECOND: Numbers = Numbers { interval_us: 100_000, max_wait_us: 1_000_000, max_queue: 5, warm_up_us: 0 };

impl Numbers {
    fn rule(self) -> LeakyBucket {
        let us = Duration::from_micros;
        let rule = LeakyBucket::new(1, us(self.interval_us))
            .unwrap()
            .with_max_wait(us(self.max_wait_us))
            .unwrap()
            .with_max_queue(self.max_queue)
            .unwrap();
        rule.with_warm_up(us(self.warm_up_us)).unwrap()
    }

    fn args(self, now: &str, cost: &str) -> Vec<String> {
        let Self { interval_us, max_wait_us, max_queue, warm_up_us } = self;
        let (before, behind) = ([interval_us, max_wait_us], [max_queue, warm_up_us]);
        let text = |numbers: [u64; 2]| numbers.map(|number| number.to_string());
        [&text(before)[..], &[now.to_owned(), cost.to_owned()], &text(behind)[..]].concat()
    }
}

fn eval(redis: &mut Connection, args: &[String]) -> RedisResult<Reply> {
    redis::cmd("EVAL").arg(TEXT).arg(1).arg(KEY).arg(args).query(redis)
}

fn stored(redis: &mut Connection) -> Option<String> {
    redis::cmd("GET").arg(KEY).query(redis).unwrap()
}

/// Returns the decision of the memory store in the format of the script.
fn in_memory(memory: &MemoryStore, rule: &Rule, cost: u64) -> Reply {
    let check = Check { key: BucketKey { scope: "r", id: b"k" }, rule, cost };
    let Decision::Ready(verdict) = memory.decide(&[check], &[]) else { panic!("the memory store decides immediately") };
    let (allowed, wait_us) = match verdict.outcome {
        Outcome::Allowed => (1, verdict.delay.as_micros() as i64),
        Outcome::Denied { retry_after } => (0, retry_after.as_micros() as i64),
        Outcome::NeverAdmitted => (0, -1),
        other => panic!("memory never says {other:?}"),
    };
    (allowed, verdict.remaining.unwrap(), wait_us, verdict.reset_after.as_micros() as u64, verdict.counted_at_us)
}

#[test]
fn stores_the_next_turn_and_the_gaps() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let ask = TEN_A_SECOND.args("1763700000", "1");
    let waits: Vec<_> = (0..4).map(|_| eval(redis, &ask).unwrap().2).collect();
    assert_eq!(waits, [0, 100_000, 200_000, 300_000]);
    assert_eq!(stored(redis).unwrap(), "1763700000400000 1763700000000000");
    let leave = [TEN_A_SECOND.args("1763700000.01", "-1"), vec!["1763700000100000".into()]].concat();
    eval(redis, &leave).unwrap();
    assert_eq!(stored(redis).unwrap(), "1763700000400000 1763700000010000;1763700000100000 1763700000200000");
    let expires_in_ms: u64 = redis::cmd("PTTL").arg(KEY).query(redis).unwrap();
    assert!((1_000..=1_390).contains(&expires_in_ms), "{expires_in_ms}");
    let ask = TEN_A_SECOND.args("1763700000.01", "1");
    assert_eq!(eval(redis, &ask).unwrap(), (1, 2, 90_000, 390_000, START_US + 100_000));
}

#[test]
fn a_warm_up_is_stored_to_the_last_bit() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let rule = Numbers { interval_us: 500_000, max_wait_us: 9_000_000, max_queue: 99, warm_up_us: 4_000_000 };
    let turns: Vec<_> = (0..6).map(|_| eval(redis, &rule.args("1763700000", "1")).unwrap().2).collect();
    assert_eq!(turns, [0, 1_375_000, 2_500_000, 3_375_000, 4_000_000, 4_500_000]);
    assert_eq!(stored(redis).unwrap(), "1763700005000000 1763700000000000 2 8 1763700008000000");
}

#[test]
fn a_denial_writes_nothing_and_an_invalid_value_counts_as_missing() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let rule = Numbers { max_queue: 0, ..TEN_A_SECOND };
    assert_eq!(eval(redis, &rule.args("1763700000", "2")).unwrap(), (0, 1, -1, 0, START_US));
    assert_eq!(stored(redis), None);
    eval(redis, &rule.args("1763700000", "1")).unwrap();
    let before = stored(redis);
    assert_eq!(eval(redis, &rule.args("1763700000.04", "1")).unwrap(), (0, 0, 60_000, 60_000, START_US + 40_000));
    assert_eq!(stored(redis), before);
    redis::cmd("SET").arg(KEY).arg("soup").exec(redis).unwrap();
    assert_eq!(eval(redis, &rule.args("1763700000.04", "1")).unwrap().0, 1);
}

#[test]
fn invalid_arguments_fail_without_a_write() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let good = ["100000", "1000000", "", "1", "5", "0"];
    let bad = [(0, "0"), (0, "1.5"), (0, "x"), (0, "315360000000001"), (1, "-1"), (1, ""), (2, "soon"), (2, "-1")];
    let more = [(3, ""), (3, "1.5"), (3, "9007199254740992"), (4, "-1"), (4, "1e99"), (5, "x"), (5, "1e15")];
    for (at, text) in bad.into_iter().chain(more) {
        let mut args = good.map(str::to_owned);
        args[at] = text.to_owned();
        let error: RedisError = eval(redis, &args).unwrap_err();
        assert!(error.to_string().contains("must be"), "{args:?}: {error}");
    }
    assert!(eval(redis, &good[..5].iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>()).is_err());
    assert_eq!(redis::cmd("DBSIZE").query::<u64>(redis).unwrap(), 0);
}

#[test]
fn the_command_in_the_header_runs() {
    let server = RedisServer::start();
    let line = TEXT.lines().find(|line| line.starts_with("redis-cli --eval")).unwrap();
    let line = line.replacen("redis-cli", &format!("redis-cli -p {}", server.port), 1);
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("sh").arg("-c").arg(&line).current_dir(root).output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.lines().take(4).collect::<Vec<_>>(), ["1", "5", "0", "100000"]);
}

#[tokio::test]
async fn the_store_calls_the_script_alone_and_in_lists_of_six() {
    let server = RedisServer::start();
    let store = store(&server.connected_client().await, OnStoreFailure::Deny);
    let us = Duration::from_micros;
    let slow = LeakyBucket::new(1, us(10_000_000))
        .unwrap()
        .with_max_wait(us(60_000_000))
        .unwrap()
        .with_max_queue(4)
        .unwrap()
        .with_warm_up(us(1_000_000))
        .unwrap();
    let rule = Rule::LeakyBucket(slow);
    let first = ask(&store, "k", &rule).await;
    assert_eq!((first.source, first.delay, first.remaining), (Source::Redis, Duration::ZERO, Some(3)));
    let second = ask(&store, "k", &rule).await;
    assert!(second.delay > Duration::from_secs(9) && second.remaining == Some(2), "{second:?}");
    store.settle(Check { key: BucketKey { scope: "r", id: b"k" }, rule: &rule, cost: 1 }, -1, second.counted_at_us);
    eventually("the turn is returned", async || {
        let look = Check { key: BucketKey { scope: "r", id: b"k" }, rule: &rule, cost: 0 };
        decided(&store, &[look]).await.remaining == Some(3)
    })
    .await;
    for scopes in [["a", "b", "c", "d", "e", "f"], ["p#a", "p#b", "p#c", "p#d", "p#e", "p#f"]] {
        let six: Vec<Check<'_>> =
            scopes.map(|scope| Check { key: BucketKey { scope, id: b"x" }, rule: &rule, cost: 1 }).into();
        assert_eq!(six.len(), MAX_CHECKS);
        assert!(decided(&store, &six).await.delay.is_zero());
        assert!(decided(&store, &six).await.delay > Duration::from_secs(9));
        let third = decided(&store, &six).await;
        let look = Check { cost: 0, ..six[0] };
        let before = decided(&store, &[look]).await.remaining.unwrap();
        store.settle(six[0], -1, third.per_rule[0].counted_at_us);
        eventually("its turn is free", async || decided(&store, &[look]).await.remaining == Some(before + 1)).await;
    }
    let bucket = Rule::TokenBucket(TokenBucket::per_second(1, 1).unwrap());
    let key = |scope| BucketKey { scope, id: b"y" };
    let both = [Check { key: key("q#a"), rule: &bucket, cost: 1 }, Check { key: key("q#b"), rule: &rule, cost: 1 }];
    assert!(decided(&store, &both).await.is_allowed());
    let denied = decided(&store, &both).await;
    assert!(!denied.is_allowed());
    assert_eq!(denied.per_rule[1].remaining, 3, "no turn was consumed");
}

async fn decided(store: &impl Store, checks: &[Check<'_>]) -> Verdict {
    match store.decide(checks, &[]) {
        Decision::Ready(verdict) => verdict,
        Decision::Pending(verdict) => verdict.await,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Ask(u64),
    /// A request with a future or recent turn leaves.
    Leave(prop::sample::Index),
    More(u64),
    Rule(Numbers),
    SetBack(u64),
}

fn numbers() -> impl Strategy<Value = Numbers> {
    let interval_us = prop_oneof![1u64..10, 1u64..500_000, Just(333_334)];
    let warm_up_us = prop_oneof![2 => Just(0), 3 => 1u64..20_000_000];
    (interval_us, 0u64..3_000_000, 0u64..40, warm_up_us).prop_map(
        |(interval_us, max_wait_us, max_queue, warm_up_us)| Numbers { interval_us, max_wait_us, max_queue, warm_up_us },
    )
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let gap = prop_oneof![4 => Just(0), 3 => 1u64..200_000, 1 => 1u64..30_000_000];
    let step = prop_oneof![
        8 => (0u64..4).prop_map(Step::Ask),
        4 => any::<prop::sample::Index>().prop_map(Step::Leave),
        1 => (0u64..4).prop_map(Step::More),
        1 => numbers().prop_map(Step::Rule),
        1 => (1_000_001u64..100_000_000).prop_map(Step::SetBack),
    ];
    prop::collection::vec((gap, step), 1..60)
}

#[test]
fn memory_and_redis_agree_on_every_trace() {
    let server = RedisServer::start();
    let redis = RefCell::new(server.connection());
    let cases = std::env::var("TOLLGATE_TRACES").map_or(300, |traces| traces.parse().unwrap());
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let trace = |(mut numbers, steps): (Numbers, Vec<(u64, Step)>)| {
        let redis = &mut *redis.borrow_mut();
        redis::cmd("FLUSHALL").exec(redis).unwrap();
        let (memory, clock) = memory();
        clock.set(START_US);
        let mut given: Vec<(u64, u64)> = Vec::new();
        for (gap, step) in steps {
            clock.advance(Duration::from_micros(gap));
            let rule = Rule::LeakyBucket(numbers.rule());
            let now = seconds(clock.now_us());
            let check = |cost| Check { key: BucketKey { scope: "r", id: b"k" }, rule: &rule, cost };
            let correct = |redis: &mut Connection, more: i64, turn: u64| {
                memory.settle(check(more.unsigned_abs()), more, turn);
                eval(redis, &[numbers.args(&now, &format!("{more:+}")), vec![turn.to_string()]].concat()).unwrap();
            };
            match step {
                Step::Rule(other) => numbers = other,
                // The memory store attributes a step back below a second to waiting for the lock.
                Step::SetBack(by_us) => clock.set(clock.now_us() - gap - by_us),
                Step::More(more) => correct(redis, more as i64, 0),
                Step::Leave(index) if !given.is_empty() => {
                    let (turn, cost) = given.remove(index.index(given.len()));
                    correct(redis, -(cost as i64), turn);
                }
                Step::Leave(_) => {}
                Step::Ask(cost) => {
                    let reply = eval(redis, &numbers.args(&now, &cost.to_string())).unwrap();
                    prop_assert_eq!(reply, in_memory(&memory, &rule, cost));
                    if reply.0 == 1 && cost > 0 {
                        given.push((reply.4, cost));
                    }
                }
            }
            // The server's clock does not advance with that of the trace.
            redis::cmd("PERSIST").arg(KEY).exec(redis).unwrap();
            let look = eval(redis, &numbers.args(&seconds(clock.now_us()), "0")).unwrap();
            prop_assert_eq!(look, in_memory(&memory, &Rule::LeakyBucket(numbers.rule()), 0));
        }
        Ok(())
    };
    TestRunner::new(config).run(&(numbers(), steps()), trace).unwrap();
}
