//! `lua/quota.lua` compared with memory.

use proptest::prelude::*;
use redis::{Connection, RedisResult};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::quota::{Withdrawal, WithdrawalError};
use tollgate_limiter::rule::{Calendar, CalendarUnit, MAX_SAFE_INTEGER, Quota, Rule};
use tollgate_limiter::store::{Check, Decision, OnStoreFailure, Store};

use crate::support::{RedisServer, memory, run_line, seconds, store};
use crate::trace::{self, Model, NoModel, Reply, START_US, Scripted, steps};

const DAY: u64 = 86_400_000_000;

impl Scripted for Quota {
    const TEXT: &'static str = include_str!("../../lua/quota.lua");

    fn args(&self, now_us: u64, cost: &str, counted_at_us: Option<u64>) -> Vec<String> {
        let periods = self.periods_around(now_us).map(|starts| starts.map(|start| start.to_string()));
        let mut args = vec![self.allowance().to_string(), "take".to_owned(), seconds(now_us), cost.to_owned()];
        args.extend(periods.unwrap_or_default());
        args.extend(counted_at_us.map(|us| us.to_string()));
        args
    }

    fn most(&self) -> u64 {
        // After a reset; until then, corrections may leave more than the allowance.
        self.allowance()
    }
}

fn quota(allowance: u64, reset: Option<CalendarUnit>) -> Quota {
    match reset {
        Some(unit) => Quota::resetting(allowance, Calendar::new(unit, "Europe/Berlin").unwrap()).unwrap(),
        None => Quota::new(allowance).unwrap(),
    }
}

fn quotas() -> impl Strategy<Value = Quota> {
    let allowances = prop_oneof![4 => 0u64..30, 1 => MAX_SAFE_INTEGER / 2 - 9..=MAX_SAFE_INTEGER / 2];
    let resets = prop::sample::select(vec![None, Some(CalendarUnit::Day), Some(CalendarUnit::Week)]);
    (allowances, resets).prop_map(|(allowance, reset)| quota(allowance, reset))
}

/// A number.
#[derive(Default)]
struct Number(i64);

impl Model<Quota> for Number {
    fn take(&mut self, rule: &Quota, _: u64, cost: u64) -> (bool, u64) {
        let left = (rule.allowance() as i64 - self.0).max(0) as u64;
        let takes = if cost <= left { cost } else { 0 };
        self.0 += takes as i64;
        (cost <= left, left - takes)
    }

    fn settle(&mut self, rule: &Quota, _: u64, more: i64, _: u64) {
        self.0 += more.min((rule.allowance() as i64 - self.0).max(0));
    }
}

#[test]
fn memory_and_redis_agree_on_quotas() {
    let rules = (0u64..60).prop_map(|allowance| vec![quota(allowance, None)]);
    trace::run(500, rules, steps(DAY, 5, true), || Some(Number::default()));
}

#[test]
fn quotas_agree_through_periods_changed_rules_and_clocks_set_back() {
    let rules = prop::collection::vec(quotas(), 1..4);
    trace::run(1_500, rules, steps(DAY, 5, true), || None::<NoModel>);
}

fn run(redis: &mut Connection, allowance: u64, action: &str, cost: &str) -> RedisResult<Reply> {
    let args = [&allowance.to_string(), action, &seconds(START_US), cost, "", "", "", ""].map(str::to_owned);
    redis::cmd("EVAL").arg(Quota::TEXT).arg(1).arg("k").arg(&args[..]).query(redis)
}

#[test]
fn a_quota_without_a_period_never_expires_and_can_be_granted_and_set() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let mut left = |action: &str, cost: &str| {
        let reply = run(redis, 10, action, cost).unwrap();
        let stored: Option<String> = redis::cmd("GET").arg("k").query(redis).unwrap();
        let pttl: i64 = redis::cmd("PTTL").arg("k").query(redis).unwrap();
        assert!(pttl < 0, "{pttl}");
        (reply.0, reply.1, stored.unwrap_or_default())
    };
    assert_eq!(left("take", "4"), (1, 6, "4".to_owned()));
    assert_eq!(left("take", "7"), (0, 6, "4".to_owned()));
    assert_eq!(left("grant", "14"), (1, 20, "-10".to_owned()));
    assert_eq!(left("grant", "-5"), (1, 15, "-5".to_owned()));
    assert_eq!(left("set", "3"), (1, 3, "7".to_owned()));
    assert_eq!(left("set", "10"), (1, 10, String::new()), "equals a new quota");
    let most = MAX_SAFE_INTEGER.to_string();
    for _ in 0..3 {
        assert_eq!(left("grant", &most), (1, MAX_SAFE_INTEGER as i64, format!("-{most}")), "the largest exact number");
    }
}

