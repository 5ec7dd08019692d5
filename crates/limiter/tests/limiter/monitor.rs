//! Monitoring: latencies of calls, the servers' `INFO`, and heartbeats of gateways.

use std::sync::Arc;
use std::time::Duration;

use redis::Connection;
use tollgate_limiter::rule::{Align, FixedWindow, Quota, Rule, SlidingWindowCounter, SlidingWindowLog, TokenBucket};
use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::redis::{
    Breakers, GatewayCount, Gateways, Heartbeat, Operation, OverrideTable, RedisClient, RedisSettings, RedisStats,
    StoreError,
};
use tollgate_limiter::verdict::Source;

use crate::support::{RedisServer, ask, eventually, rule, seconds, store};

const SCRIPT: &str = include_str!("../../lua/gateways.lua");

fn calls(stats: &RedisStats, operation: Operation) -> u64 {
    stats.latencies_us(operation).buckets().iter().sum()
}

#[tokio::test]
async fn every_call_is_timed_and_counters_outlive_their_client() {
    let server = RedisServer::start();
    let stats = Arc::<RedisStats>::default();
    for client in 1..=2 {
        let settings = RedisSettings { timeout: Duration::from_secs(20), ..RedisSettings::new(server.url()) };
        let redis = RedisClient::start_counting(&settings, &Breakers::default(), Arc::clone(&stats), |_| None).unwrap();
        assert!(redis.wait_connected(Duration::from_secs(10)).await);
        for _ in 0..3 {
            ask(&store(&redis, OnStoreFailure::Deny), "a", &rule(1, 100)).await;
        }
        assert_eq!((calls(&stats, Operation::Decide), stats.connects.get()), (3 * client, client));
    }
    assert!(stats.latencies_us(Operation::Decide).sum() > 0);
    assert_eq!(calls(&stats, Operation::Settle), 0);
}

#[tokio::test]
async fn info_is_parsed_and_a_missing_permission_is_not_an_outage() {
    let server = RedisServer::start_with(&["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"]);
    let client = server.connected_client().await;
    ask(&store(&client, OnStoreFailure::Deny), "a", &rule(1, 100)).await;
    let (name, info) = client.info().await.pop().unwrap();
    let info = info.unwrap();
    assert_eq!((name, info.may_evict()), (format!("127.0.0.1:{}", server.port), true));
    assert_eq!((info.maxmemory, info.evicted_keys, info.refused_busy), (Some(64 << 20), Some(0), Some(0)));
    assert!(info.used_memory > Some(100_000) && info.connected_clients >= Some(1), "{info:?}");
    assert!(info.in_scripts > Some(Duration::ZERO) && info.cpu.is_some(), "{info:?}");

    redis::cmd("ACL").arg(&["SETUSER", "default", "-info"]).exec(&mut server.connection()).unwrap();
    for _ in 0..10 {
        assert_eq!(client.info().await[0].1, Err(StoreError::NoPerm));
    }
    assert_eq!(client.stats().failures.by_reason().iter().map(|(_, count)| count).sum::<u64>(), 0);
    assert_eq!(ask(&store(&client, OnStoreFailure::Deny), "a", &rule(1, 100)).await.source, Source::Redis);
}

#[tokio::test]
async fn running_gateways_are_counted() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let counts = [(); 3].map(|()| GatewayCount::default());
    let mut gateways = counts.clone().map(Heartbeat::new);
    for gateway in &mut gateways {
        gateway.beat(&client).await.unwrap();
    }
    let seen = |counts: &[GatewayCount]| counts.iter().map(|count| count.get().get()).collect::<Vec<_>>();
    assert_eq!(seen(&counts), [1, 2, 3]);
    gateways[0].beat(&client).await.unwrap();
    assert_eq!(seen(&counts), [3, 2, 3]);
    gateways[2].leave(&client).await.unwrap();
    for _ in 0..3 {
        gateways[0].beat(&client).await.unwrap();
    }
    assert_eq!(seen(&counts), [2, 2, 3]);
    let left_ms: i64 = redis::cmd("PTTL").arg("tollgate.gateways").query(&mut server.connection()).unwrap();
    assert!((1..=6_001).contains(&left_ms), "{left_ms}");
}

