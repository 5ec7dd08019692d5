//! `lua/sliding_window_log.lua` and `lua/sliding_window_counter.lua` compared with memory.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use redis::{Connection, RedisResult};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{MAX_SAFE_INTEGER, Rule, SlidingWindowCounter, SlidingWindowLog};
use tollgate_limiter::store::{Check, Decision, OnStoreFailure, Store};

use crate::support::{RedisServer, memory, run_line, seconds, store};
use crate::trace::{self, Model, NoModel, Reply, START_US, Scripted, steps, window_args};

const SECOND: u64 = 1_000_000;

impl Scripted for SlidingWindowLog {
    const TEXT: &'static str = include_str!("../../lua/sliding_window_log.lua");

    fn args(&self, now_us: u64, cost: &str, counted_at_us: Option<u64>) -> Vec<String> {
        let mut args = window_args(self.limit(), self.window().as_micros(), now_us, cost);
        args.extend(counted_at_us.map(|us| us.to_string()));
        args
    }

    fn most(&self) -> u64 {
        self.limit()
    }
}

impl Scripted for SlidingWindowCounter {
    const TEXT: &'static str = include_str!("../../lua/sliding_window_counter.lua");

    fn args(&self, now_us: u64, cost: &str, counted_at_us: Option<u64>) -> Vec<String> {
        let mut args = window_args(self.limit(), self.window().as_micros(), now_us, cost);
        args.push(self.tick_us().to_string());
        args.extend(counted_at_us.map(|us| us.to_string()));
        args
    }

    fn most(&self) -> u64 {
        self.limit()
    }
}

pub(crate) fn log(limit: u64, window_us: u64) -> SlidingWindowLog {
    SlidingWindowLog::new(limit, Duration::from_micros(window_us)).unwrap()
}

fn log_limits() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0u64..12, 1 => 995u64..1_005]
}

fn counter(limit: u64, window_us: u64) -> SlidingWindowCounter {
    SlidingWindowCounter::new(limit, Duration::from_micros(window_us)).unwrap()
}

fn one<A: std::fmt::Debug>(rule: impl Strategy<Value = A>) -> impl Strategy<Value = Vec<A>> {
    rule.prop_map(|rule| vec![rule])
}

/// Reference model: every token with its time; nothing is dropped.
#[derive(Default)]
struct EveryToken(Vec<u64>);

impl Model<SlidingWindowLog> for EveryToken {
    fn take(&mut self, rule: &SlidingWindowLog, now_us: u64, cost: u64) -> (bool, u64) {
        let window_us = rule.window().as_micros() as u64;
        let used = self.0.iter().filter(|&&at| now_us < at + window_us).count() as u64;
        let allowed = used + cost <= rule.limit();
        if allowed {
            self.0.extend((0..cost).map(|_| now_us));
        }
        (allowed, rule.limit().saturating_sub(used + if allowed { cost } else { 0 }))
    }

    fn settle(&mut self, rule: &SlidingWindowLog, now_us: u64, more: i64, counted_at_us: u64) {
        if more > 0 {
            let (_, left) = self.take(rule, now_us, 0);
            self.0.extend((0..left.min(more as u64)).map(|_| now_us));
        } else if now_us < counted_at_us + rule.window().as_micros() as u64 {
            for _ in more..0 {
                let Some(found) = self.0.iter().position(|&at| at == counted_at_us) else { break };
                self.0.remove(found);
            }
        }
    }
}

/// Reference model: tokens by number of the window; `previous * (window - elapsed) + current * window` in 128 bits.
#[derive(Default)]
struct EveryWindow(BTreeMap<u64, u64>);

impl Model<SlidingWindowCounter> for EveryWindow {
    fn take(&mut self, rule: &SlidingWindowCounter, now_us: u64, cost: u64) -> (bool, u64) {
        let (window_us, tick_us) = (rule.window().as_micros() as u64, rule.tick_us());
        let number = now_us / window_us;
        let taken = |number: u64| u128::from(self.0.get(&number).copied().unwrap_or(0));
        let ticks = u128::from(window_us.div_ceil(tick_us));
        let elapsed = u128::from(now_us % window_us / tick_us);
        let used = taken(number - 1) * (ticks - elapsed) + taken(number) * ticks;
        let all = u128::from(rule.limit()) * ticks;
        let allowed = cost == 0 || used + u128::from(cost) * ticks <= all;
        let takes = if allowed { u128::from(cost) * ticks } else { 0 };
        if allowed {
            *self.0.entry(number).or_default() += cost;
        }
        (allowed, (all.saturating_sub(used + takes) / ticks) as u64)
    }

