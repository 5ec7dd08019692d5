//! Entries of `lua/sliding_window_log.lua`: one per request, in a bounded number.

use redis::Connection;
use tollgate_limiter::rule::SlidingWindowLog;

use crate::support::RedisServer;
use crate::trace::{Reply, START_US, Scripted};
use crate::windows::{ask, eval, log};

const SECOND: u64 = 1_000_000;

/// Returns the entries, without the windows in use before them.
fn members(redis: &mut Connection) -> Vec<(String, u64)> {
    redis::cmd("ZRANGEBYSCORE").arg("k").arg(START_US).arg("+inf").arg("WITHSCORES").query(redis).unwrap()
}

#[test]
fn the_log_has_a_member_for_each_microsecond_with_its_cost() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let rule = log(1_000, SECOND);
    ask(redis, &rule, START_US, "2");
    ask(redis, &rule, START_US, "1");
    ask(redis, &rule, START_US + 7, "1");
    assert_eq!(members(redis), [("0:3".to_owned(), START_US), ("3:1".to_owned(), START_US + 7)]);
    eval(redis, SlidingWindowLog::TEXT, "k", &rule.args(START_US + 8, "-1", Some(START_US + 7))).unwrap();
    assert_eq!(members(redis), [("0:3".to_owned(), START_US)]);
    eval(redis, SlidingWindowLog::TEXT, "k", &rule.args(START_US + 8, "-1", Some(START_US))).unwrap();
    let pttl: u64 = redis::cmd("PTTL").arg("k").query(redis).unwrap();
    assert!((1_500..=2_000).contains(&pttl), "{pttl} ms");
    ask(redis, &rule, START_US + 7, "1");
    eval(redis, SlidingWindowLog::TEXT, "k", &rule.args(START_US + 8, "-1", Some(START_US))).unwrap();
    assert_eq!(members(redis), [("1:1".to_owned(), START_US), ("2:1".to_owned(), START_US + 7)]);
    assert_eq!(ask(redis, &rule, START_US + 9, "900").1, 98);
    eval(redis, SlidingWindowLog::TEXT, "k", &rule.args(START_US + 10, "-1", Some(START_US))).unwrap();
    let shorter_side = [("2:1".to_owned(), START_US + 7), ("3:900".to_owned(), START_US + 9)];
    assert_eq!(members(redis), shorter_side);
    let pttl: u64 = redis::cmd("PTTL").arg("k").query(redis).unwrap();
    assert!((1_500..=2_000).contains(&pttl), "{pttl} ms");
}

#[test]
fn a_log_is_bounded_whatever_requests_cost() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let rule = log(SlidingWindowLog::MAX_LIMIT, 1_000 * 100);
    assert_eq!(ask(redis, &rule, START_US, "999000000000").0, 1);
    assert_eq!(members(redis).len(), 1, "one entry for a request");
    let mut calls = redis::pipe();
    for n in 1..5_000 {
        let args = rule.args(START_US + n * 40, "1", None);
        calls.cmd("EVAL").arg(SlidingWindowLog::TEXT).arg(1).arg("k").arg(args);
    }
    let replies: Vec<Reply> = calls.query(redis).unwrap();
    assert!(replies.iter().all(|reply| reply.0 == 1));
    assert!((1_000..=1_001).contains(&members(redis).len()), "{}", members(redis).len());
    // The first write after a pause drops a part, and the next ones the rest.
    ask(redis, &rule, START_US + 10 * SECOND, "1");
    assert!((937..=938).contains(&members(redis).len()), "{}", members(redis).len());
    for n in 1..70 {
        ask(redis, &rule, START_US + 10 * SECOND + n, "1");
    }
    assert_eq!(members(redis), [(members(redis)[0].0.clone(), START_US + 10 * SECOND + 69)]);
}

#[test]
fn returned_tokens_are_exact_across_a_thousand_later_entries() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let rule = log(1_000, 60 * SECOND);
    let mut calls = redis::pipe();
    for n in 0..1_000 {
        calls.cmd("EVAL").arg(SlidingWindowLog::TEXT).arg(1).arg("k").arg(rule.args(START_US + n, "1", None)).ignore();
    }
    calls.exec(redis).unwrap();
    let (allowed, left, wait, ..) = ask(redis, &rule, START_US + SECOND, "500");
    assert_eq!((allowed, left, wait as u64), (0, 0, 59 * SECOND + 499));
    eval(redis, SlidingWindowLog::TEXT, "k", &rule.args(START_US + SECOND, "-1", Some(START_US + 1))).unwrap();
    let (allowed, left, wait, ..) = ask(redis, &rule, START_US + SECOND, "500");
    assert_eq!((allowed, left, wait as u64), (0, 1, 59 * SECOND + 499));
    assert_eq!(ask(redis, &rule, START_US + 60 * SECOND, "0").1, 2);
    assert_eq!(ask(redis, &rule, START_US + 60 * SECOND + 1, "0").1, 2);
    assert_eq!(ask(redis, &rule, START_US + 60 * SECOND + 2, "0").1, 3);
}
