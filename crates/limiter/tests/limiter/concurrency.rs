//! Slots in Redis: acquired, renewed during a request, and released.

use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::concurrency::redis::{RedisSlots, Releases};
use tollgate_limiter::concurrency::{
    Acquired, Acquisition, Concurrency, HeldSlot, MemorySlots, Renewal, SlotStats, SlotStore,
};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::redis::{RedisClient, RedisSettings};
use tollgate_limiter::verdict::{Outcome, Source};
use tollgate_test_support::{Fault, FaultProxy};

use crate::round_trips::Monitor;
use crate::support::{RedisServer, eventually};

const KEY: &str = "concurrency_limiter.{r.k}.leases";

struct Gateway {
    slots: RedisSlots,
    stats: Arc<SlotStats>,
    releases: Arc<Releases>,
}

/// Store with `limit` slots per key and slots of `ttl_ms`, renewed after a third of that.
fn gateway(client: &Arc<RedisClient>, limit: u64, ttl_ms: u64, on_store_failure: OnStoreFailure) -> Gateway {
    let rule = Concurrency::new(limit).unwrap().with_ttl(Duration::from_millis(ttl_ms)).unwrap();
    let (stats, releases) = (Arc::<SlotStats>::default(), Arc::<Releases>::default());
    let local = MemorySlots::new(Arc::default(), rule, Arc::clone(&stats));
    let slots = RedisSlots::new(Arc::clone(client), local, on_store_failure, Arc::clone(&releases));
    Gateway { slots, stats, releases }
}

impl Gateway {
    async fn ask(&self, id: &str) -> Acquired {
        match self.slots.acquire(BucketKey { scope: "r", id: id.as_bytes() }) {
            Acquisition::Ready(acquired) => acquired,
            Acquisition::Pending(acquired) => acquired.await,
        }
    }

    async fn hold(&self) -> HeldSlot {
        self.ask("k").await.slot.expect("a slot")
    }
}

fn owners(redis: &mut redis::Connection) -> Vec<String> {
    redis::cmd("ZRANGE").arg(KEY).arg(0).arg(-1).query(redis).unwrap()
}