#[tokio::test]
async fn the_overrides_of_gateways_are_shared_until_they_end() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let hour = Duration::from_secs(3_600);
    let (mut one, mut other) = (OverrideTable::default(), OverrideTable::default());
    assert_eq!(one.read(&client).await, Ok(None));
    assert_eq!(OverrideTable::set(&client, "[\"a\"]", "x:y", hour).await, Ok(true));
    for table in [&mut one, &mut other] {
        let [it] = <[_; 1]>::try_from(table.read(&client).await.unwrap().unwrap()).unwrap();
        assert_eq!((&*it.target, &*it.text), ("[\"a\"]", "x:y"));
        assert!(it.expires_in <= hour && it.expires_in > hour - Duration::from_secs(60), "{it:?}");
        assert_eq!(table.read(&client).await, Ok(None), "nothing has changed");
    }
    let left_ms: i64 = redis::cmd("PTTL").arg("tollgate.overrides").query(&mut server.connection()).unwrap();
    assert!((3_500_000..=3_601_001).contains(&left_ms), "{left_ms}");
    // Those that have ended are not shown, and the next change deletes them.
    assert_eq!(OverrideTable::set(&client, "b", "z", Duration::from_millis(1)).await, Ok(true));
    eventually("it ends", async || OverrideTable::default().read(&client).await.unwrap().unwrap().len() == 1).await;
    assert_eq!(OverrideTable::remove(&client, "b").await, Ok(false));
    assert_eq!(OverrideTable::remove(&client, "[\"a\"]").await, Ok(true));
    assert_eq!(one.read(&client).await, Ok(Some(Vec::new())));
    let fields: Vec<String> = redis::cmd("HKEYS").arg("tollgate.overrides").query(&mut server.connection()).unwrap();
    assert_eq!(fields, ["v"]);
    // Data that was lost is read again, although its version returns to the start.
    redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
    assert_eq!(one.read(&client).await, Ok(Some(Vec::new())));
    assert_eq!(one.read(&client).await, Ok(None));
    assert_eq!(OverrideTable::set(&client, "a", "1", hour).await, Ok(true));
    assert_eq!(one.read(&client).await.unwrap().unwrap().len(), 1);
    for number in 1..OverrideTable::CAPACITY {
        assert_eq!(OverrideTable::set(&client, &format!("k{number}"), "1", hour).await, Ok(true));
    }
    assert_eq!(OverrideTable::set(&client, "one more", "1", hour).await, Ok(false));
    assert_eq!(OverrideTable::set(&client, "k1", "2", hour).await, Ok(true), "a known one can be changed");
}

#[test]
fn invalid_arguments_of_overrides_change_nothing() {
    let server = RedisServer::start();
    let script = include_str!("../../lua/overrides.lua");
    let long = "x".repeat(8193);
    for arguments in [
        &["1", "k"][..],
        &["0"],
        &["2", "k", "l", "read", ""],
        &["1", "k", "write", "a"],
        &["1", "k", "set", "a", "x"],
        &["1", "k", "set", "", "x", "1", "1"],
        &["1", "k", "set", "v", "x", "1", "1"],
        &["1", "k", "set", "a", &long, "1", "1"],
        &["1", "k", "set", &long, "x", "1", "1"],
        &["1", "k", "set", "a", "x", "0", "1"],
        &["1", "k", "set", "a", "x", "1.5", "1"],
        &["1", "k", "set", "a", "x", "31536000001", "1"],
        &["1", "k", "set", "a", "x", "1", "0"],
        &["1", "k", "remove", "v"],
    ] {
        let mut call = redis::cmd("EVAL");
        call.arg(script).arg(arguments);
        assert!(call.exec(&mut server.connection()).is_err(), "{arguments:?}");
    }
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut server.connection()).unwrap();
    assert_eq!(keys, [""; 0]);
}

