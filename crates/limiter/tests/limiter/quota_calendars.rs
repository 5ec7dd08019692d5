//! Quotas with different periods on one key.

use redis::Connection;
use tollgate_limiter::rule::{Calendar, CalendarUnit, Quota, Rule};

use crate::changes::{START, Stores};
use crate::model::Rng;
use crate::support::RedisServer;
use crate::trace::{Reply, Scripted};

/// Script of the version that had one period per key, whatever rules used it.
const FORMER: &str = include_str!("former/quota.lua");

const HOUR: u64 = 3_600_000_000;
const DAY: u64 = 24 * HOUR;

fn quota(allowance: u64, unit: CalendarUnit) -> Quota {
    Quota::resetting(allowance, Calendar::new(unit, "Europe/Berlin").unwrap()).unwrap()
}

/// Returns a morning at the begin of a month.
fn first_of_a_month() -> u64 {
    quota(1, CalendarUnit::Month).periods_around(START).unwrap()[2] + 8 * HOUR
}

/// Gateway of the present or the former version.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Version {
    Former,
    Present,
}

use Version::{Former, Present};

impl Version {
    /// Runs the script on one key; returns the verdict and the remaining tokens.
    fn call(self, redis: &mut Connection, rule: &Quota, now_us: u64, cost: &str, counted_at_us: u64) -> (bool, i64) {
        let mut args = rule.args(now_us, cost, Some(counted_at_us));
        if self == Former {
            args.remove(8);
        }
        let script = if self == Former { FORMER } else { Quota::TEXT };
        let reply: Reply = redis::cmd("EVAL").arg(script).arg(1).arg("k").arg(&args).query(redis).unwrap();
        (reply.0 == 1, reply.1)
    }

    fn admits(self, redis: &mut Connection, rule: &Quota, now_us: u64) -> bool {
        self.call(redis, rule, now_us, "1", now_us).0
    }

    fn left(self, redis: &mut Connection, rule: &Quota, now_us: u64) -> i64 {
        self.call(redis, rule, now_us, "0", now_us).1
    }
}

/// A client that changes its plan, or the gateways of a rolling change: rules of both periods in turns.
#[tokio::test]
async fn a_shorter_period_of_a_quota_ends_no_longer_one() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let (by_day, by_month) = (quota(10, CalendarUnit::Day), quota(100, CalendarUnit::Month));
    let (by_day, by_month) = (Rule::Quota(by_day), Rule::Quota(by_month));
    for scope in ["quota-plans", "list#quota-plans"] {
        let stores = Stores::new(&client, scope);
        let (mut of_days, mut of_month) = (0, 0);
        for day in 0..20 {
            stores.clock.set(first_of_a_month() + day * DAY);
            of_days += stores.burst(&by_day, 12).await;
            of_month += stores.burst(&by_month, 30).await;
        }
        assert_eq!((of_days, of_month), (20 * 10, 100 - 3 * 10), "{scope}: the month counts the tokens of its days");
    }
}

#[test]
fn versions_share_a_quota_with_one_calendar_exactly() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let (mut rng, rule) = (Rng::new(1), quota(50, CalendarUnit::Day));
    for day in 0..10 {
        let (mut now_us, mut admitted) = (first_of_a_month() + day * DAY, 0);
        for _ in 0..120 {
            now_us += rng.below(60_000_000);
            admitted += u64::from(rng.pick(&[Former, Present]).admits(redis, &rule, now_us));
        }
        assert_eq!(admitted, 50);
        // Each version returns tokens that the other one took.
        for (version, other) in [(Former, Present), (Present, Former)] {
            assert_eq!(version.call(redis, &rule, now_us, "-3", now_us - 1), (true, 3));
            assert_eq!(other.left(redis, &rule, now_us), 3);
            assert_eq!(other.call(redis, &rule, now_us, "3", now_us), (true, 0));
        }
    }
}

#[test]
fn a_state_of_the_former_version_gives_nothing_back() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let (by_day, by_month, now_us) =
        (quota(10, CalendarUnit::Day), quota(100, CalendarUnit::Month), first_of_a_month());
    assert_eq!(Former.call(redis, &by_month, now_us, "97", now_us), (true, 3));
    assert_eq!(Present.left(redis, &by_day, now_us), 0, "a new calendar begins with the tokens of the month");
    assert_eq!(Present.left(redis, &by_month, now_us), 3);
    assert!(Present.admits(redis, &by_month, now_us));
    let next_us = now_us + DAY;
    assert_eq!(Present.left(redis, &by_day, next_us), 10);
    assert!(Present.admits(redis, &by_day, next_us));
    assert_eq!((Present.left(redis, &by_day, next_us), Present.left(redis, &by_month, next_us)), (9, 1));
    // The former version reads the period with most tokens, and forgets the others.
    assert_eq!(Former.left(redis, &by_month, next_us), 1);
    assert_eq!((Present.left(redis, &by_month, next_us), Present.left(redis, &by_day, next_us)), (1, 0));
}

/// The former version may end the longer period with a shorter one, once in each shorter period. No mix of versions
/// admits more than that.
#[test]
fn versions_side_by_side_admit_no_more_than_the_larger_allowance_in_each_shorter_period() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let rules = [quota(10, CalendarUnit::Day), quota(100, CalendarUnit::Month)];
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        redis::cmd("FLUSHALL").exec(redis).unwrap();
        for day in 0..8 {
            let (mut now_us, mut admitted) = (first_of_a_month() + day * DAY, 0);
            for _ in 0..rng.pick(&[0, 20, 200]) {
                now_us += rng.below(60_000_000);
                let (version, rule) = (rng.pick(&[Former, Present]), rng.below(2) as usize);
                admitted += u64::from(version.admits(redis, &rules[rule], now_us));
            }
            assert!(admitted <= 100, "seed {seed}, day {day}: {admitted}");
        }
    }
}
