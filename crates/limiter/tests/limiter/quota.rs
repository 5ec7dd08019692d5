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
        args.push(self.reset().map(|_| self.calendar_id().to_string()).unwrap_or_default());
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

/// Consumed tokens and the time of the first.
#[derive(Default)]
struct Number(i64, Option<u64>);

impl Number {
    fn left(&self, rule: &Quota) -> u64 {
        (rule.allowance() as i64 - self.0).max(0) as u64
    }

    fn change(&mut self, now_us: u64, more: i64) {
        self.0 += more;
        if more != 0 {
            self.1 = Some(self.1.unwrap_or(now_us).min(now_us));
        }
    }
}

impl Model<Quota> for Number {
    fn take(&mut self, rule: &Quota, now_us: u64, cost: u64) -> (bool, u64) {
        let left = self.left(rule);
        let takes = if cost <= left { cost } else { 0 };
        self.change(now_us, takes as i64);
        (cost <= left, left - takes)
    }

    fn settle(&mut self, rule: &Quota, now_us: u64, more: i64, counted_at_us: u64) {
        if more > 0 {
            self.change(now_us, more.min(self.left(rule) as i64));
        } else if self.1.is_some_and(|since_us| since_us.min(now_us) <= counted_at_us) {
            self.change(now_us, more);
        }
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
    trace::run(800, rules, steps(DAY, 5, true), || None::<NoModel>);
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
    let used = |used: i64| format!("{used} 0 {START_US} 1");
    assert_eq!(left("set", "10"), (1, 10, String::new()), "a new quota");
    assert_eq!(left("take", "4"), (1, 6, used(4)));
    assert_eq!(left("take", "7"), (0, 6, used(4)));
    assert_eq!(left("grant", "14"), (1, 20, used(-10)));
    assert_eq!(left("grant", "-5"), (1, 15, used(-5)));
    assert_eq!(left("set", "3"), (1, 3, used(7)));
    assert_eq!(left("set", "10"), (1, 10, used(0)), "still this quota for later corrections");
    let most = MAX_SAFE_INTEGER as i64;
    for _ in 0..3 {
        assert_eq!(left("grant", &most.to_string()), (1, most, used(-most)), "the largest exact number");
    }
}

#[test]
fn the_periods_of_several_calendars_share_a_string() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let mut stored = |rule: &Quota, cost: &str| {
        let args = rule.args(START_US, cost, None);
        redis::cmd("EVAL").arg(Quota::TEXT).arg(1).arg("k").arg(&args).exec(redis).unwrap();
        redis::cmd("GET").arg("k").query::<String>(redis).unwrap()
    };
    let (forever, hourly) = (quota(10, None), quota(10, Some(CalendarUnit::Hour)));
    let hour = format!("{} {START_US} {}", hourly.periods_around(START_US).unwrap()[2], hourly.calendar_id());
    assert_eq!(stored(&hourly, "4"), format!("4 {hour}"));
    assert_eq!(stored(&forever, "2"), format!("6 0 {START_US} 1;6 {hour}"), "begins with the tokens of the hour");
    assert_eq!(stored(&hourly, "3"), format!("9 {hour};9 0 {START_US} 1"));
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
        "1 take 0 1 1 2 2 3 7",
        "1 take 0 1 1 2 3 4",
        "1 take 0 1 1 2 3 4 1",
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

/// A request is in flight while its period ends and the rule changes. Its tokens stay in the ended period.
#[tokio::test]
async fn a_changed_rule_returns_no_tokens_of_an_ended_period() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let mut call = |rule: &Quota, now_us: u64, cost: &str, counted_at_us: Option<u64>| {
        let args = rule.args(now_us, cost, counted_at_us);
        let reply: Reply = redis::cmd("EVAL").arg(Quota::TEXT).arg(1).arg("k").arg(&args).query(redis).unwrap();
        reply.1
    };
    let (hourly, later_us) = (quota(10, Some(CalendarUnit::Hour)), START_US + DAY / 24);
    assert_eq!(call(&hourly, START_US, "10", None), 0);
    for changed in [quota(10, None), quota(10, Some(CalendarUnit::Day))] {
        assert_eq!(call(&changed, later_us, "-10", Some(START_US)), 10, "before the next request");
    }
    let changed = quota(10, None);
    assert_eq!(call(&changed, later_us, "1", None), 9);
    assert_eq!(call(&changed, later_us, "-10", Some(START_US)), 9);
    assert_eq!(call(&changed, later_us, "-1", Some(later_us)), 10, "of this period");
}

#[tokio::test]
async fn a_grant_applies_to_the_quota_of_a_list() {
    let server = RedisServer::start();
    let store = store(&server.connected_client().await, OnStoreFailure::Deny);
    let (quota, key) = (Quota::new(2).unwrap(), BucketKey { scope: "r#stock", id: b"me" });
    let stock = Rule::Quota(quota.clone());
    let other = crate::support::rule(1, 10);
    let second = Check { key: BucketKey { scope: "r#second", id: b"me" }, rule: &other, cost: 2 };
    let decide = async || match store.decide(&[Check { key, rule: &stock, cost: 2 }, second], &[]) {
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