#[test]
fn invalid_arguments_fail_without_a_write() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    for args in [
        "-1 take 0 1 _",
        "9007199254740992 take 0 1 _",
        "1 steal 0 1 _",
        "1 take never 1 _",
        "1 take 0 1.5 _",
        "1 set 0 -1 _",
        "1 take 0 1 1 2 3",
        "1 take 0 1 1 2 2 3",
        "1 take 0",
    ] {
        let args: Vec<&str> = args.split(' ').map(|arg| if arg == "_" { "" } else { arg }).collect();
        let reply: RedisResult<Reply> = redis::cmd("EVAL").arg(Quota::TEXT).arg(1).arg("k").arg(&args).query(redis);
        let error = reply.unwrap_err().to_string();
        assert!(error.contains("must be"), "{args:?}: {error}");
    }
    assert_eq!(redis::cmd("DBSIZE").query::<u64>(redis).unwrap(), 0);
}

#[test]
fn the_command_in_the_header_runs() {
    let server = RedisServer::start();
    assert_eq!(run_line(&server, Quota::TEXT)[..4], ["1", "19", "0", "0"]);
}

fn key(id: &str) -> BucketKey<'_> {
    BucketKey { scope: "shop", id: id.as_bytes() }
}

#[tokio::test]
async fn quota_operations_agree_in_redis_and_in_memory() {
    let server = RedisServer::start();
    let in_redis = store(&server.connected_client().await, OnStoreFailure::Deny);
    let (in_memory, _clock) = memory();
    for rule in [quota(10, None), quota(10, Some(CalendarUnit::Month))] {
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        in_memory.set_quota(key("a"), &rule, 10);
        assert_eq!(
            (in_memory.quota_remaining(key("a"), &rule), in_redis.quota_remaining(key("a"), &rule).await),
            (10, Ok(10))
        );
        assert_eq!(
            (in_memory.grant_quota(key("a"), &rule, 5), in_redis.grant_quota(key("a"), &rule, 5).await),
            (15, Ok(15))
        );
        assert_eq!((in_memory.set_quota(key("b"), &rule, 2), in_redis.set_quota(key("b"), &rule, 2).await), (2, Ok(2)));
        let wanted = [
            (key("a"), 12),
            (key("b"), 3),
            (key(""), 1),
            (key("b"), 0),
            (key("b"), MAX_SAFE_INTEGER + 1),
            (key("b"), 2),
        ];
        let expected = vec![
            Ok(Withdrawal { taken: 12, remaining: 3 }),
            Err(WithdrawalError::Insufficient { remaining: 2 }),
            Err(WithdrawalError::EmptyKey),
            Err(WithdrawalError::InvalidAmount),
            Err(WithdrawalError::InvalidAmount),
            Ok(Withdrawal { taken: 2, remaining: 0 }),
        ];
        assert_eq!(in_memory.withdraw_quotas(&rule, &wanted), expected);
        redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection()).unwrap();
        assert_eq!(in_redis.withdraw_quotas(&rule, &wanted).await.unwrap(), expected);
        // A request returns at most its cost, independent of grants.
        let rule = Rule::Quota(rule);
        in_memory.settle(Check { key: key("b"), rule: &rule, cost: 2 }, -9, u64::MAX);
        let Rule::Quota(rule) = rule else { unreachable!() };
        assert_eq!(in_memory.quota_remaining(key("b"), &rule), 2);
    }
}

#[tokio::test]
async fn a_grant_applies_to_the_quota_of_a_list() {
    let server = RedisServer::start();
    let store = store(&server.connected_client().await, OnStoreFailure::Deny);
    let (quota, key) = (Quota::new(2).unwrap(), BucketKey { scope: "r#stock", id: b"me" });
    let stock = Rule::Quota(quota.clone());
    let other = crate::support::rule(1, 10);
    let second = Check { key: BucketKey { scope: "r#second", id: b"me" }, rule: &other, cost: 2 };
    let decide = async || match store.decide(&[Check { key, rule: &stock, cost: 2 }, second]) {
        Decision::Ready(verdict) => verdict,
        Decision::Pending(verdict) => verdict.await,
    };
    assert!(decide().await.is_allowed());
    assert!(!decide().await.is_allowed());
    assert_eq!(store.quota_remaining(key, &quota).await.unwrap(), 0);
    assert_eq!(store.grant_quota(key, &quota, 3).await.unwrap(), 3);
    assert!(decide().await.is_allowed());
}

#[tokio::test]
async fn quota_operations_fail_without_redis() {
    let server = RedisServer::stopped(&[]);
    let in_redis = store(&server.client(), OnStoreFailure::Local);
    assert!(in_redis.quota_remaining(key("a"), &quota(10, None)).await.is_err());
    assert!(in_redis.withdraw_quotas(&quota(10, None), &[(key("a"), 1)]).await.is_err());
    assert_eq!(
        in_redis.withdraw_quotas(&quota(10, None), &[(key(""), 1)]).await.unwrap(),
        [Err(WithdrawalError::EmptyKey)]
    );
}