#[tokio::test]
async fn without_redis_the_last_count_stays() {
    let mut server = RedisServer::start();
    let client = server.connected_client().await;
    let count = GatewayCount::default();
    let mut gateways = [Heartbeat::new(count.clone()), Heartbeat::new(GatewayCount::default())];
    gateways[1].beat(&client).await.unwrap();
    gateways[0].beat(&client).await.unwrap();
    server.kill();
    eventually("a heartbeat fails", async || gateways[0].beat(&client).await.is_err()).await;
    assert_eq!(count.get().get(), 2);
    assert_eq!(
        client.stats().failures.by_reason().iter().map(|(_, count)| count).sum::<u64>(),
        0,
        "no decision was requested"
    );
    server.launch();
    eventually("the count is read again", async || gateways[0].beat(&client).await.is_ok()).await;
    assert_eq!(count.get().get(), 2, "a lower count is not used at once");
}

#[tokio::test]
async fn the_shares_of_counted_gateways_do_not_exceed_the_limit() {
    const LIMIT: u64 = 50;
    let hour = Duration::from_secs(3_600);
    let rules = [
        Rule::TokenBucket(TokenBucket::new(1, hour, LIMIT).unwrap()),
        Rule::Gcra(TokenBucket::new(1, hour, LIMIT).unwrap()),
        Rule::FixedWindow(FixedWindow::new(LIMIT, hour, Align::First).unwrap()),
        Rule::SlidingWindowLog(SlidingWindowLog::new(LIMIT, hour).unwrap()),
        Rule::SlidingWindowCounter(SlidingWindowCounter::new(LIMIT, hour).unwrap()),
        Rule::Quota(Quota::new(LIMIT).unwrap()),
    ];
    let mut server = RedisServer::start();
    let client = server.connected_client().await;
    let counts = [(); 3].map(|()| GatewayCount::default());
    let mut gateways = counts.clone().map(Heartbeat::new);
    for gateway in [0, 1, 2, 0, 1] {
        gateways[gateway].beat(&client).await.unwrap();
    }
    assert!(counts.iter().all(|count| count.get().get() == 3));
    server.kill();
    eventually("the gateway is removed", async || client.status().live_connections() == 0).await;
    for rule in &rules {
        let mut admitted = 0;
        for count in &counts {
            let store = store(&client, OnStoreFailure::Local).gateways(Gateways::Counted(count.clone()));
            for _ in 0..LIMIT {
                admitted += u64::from(ask(&store, "a", rule).await.is_allowed());
            }
        }
        assert!((1..=LIMIT).contains(&admitted), "{admitted} under {rule:?}");
    }
}

fn gateways(redis: &mut Connection, what: &str, id: &str, now_us: u64) -> i64 {
    let mut cmd = redis::cmd("EVAL");
    cmd.arg(SCRIPT).arg(1).arg("g").arg(what).arg(id).arg(5_000_000).arg(seconds(now_us));
    let (gateways, now): (i64, u64) = cmd.query(redis).unwrap();
    assert_eq!(now, now_us);
    gateways
}

#[test]
fn a_gateway_silent_for_five_seconds_is_not_counted() {
    const START_US: u64 = 1_763_700_000_000_000;
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let at = |after_us| START_US + after_us;
    assert_eq!(gateways(redis, "beat", "a", at(0)), 1);
    assert_eq!(gateways(redis, "beat", "b", at(1_000_000)), 2);
    assert_eq!(gateways(redis, "beat", "b", at(4_999_999)), 2);
    assert_eq!(gateways(redis, "beat", "b", at(5_000_000)), 1);
    assert_eq!(gateways(redis, "beat", "a", at(5_000_001)), 2);
    assert_eq!(gateways(redis, "leave", "b", at(5_000_002)), 1);
    assert_eq!(gateways(redis, "leave", "unknown", at(5_000_003)), 1);
    // The server's clock was set back.
    assert_eq!(gateways(redis, "beat", "b", at(1_000)), 1);
    assert_eq!(gateways(redis, "beat", "a", at(2_000)), 2);
}