    fn settle(&mut self, rule: &SlidingWindowCounter, now_us: u64, more: i64, counted_at_us: u64) {
        let window_us = rule.window().as_micros() as u64;
        if more > 0 {
            let (_, left) = self.take(rule, now_us, 0);
            *self.0.entry(now_us / window_us).or_default() += left.min(more as u64);
        } else if let Some(taken) = self.0.get_mut(&(counted_at_us / window_us)) {
            *taken = taken.saturating_sub(more.unsigned_abs());
        }
    }
}

#[test]
fn the_log_matches_its_definition_in_memory_and_in_redis() {
    let rules = one((0u64..12, 1u64..3).prop_map(|(limit, secs)| log(limit, secs * SECOND)));
    trace::run(1_000, rules, steps(SECOND, 5, false), || Some(EveryToken::default()));
}

#[test]
fn the_counter_matches_its_definition_in_memory_and_in_redis() {
    let limits = prop_oneof![0u64..12, Just(1_000_000_000_000), Just(MAX_SAFE_INTEGER)];
    let rules = one((limits, 1u64..3).prop_map(|(limit, secs)| counter(limit, secs * SECOND)));
    trace::run(1_000, rules, steps(SECOND, 5, false), || Some(EveryWindow::default()));
}

#[test]
fn the_counter_is_exact_with_huge_numbers() {
    let rules =
        one((MAX_SAFE_INTEGER / 4_000_000..=MAX_SAFE_INTEGER, 1u64..2_000_000)
            .prop_map(|(limit, us)| counter(limit, us)));
    trace::run(500, rules, steps(SECOND, MAX_SAFE_INTEGER / 3, false), || Some(EveryWindow::default()));
}

#[test]
fn the_log_agrees_through_changed_rules_and_clocks_set_back() {
    let rules = prop::collection::vec((log_limits(), 1u64..3_000_000).prop_map(|(limit, us)| log(limit, us)), 1..4);
    trace::run(1_000, rules, steps(SECOND, 5, true), || None::<NoModel>);
}

#[test]
fn the_log_agrees_on_shared_entries() {
    let limits = prop_oneof![990u64..1_010, Just(SlidingWindowLog::MAX_LIMIT)];
    let rules = prop::collection::vec((limits, 1u64..3_000_000).prop_map(|(limit, us)| log(limit, us)), 1..3);
    trace::run(500, rules, steps(SECOND, 700, true), || None::<NoModel>);
}

#[test]
fn the_counter_agrees_through_changed_rules_and_clocks_set_back() {
    let limits = prop_oneof![4 => 0u64..12, 1 => 1u64..MAX_SAFE_INTEGER];
    let rules = prop::collection::vec((limits, 1u64..3_000_000).prop_map(|(limit, us)| counter(limit, us)), 1..4);
    trace::run(1_000, rules, steps(SECOND, 5, true), || None::<NoModel>);
}

pub(crate) fn eval(redis: &mut Connection, text: &str, key: &str, args: &[String]) -> RedisResult<Reply> {
    redis::cmd("EVAL").arg(text).arg(1).arg(key).arg(args).query(redis)
}

pub(crate) fn ask(redis: &mut Connection, rule: &impl Scripted, now_us: u64, cost: &str) -> Reply {
    eval(redis, text_of(rule), "k", &rule.args(now_us, cost, Some(now_us))).unwrap()
}

fn text_of<A: Scripted>(_: &A) -> &'static str {
    A::TEXT
}

#[test]
fn the_counter_is_one_string_that_expires_when_it_stops_counting() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let rule = counter(10, 60 * SECOND);
    let text = |redis: &mut Connection| redis::cmd("GET").arg("k").query::<String>(redis).unwrap();
    let pttl = |redis: &mut Connection| redis::cmd("PTTL").arg("k").query::<u64>(redis).unwrap();
    ask(redis, &rule, START_US + 20 * SECOND, "3");
    assert_eq!(text(redis), format!("{START_US} 0 3 60000000"));
    assert!((100_500..=101_000).contains(&pttl(redis)), "{} ms", pttl(redis));
    ask(redis, &rule, START_US + 90 * SECOND, "2");
    assert_eq!(text(redis), format!("{} 3 2 60000000", START_US + 60 * SECOND));
    ask(redis, &rule, START_US + 90 * SECOND, "-2");
    assert_eq!(text(redis), format!("{} 3 0 60000000", START_US + 60 * SECOND));
    assert!((30_500..=31_000).contains(&pttl(redis)), "{} ms", pttl(redis));
    redis::cmd("SET").arg("k").arg("soup").exec(redis).unwrap();
    assert_eq!(ask(redis, &rule, START_US, "1").1, 9, "an invalid value counts as missing");
}

