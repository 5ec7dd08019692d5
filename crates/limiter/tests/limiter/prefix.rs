//! Environments that share servers: a prefix stands before the name of every key and channel.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::concurrency::redis::{RedisSlots, Releases};
use tollgate_limiter::concurrency::{Acquisition, Concurrency, MemorySlots, SlotStore};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::metering::{Counts, Dimensions, FlushSettings, Flusher, Ledger, Meter, MeterSettings, Period};
use tollgate_limiter::rule::{Quota, Rule};
use tollgate_limiter::store::redis::{
    GatewayCount, Heartbeat, LockSettings, LockedStore, Login, OverrideTable, RedisClient, RedisSettings,
};
use tollgate_limiter::store::{Check, OnStoreFailure, Store};
use tollgate_limiter::verdict::Source;

use crate::model::{KINDS, Rng, answer};
use crate::support::{RedisServer, ask, connected, eventually, memory, rule, store};

const HOUR: Duration = Duration::from_secs(3_600);

fn key(scope: &str) -> BucketKey<'_> {
    BucketKey { scope, id: b"k" }
}

fn with_prefix(server: &RedisServer, prefix: &str) -> RedisSettings {
    RedisSettings { key_prefix: prefix.into(), timeout: Duration::from_secs(20), ..RedisSettings::new(server.url()) }
}

async fn decide(client: &Arc<RedisClient>) {
    let store = store(client, OnStoreFailure::Deny).denial_cache(false);
    let rules: Vec<Rule> = KINDS.iter().map(|kind| (kind.rule)(&mut Rng::new(3))).collect();
    for rule in &rules {
        let check = Check { key: key("r"), rule, cost: 1 };
        assert_eq!(answer(store.decide(&[check], &[])).await.source, Source::Redis);
        store.settle_confirmed(check, -1, 0).await.unwrap();
        store.forget(check).await.unwrap();
    }
    let scopes: Vec<String> = (0..rules.len().min(4)).map(|n| format!("r#rule{n}")).collect();
    let checks: Vec<_> =
        scopes.iter().zip(&rules).map(|(scope, rule)| Check { key: key(scope), rule, cost: 1 }).collect();
    assert_eq!(answer(store.decide(&checks, &[])).await.source, Source::Redis);
    let quota = Quota::new(5).unwrap();
    assert_eq!(store.grant_quota(key("r"), &quota, 2).await.unwrap(), 7);
    let lock = LockSettings::default();
    let locked = LockedStore::new(Arc::clone(client), lock, memory().0, OnStoreFailure::Deny, false).unwrap();
    let window = rules.into_iter().find(LockedStore::supports).unwrap();
    assert_eq!(ask(&locked, "locked", &window).await.source, Source::Redis);
}

async fn hold_a_slot(client: &Arc<RedisClient>) {
    let rule = Concurrency::new(1).unwrap().with_ttl(HOUR).unwrap();
    let releases = Arc::<Releases>::default();
    let local = MemorySlots::new(Arc::default(), rule, Arc::default());
    let slots = RedisSlots::new(Arc::clone(client), local, OnStoreFailure::Deny, Arc::clone(&releases));
    let Acquisition::Pending(acquired) = slots.acquire(key("r")) else { panic!("redis is called") };
    assert!(acquired.await.slot.is_some());
    releases.settled(Duration::from_secs(10)).await;
}

async fn count_usage(settings: &RedisSettings) {
    let ledger = Arc::new(Ledger::new(100));
    let (scope, route, dimensions) = ("r".into(), "r".into(), Dimensions::default());
    let meter_settings =
        MeterSettings { scope, route, dimensions, period: Period::Day, ttl: HOUR * 48, hash_ids: false };
    let meter = Meter::new(Arc::clone(&ledger), &meter_settings);
    let (every, retry_queue) = (Duration::from_millis(2), NonZeroUsize::MIN);
    let mut flusher =
        Flusher::new(Arc::clone(&ledger), FlushSettings { every, retry_queue, timeout: Duration::from_secs(20) })
            .unwrap();
    flusher.send_to(Some(settings)).unwrap();
    meter.count(meter.name(b"k"), "GET", 200, &Counts { requests: 1, bytes_in: 3, bytes_out: 4 });
    eventually("counts arrive", async || {
        flusher.tick().await;
        ledger.status().flushed == 1
    })
    .await;
}

/// A user that may use no other key and channel is refused nothing.
#[tokio::test]
async fn every_key_and_channel_carries_the_prefix() {
    let server = RedisServer::start();
    let acl = ["ACL", "SETUSER", "gateway", "on", ">p", "resetchannels", "~prod:*", "&prod:*", "+@all"];
    server.query::<()>(&acl).unwrap();
    let login = Login { username: Some("gateway".into()), password: Some("p".into()) };
    let settings = RedisSettings { login, ..with_prefix(&server, "prod:") };
    let client = connected(&settings).await;
    let mut listener = server.connection();
    let mut notices = listener.as_pubsub();
    notices.subscribe("prod:tollgate.returned").unwrap();
    decide(&client).await;
    hold_a_slot(&client).await;
    count_usage(&settings).await;
    let count = GatewayCount::default();
    Heartbeat::new(count.clone()).beat(&client).await.unwrap();
    assert_eq!(count.get().get(), 1);
    assert!(OverrideTable::set(&client, "t", "x", HOUR).await.unwrap());
    assert_eq!(OverrideTable::default().read(&client).await.unwrap().unwrap().len(), 1);
    let keys: Vec<String> = server.query(&["KEYS", "*"]).unwrap();
    assert!(keys.len() >= 5 && keys.iter().all(|key| key.starts_with("prod:")), "{keys:?}");
    assert_eq!(server.query::<Vec<String>>(&["PUBSUB", "CHANNELS"]).unwrap(), ["prod:tollgate.returned"]);
    // The last notice is that of the grant, which the script publishes.
    let granted = std::iter::from_fn(|| notices.get_message().ok()?.get_payload::<String>().ok());
    assert!(granted.into_iter().any(|key| key == "prod:quota.{r.k}"));
    assert_eq!(server.query::<Vec<redis::Value>>(&["ACL", "LOG"]).unwrap(), Vec::new());
}

#[tokio::test]
async fn environments_share_a_server_and_no_limit() {
    let server = RedisServer::start();
    for prefix in ["", "a:", "b:"] {
        let client = connected(&with_prefix(&server, prefix)).await;
        let store = store(&client, OnStoreFailure::Deny);
        for remaining in [2, 1] {
            let verdict = ask(&store, "k", &rule(1, 3)).await;
            assert_eq!((verdict.remaining, verdict.source), (Some(remaining), Source::Redis), "{prefix}");
        }
        let count = GatewayCount::default();
        Heartbeat::new(count.clone()).beat(&client).await.unwrap();
        assert_eq!(count.get().get(), 1, "{prefix}");
    }
    let mut keys: Vec<String> = server.query(&["KEYS", "*tokens"]).unwrap();
    keys.sort();
    let name = "request_rate_limiter.{r.k}.tokens";
    assert_eq!(keys, [format!("a:{name}"), format!("b:{name}"), name.to_owned()]);
}