/// Returns the calls of a command from `INFO commandstats`.
fn calls(redis: &mut redis::Connection, command: &str) -> u64 {
    let info: String = redis::cmd("INFO").arg("commandstats").query(redis).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn two_gateways_share_the_slots_of_a_key_and_release_their_own() {
    let server = RedisServer::start();
    let (one, other) = (server.connected_client().await, server.connected_client().await);
    let gateways = [one, other].map(|client| gateway(&client, 2, 60_000, OnStoreFailure::Deny));
    let first = gateways[0].ask("k").await;
    assert_eq!((first.verdict.remaining, first.verdict.source), (Some(1), Source::Redis));
    let second = gateways[1].ask("k").await;
    assert_eq!(second.verdict.remaining, Some(0));
    let denied = gateways[0].ask("k").await;
    assert_eq!(denied.verdict.outcome, Outcome::Denied { retry_after: Duration::from_secs(1) });
    assert_eq!((denied.verdict.remaining, denied.slot.is_none()), (Some(0), true));
    assert!(gateways[0].ask("another").await.verdict.is_allowed());
    let redis = &mut server.connection();
    assert_eq!(owners(redis).len(), 2);
    drop(second);
    gateways[1].releases.settled(Duration::from_secs(10)).await;
    assert_eq!(owners(redis).len(), 1);
    assert_eq!((gateways[0].stats.in_flight(), gateways[1].stats.in_flight()), (1, 0));
    assert!(gateways[0].ask("k").await.verdict.is_allowed());
}

#[tokio::test]
async fn an_acquisition_a_release_and_a_denial_take_one_call_each() {
    let server = RedisServer::start();
    let gateway = gateway(&server.connected_client().await, 1, 60_000, OnStoreFailure::Deny);
    let redis = &mut server.connection();
    drop(gateway.ask("warm").await);
    gateway.releases.settled(Duration::from_secs(10)).await;
    redis::cmd("CONFIG").arg("RESETSTAT").exec(redis).unwrap();
    let held = gateway.hold().await;
    assert!(!gateway.ask("k").await.verdict.is_allowed());
    gateway.releases.settled(Duration::from_secs(10)).await;
    assert_eq!(calls(redis, "evalsha"), 2);
    drop(held);
    gateway.releases.settled(Duration::from_secs(10)).await;
    assert_eq!((calls(redis, "evalsha"), calls(redis, "zadd"), calls(redis, "zrem")), (3, 1, 1));
}

#[tokio::test]
async fn a_request_cancelled_during_the_acquisition_leaves_no_lease() {
    let server = RedisServer::start();
    let gateway = gateway(&server.connected_client().await, 1, 60_000, OnStoreFailure::Deny);
    drop(gateway.ask("warm").await);
    let redis = &mut server.connection();
    gateway.releases.settled(Duration::from_secs(10)).await;
    redis::cmd("CONFIG").arg("RESETSTAT").exec(redis).unwrap();
    server.signal("STOP");
    // The call is sent, and the client leaves before the reply.
    assert!(tokio::time::timeout(Duration::from_millis(50), gateway.ask("k")).await.is_err());
    server.signal("CONT");
    gateway.releases.settled(Duration::from_secs(10)).await;
    assert_eq!((calls(redis, "zadd"), owners(redis)), (1, Vec::new()), "granted, and given back");
    assert_eq!(gateway.stats.in_flight(), 0);
}

#[tokio::test]
async fn leases_are_renewed_in_one_pipeline_while_held_and_never_after() {
    let server = RedisServer::start();
    let gateway = gateway(&server.connected_client().await, 600, 600, OnStoreFailure::Deny);
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(gateway.hold().await);
    }
    let redis = &mut server.connection();
    redis::cmd("CONFIG").arg("RESETSTAT").exec(redis).unwrap();
    let mut monitor = Monitor::start(&server);
    eventually("five rounds", async || gateway.stats.renewals(Renewal::Renewed) >= 5 * 20).await;
    assert_eq!(owners(redis).len(), 20, "held for longer than the slots");
    let renewals = monitor.sent(redis).into_iter().filter(|command| command == "evalsha").count();
    assert!(renewals >= 5 * 20, "{renewals}");
    assert_eq!(calls(redis, "eval"), 0, "the script is known");
    assert_eq!((gateway.stats.renewals(Renewal::Retaken), gateway.stats.overruns()), (0, 0));
    drop(held);
    gateway.releases.settled(Duration::from_secs(10)).await;
    let renewed = gateway.stats.renewals(Renewal::Renewed);
    assert!(!redis::cmd("EXISTS").arg(KEY).query::<bool>(redis).unwrap());
    // Waits for more than a slot.
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(!redis::cmd("EXISTS").arg(KEY).query::<bool>(redis).unwrap());
    assert_eq!(gateway.stats.renewals(Renewal::Renewed), renewed);
    assert_eq!(gateway.stats.in_flight(), 0);
}

#[tokio::test]
async fn more_leases_than_fit_one_pipeline_are_all_renewed() {
    let server = RedisServer::start();
    let gateway = gateway(&server.connected_client().await, 2_000, 3_000, OnStoreFailure::Deny);
    let mut held = Vec::new();
    for _ in 0..1_100 {
        held.push(gateway.hold().await);
    }
    eventually("all of them", async || gateway.stats.renewals(Renewal::Renewed) >= 1_100).await;
    assert_eq!(gateway.stats.renewals(Renewal::Failed), 0);
}

#[tokio::test]
async fn a_lost_lease_is_retaken_or_overruns_until_a_slot_is_free() {
    let server = RedisServer::start();
    let gateway = gateway(&server.connected_client().await, 1, 600, OnStoreFailure::Deny);
    let held = gateway.hold().await;
    let redis = &mut server.connection();
    redis::cmd("FLUSHALL").exec(redis).unwrap();
    eventually("retaken", async || gateway.stats.renewals(Renewal::Retaken) >= 1).await;
    let mine = owners(redis);
    let steal = |redis: &mut redis::Connection| {
        redis::cmd("DEL").arg(KEY).exec(redis).unwrap();
        redis::cmd("ZADD").arg(KEY).arg(9e15).arg("another").exec(redis).unwrap();
    };
    steal(redis);
    eventually("overruns", async || gateway.stats.renewals(Renewal::Overrun) >= 3).await;
    assert_eq!(gateway.stats.overruns(), 1, "one overrun per request");
    assert_eq!((owners(redis), gateway.stats.in_flight()), (vec!["another".to_owned()], 1));
    redis::cmd("DEL").arg(KEY).exec(redis).unwrap();
    let before = gateway.stats.renewals(Renewal::Retaken);
    eventually("acquires a slot again", async || gateway.stats.renewals(Renewal::Retaken) > before).await;
    assert_eq!(owners(redis), mine);
    drop(held);
    gateway.releases.settled(Duration::from_secs(10)).await;
    assert!(owners(redis).is_empty());
}

