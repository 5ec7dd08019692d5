//! Leases when an operator changes their key, and when their return is late.

use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Align, FixedWindow, Rule, TokenBucket};
use tollgate_limiter::store::memory::Clock;
use tollgate_limiter::store::redis::{Login, RedisClient, RedisSettings, RedisStore, Unanswered};
use tollgate_limiter::store::{Check, OnStoreFailure, Store};
use tollgate_test_support::{Fault, FaultProxy};

use crate::leases::{KEY, START_US, ask, bucket, clock, gateway, left};
use crate::model::answer;
use crate::support::{RedisServer, connected, eventually, store};

const HOUR: Duration = Duration::from_secs(3_600);

fn rules() -> [Rule; 3] {
    [
        bucket(1, 1_000),
        Rule::Gcra(TokenBucket::new(1, HOUR, 1_000).unwrap()),
        Rule::FixedWindow(FixedWindow::new(1_000, HOUR, Align::Clock).unwrap()),
    ]
}

/// Change by an operator.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Reset,
    SetTo0,
}

impl Change {
    async fn apply(self, store: &RedisStore, rule: &Rule, left: u64, now_us: u64) {
        let check = Check { key: KEY, rule, cost: 0 };
        let change = async {
            match self {
                Self::Reset => store.forget(check).await,
                Self::SetTo0 => store.settle_confirmed(check, left as i64, now_us).await,
            }
        };
        store.change_leased::<Unanswered>(check, change).await.unwrap();
    }
}

/// Lets `store` lease requests. Returns the number of requests that were admitted.
async fn lease(store: &RedisStore, rule: &Rule) -> u64 {
    for _ in 0..25 {
        assert!(ask(store, rule).await.is_allowed());
    }
    25
}

#[tokio::test]
async fn leases_from_before_an_operators_change_return_nothing() {
    let server = RedisServer::start();
    // Without RESP3 the gateway gets no notice.
    for resp2 in [false, true] {
        let settings = RedisSettings { resp2, ..RedisSettings::new(server.url()) };
        let settings = RedisSettings { timeout: Duration::from_secs(20), ..settings };
        let [leasing, other] = [connected(&settings).await, connected(&settings).await];
        for rule in rules() {
            for change in [Change::Reset, Change::SetTo0] {
                redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
                let clock = clock();
                let here = gateway(&leasing, &clock, Duration::from_secs(1));
                let operator = store(&other, OnStoreFailure::Deny).with_clock(clock.clone()).denial_cache(false);
                lease(&here, &rule).await;
                let remaining = left(&other, &clock, &rule).await;
                assert!(remaining < 975, "some are leased");
                change.apply(&operator, &rule, remaining, clock.now_us()).await;
                let full = if change == Change::Reset { 1_000 } else { 0 };
                let mut admitted = 0;
                while ask(&operator, &rule).await.is_allowed() {
                    admitted += 1;
                }
                assert_eq!(admitted, full, "{change:?} under {rule:?}");
                leasing.return_leases().await;
                assert_eq!(left(&other, &clock, &rule).await, 0, "{change:?} under {rule:?}, resp2: {resp2}");
            }
        }
    }
}