#[test]
fn invalid_arguments_fail_without_a_write() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let (log, counter) = (SlidingWindowLog::TEXT, SlidingWindowCounter::TEXT);
    for (text, args) in [
        (log, "-1 5 . 1"),
        (log, "1000000000001 5 . 1"),
        (log, "1.5 5 . 1"),
        (log, "x 5 . 1"),
        (log, "1 0 . 1"),
        (log, "1 9007199254740992 . 1"),
        (log, "1 5 yesterday 1"),
        (log, "1 5 -5 1"),
        (log, "1 5 . 1.5"),
        (log, "1 5 . nan"),
        (log, "1 5"),
        (counter, "-1 5 . 1 1"),
        (counter, "9007199254740992 5 . 1 5"),
        (counter, "9007199254740991 5 . 1 4"),
        (counter, "1 0 . 1 1"),
        (counter, "1 5 . 1 6"),
        (counter, "1 5 . 1 0"),
        (counter, "1 5 . 1 x"),
        (counter, "1 5 . 1"),
        (counter, "1 5 nan 1 1"),
        (counter, "1 5 . - 1"),
    ] {
        let args: Vec<String> = args.split(' ').map(|arg| arg.replacen('.', "", (arg == ".").into())).collect();
        let error = eval(redis, text, "k", &args).unwrap_err().to_string();
        assert!(error.contains("must be"), "{args:?}: {error}");
    }
    let none: RedisResult<Reply> = redis::cmd("EVAL").arg(log).arg(0).arg("1").query(redis);
    assert!(none.unwrap_err().to_string().contains("expected 1 key"));
    assert_eq!(redis::cmd("DBSIZE").query::<u64>(redis).unwrap(), 0);
}

#[test]
fn uses_the_time_of_the_server_by_default() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let (before, _): (u64, u64) = redis::cmd("TIME").query(redis).unwrap();
    for (text, tick) in [(SlidingWindowLog::TEXT, ""), (SlidingWindowCounter::TEXT, "1")] {
        let args = ["2", "60000000", "", "1", tick].map(str::to_owned);
        let (.., now_us) = eval(redis, text, tick, &args).unwrap();
        assert!(
            (before..before + 60).contains(&(now_us as u64 / SECOND)),
            "{} is about {before}",
            seconds(now_us as u64)
        );
    }
}

#[test]
fn the_commands_in_the_headers_run() {
    let server = RedisServer::start();
    assert_eq!(run_line(&server, SlidingWindowLog::TEXT)[..4], ["1", "19", "0", "10000000"]);
    assert_eq!(run_line(&server, SlidingWindowCounter::TEXT)[..3], ["1", "19", "0"]);
}

#[tokio::test]
async fn several_windows_consume_all_or_nothing_in_one_call() {
    let server = RedisServer::start();
    let in_redis = store(&server.connected_client().await, OnStoreFailure::Deny);
    let (in_memory, _clock) = memory();
    let day = Duration::from_secs(86_400);
    let log = Rule::SlidingWindowLog(SlidingWindowLog::new(5, day).unwrap());
    let counter = Rule::SlidingWindowCounter(SlidingWindowCounter::new(7, day).unwrap());
    for (cost, left) in [(3, [2, 4]), (3, [2, 4]), (2, [0, 2]), (1, [0, 2])] {
        let check = |scope, rule| Check { key: BucketKey { scope, id: b"k" }, rule, cost };
        let checks = [check("log", &log), check("counter", &counter)];
        for store in [&in_redis as &dyn Store, &*in_memory] {
            let verdict = match store.decide(&checks, &[]) {
                Decision::Ready(verdict) => verdict,
                Decision::Pending(verdict) => verdict.await,
            };
            let remaining: Vec<u64> = verdict.per_rule.iter().map(|answer| answer.remaining).collect();
            assert_eq!(remaining, left, "a cost of {cost}: {verdict:?}");
        }
    }
}