#[tokio::test]
async fn a_flushed_script_is_loaded_again_for_every_operation() {
    let server = RedisServer::start();
    let gateway = gateway(&server.connected_client().await, 1, 300, OnStoreFailure::Deny);
    let redis = &mut server.connection();
    let forget = |redis: &mut redis::Connection| redis::cmd("SCRIPT").arg("FLUSH").exec(redis).unwrap();
    let held = gateway.hold().await;
    forget(redis);
    eventually("renewed", async || gateway.stats.renewals(Renewal::Renewed) >= 1).await;
    forget(redis);
    drop(held);
    gateway.releases.settled(Duration::from_secs(10)).await;
    assert!(owners(redis).is_empty());
    assert_eq!(gateway.stats.renewals(Renewal::Failed), 0);
}

#[tokio::test]
async fn without_redis_each_policy_decides_immediately_and_releases_do_not_block() {
    let mut server = RedisServer::start();
    let client = server.connected_client().await;
    let local = gateway(&client, 1, 60_000, OnStoreFailure::Local);
    let in_redis = local.hold().await;
    server.kill();
    eventually("the connection is lost", async || !client.status().connected()).await;
    drop(in_redis);
    let here = local.ask("k").await;
    assert_eq!((here.verdict.remaining, here.verdict.source), (Some(0), Source::Fallback));
    let denied = local.ask("k").await.verdict;
    assert!(!denied.is_allowed() && denied.source == Source::Fallback);
    drop(here);
    assert!(local.ask("k").await.verdict.is_allowed());
    let allowed = gateway(&client, 1, 60_000, OnStoreFailure::Allow).ask("k").await;
    assert_eq!((allowed.verdict.outcome, allowed.verdict.remaining), (Outcome::Allowed, None));
    assert!(allowed.slot.is_none());
    let refused = gateway(&client, 1, 60_000, OnStoreFailure::Deny).ask("k").await.verdict;
    assert_eq!(refused.outcome, Outcome::StoreUnavailable { retry_after: Duration::from_secs(1) });
}

#[tokio::test]
async fn a_late_reply_leaves_no_lease() {
    let server = RedisServer::start();
    let client = server.connected_client_that_waits(Duration::from_millis(300)).await;
    let gateway = gateway(&client, 1, 60_000, OnStoreFailure::Deny);
    drop(gateway.ask("warm").await);
    server.signal("STOP");
    let late = gateway.ask("k").await.verdict;
    server.signal("CONT");
    assert!(matches!(late.outcome, Outcome::StoreUnavailable { .. }), "{late:?}");
    let redis = &mut server.connection();
    let _: String = redis::cmd("PING").query(redis).unwrap();
    eventually("released", async || owners(redis).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_overtakes_a_renewal_leaves_no_lease() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address);
    proxy.set(Fault::HoldCommands(b"$5\r\nrenew\r\n"));
    let settings = RedisSettings { connections: 2.try_into().unwrap(), ..RedisSettings::new(proxy.url()) };
    let client = RedisClient::start(&RedisSettings { timeout: Duration::from_secs(20), ..settings }).unwrap();
    eventually("both connections", async || client.status().live_connections() == 2).await;
    let gateway = gateway(&client, 1, 300, OnStoreFailure::Deny);
    let held = gateway.hold().await;
    eventually("the renewal is sent", async || proxy.struck() > 0).await;
    let redis = &mut server.connection();
    drop(held);
    eventually("released over the other connection", async || owners(redis).is_empty()).await;
    proxy.set(Fault::Pass);
    eventually("the renewal arrives", async || gateway.stats.renewals(Renewal::Retaken) == 1).await;
    gateway.releases.settled(Duration::from_secs(10)).await;
    eventually("the renewed slot is released", async || owners(redis).is_empty()).await;
    assert_eq!(calls(redis, "zrem"), 2);
}

#[tokio::test]
async fn secret_key_ids_are_hashed_in_redis() {
    let server = RedisServer::start();
    let gateway = gateway(&server.connected_client().await, 1, 60_000, OnStoreFailure::Deny);
    let gateway = Gateway { slots: gateway.slots.hash_keys(true), ..gateway };
    let _held = gateway.ask("s3cret").await;
    let names: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut server.connection()).unwrap();
    assert_eq!(names, ["concurrency_limiter.{r.#1EC1C26B50D5D3C58D9583181AF80766}.leases"]);
}