#[tokio::test]
async fn changes_of_other_keys_lose_no_leased_requests() {
    let server = RedisServer::start();
    let [leasing, other] = [server.connected_client().await, server.connected_client().await];
    let rule = &rules()[2];
    let clock = clock();
    let here = gateway(&leasing, &clock, Duration::from_secs(1));
    let used = lease(&here, rule).await;
    let before = left(&other, &clock, rule).await;
    assert!(before < 1_000 - used, "some are leased");
    // Among that many keys, some share the version of the leased one.
    let notices = "for n = 1, 20000 do redis.call('PUBLISH', 'tollgate.returned', 'revoke other' .. n) end";
    server.query::<()>(&["EVAL", notices, "0"]).unwrap();
    let mut asked = used;
    while left(&other, &clock, rule).await == before {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(ask(&here, rule).await.is_allowed());
        asked += 1;
    }
    leasing.return_leases().await;
    let mut remaining = 0;
    for _ in 0..50 {
        remaining = left(&other, &clock, rule).await;
        if remaining == 1_000 - asked {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{remaining} left after {asked} requests");
}

/// A list has keys of several kinds: two strings of a token bucket, and one string of the other rules.
#[tokio::test]
async fn leases_under_several_rules_are_returned_and_revoked_together() {
    let server = RedisServer::start();
    let [leasing, other] = [server.connected_client().await, server.connected_client().await];
    let clock = clock();
    let here = gateway(&leasing, &clock, Duration::from_secs(1));
    let operator = store(&other, OnStoreFailure::Deny).with_clock(clock.clone()).denial_cache(false);
    let rules = rules();
    let scopes = ["r", "r#second", "r#third"];
    let checks = |cost| {
        let check = |(rule, scope)| Check { key: BucketKey { scope, ..KEY }, rule, cost };
        rules.iter().zip(scopes).map(check).collect::<Vec<_>>()
    };
    let lefts = async || {
        let mut lefts = Vec::new();
        for check in checks(0) {
            lefts.push(answer(operator.decide(&[check], &[])).await.remaining.unwrap());
        }
        lefts
    };
    for _ in 0..25 {
        assert!(answer(here.decide(&checks(1), &[])).await.is_allowed());
    }
    assert!(lefts().await.iter().all(|left| *left < 975), "some are leased under each rule");
    leasing.return_leases().await;
    // Tokens that flow in within the timeout are excluded.
    assert!(lefts().await.iter().all(|left| (955..=975).contains(left)), "{:?}", lefts().await);
    for _ in 0..25 {
        assert!(answer(here.decide(&checks(1), &[])).await.is_allowed());
    }
    let before = lefts().await;
    // The change of one rule revokes the lease under all.
    let changed = checks(0)[2];
    operator.change_leased::<Unanswered>(changed, operator.settle_confirmed(changed, 1, clock.now_us())).await.unwrap();
    leasing.return_leases().await;
    assert_eq!(lefts().await, [before[0], before[1], before[2] - 1]);
}

#[tokio::test]
async fn the_return_of_a_lease_needs_no_permission_beyond_those_of_its_rule() {
    let server = RedisServer::start();
    let other = server.connected_client().await;
    let login = Login { username: Some("gateway".into()), password: Some("of-the-user".into()) };
    let [bucket, gcra, window] = rules();
    for (permissions, rule) in
        [("+mget +setex ~request_rate_limiter.*", bucket), ("+get +set ~gcra.*", gcra), ("+get +set ~window.*", window)]
    {
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        let always =
            "reset resetchannels on >of-the-user &tollgate.returned +script|load +evalsha +subscribe +publish +time";
        let words: Vec<&str> = always.split(' ').chain(permissions.split(' ')).collect();
        server.query::<()>(&[&["ACL", "SETUSER", "gateway"], &words[..]].concat()).unwrap();
        let settings = RedisSettings { login: login.clone(), ..RedisSettings::new(server.url()) };
        let leasing = connected(&RedisSettings { timeout: Duration::from_secs(20), ..settings }).await;
        let clock = clock();
        lease(&gateway(&leasing, &clock, Duration::from_secs(1)), &rule).await;
        assert!(left(&other, &clock, &rule).await < 975, "some are leased");
        leasing.return_leases().await;
        assert!((955..=975).contains(&left(&other, &clock, &rule).await), "{permissions}");
    }
}

#[tokio::test]
async fn a_notice_ends_the_leases_of_a_changed_key() {
    let server = RedisServer::start();
    let [leasing, other] = [server.connected_client().await, server.connected_client().await];
    let (clock, rule) = (clock(), bucket(1, 1_000));
    let here = gateway(&leasing, &clock, Duration::from_secs(1));
    let operator = store(&other, OnStoreFailure::Deny).with_clock(clock.clone()).denial_cache(false);
    lease(&here, &rule).await;
    let remaining = left(&other, &clock, &rule).await;
    Change::SetTo0.apply(&operator, &rule, remaining, clock.now_us()).await;
    eventually("the lease is over", async || !ask(&here, &rule).await.is_allowed()).await;
    assert!(leasing.stats().lease_hits.get() < 24 + 25, "{:?}", leasing.status());
}

#[tokio::test]
async fn a_lease_lasts_a_second_at_most() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let (clock, rule) = (clock(), bucket(1, 1_000));
    let store = gateway(&client, &clock, HOUR);
    lease(&store, &rule).await;
    clock.set(START_US + 1_000_000);
    let eventually_left = async || left(&client, &clock, &rule).await >= 975;
    eventually("unused requests are returned", eventually_left).await;
}

/// Returns the number of `EVALSHA` that the server has run.
fn scripts_run(server: &RedisServer) -> u64 {
    let stats: String = server.query(&["INFO", "commandstats"]).unwrap();
    let (_, rest) = stats.split_once("cmdstat_evalsha:calls=").unwrap();
    rest.split(',').next().unwrap().parse().unwrap()
}

/// Returned tokens that overflowed meanwhile must not appear again.
#[tokio::test]
async fn a_return_that_arrives_late_returns_nothing() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(([127, 0, 0, 1], server.port).into());
    let timeout = Duration::from_millis(300);
    let leasing = connected(&RedisSettings { timeout, ..RedisSettings::new(proxy.url()) }).await;
    let other: Arc<RedisClient> = server.connected_client().await;
    for rule in rules() {
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        let here = store(&leasing, OnStoreFailure::Deny).lease(Some(Duration::from_secs(1)));
        let there = store(&other, OnStoreFailure::Deny).denial_cache(false);
        // The first return loads its script.
        lease(&here, &rule).await;
        leasing.return_leases().await;
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        lease(&here, &rule).await;
        proxy.set(Fault::HoldCommands(b"EVALSHA"));
        // The call times out while the command is on its way.
        leasing.return_leases().await;
        let mut admitted = 0;
        while ask(&there, &rule).await.is_allowed() {
            admitted += 1;
        }
        // Of 1,000; a token a second flows in.
        assert!((900..990).contains(&admitted), "{admitted}: the rest is leased");
        let before = scripts_run(&server);
        proxy.set(Fault::Pass);
        eventually("redis has received the return", async || scripts_run(&server) > before).await;
        let mut again = 0;
        while ask(&there, &rule).await.is_allowed() {
            again += 1;
        }
        // A token a second flows into the bucket.
        assert!(again <= 5, "{again} of the leased requests under {rule:?}");
    }
}
