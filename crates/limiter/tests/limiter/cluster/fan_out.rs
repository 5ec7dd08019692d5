//! Calls besides decisions: lease renewals, usage counts, quota withdrawals and plan lookups.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::concurrency::redis::{RedisSlots, Releases};
use tollgate_limiter::concurrency::{Acquired, Acquisition, Concurrency, MemorySlots, Renewal, SlotStats, SlotStore};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::metering::{Counts, Dimensions, FlushSettings, Flusher, Ledger, Meter, MeterSettings, Period};
use tollgate_limiter::plan::{PlanLookup, PlanSource};
use tollgate_limiter::quota::WithdrawalError;
use tollgate_limiter::rule::Quota;
use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::redis::{RedisClient, RedisPlans, RedisSettings, Servers};
use tollgate_limiter::verdict::Source;
use tollgate_test_support::Cluster;

use super::{PATIENT, all_failures, connected, ids_on, seeds, slot, store};
use crate::support::eventually;

fn key(id: &str) -> BucketKey<'_> {
    BucketKey { scope: "r", id: id.as_bytes() }
}

/// Key ids on every node, two of each.
fn ids(cluster: &Cluster) -> Vec<String> {
    (0..3).flat_map(|node| ids_on(cluster, node, 2)).collect()
}

fn slots(client: &Arc<RedisClient>, lease: Duration) -> (RedisSlots, Arc<SlotStats>) {
    let rule = Concurrency::new(1).unwrap().with_ttl(lease).unwrap();
    let stats = Arc::<SlotStats>::default();
    let local = MemorySlots::new(Arc::default(), rule, Arc::clone(&stats));
    (RedisSlots::new(Arc::clone(client), local, OnStoreFailure::Deny, Arc::<Releases>::default()), stats)
}

async fn acquire(slots: &RedisSlots, id: &str) -> Acquired {
    match slots.acquire(key(id)) {
        Acquisition::Ready(acquired) => acquired,
        Acquisition::Pending(acquired) => acquired.await,
    }
}

#[tokio::test]
async fn leases_are_renewed_on_every_node_and_after_a_migration() {
    let cluster = Cluster::primaries();
    let client = connected(&cluster, PATIENT).await;
    let ids = ids(&cluster);
    let (slots, stats) = slots(&client, Duration::from_millis(900));
    let mut held = Vec::new();
    for id in &ids {
        held.push(acquire(&slots, id).await.slot.expect("a slot"));
    }
    // One slot has migrated, another is about to.
    cluster.move_slot(slot(&cluster, &ids[0]), 1);
    let moving = cluster.begin_move(slot(&cluster, &ids[2]), 2);
    moving.move_keys();
    let renewed = |at_least: u64| stats.renewals(Renewal::Renewed) >= at_least;
    eventually("all slots are renewed repeatedly", async || renewed(6 * 6)).await;
    for id in &ids {
        assert_eq!(acquire(&slots, id).await.verdict.source, Source::Redis);
        assert!(acquire(&slots, id).await.slot.is_none(), "{id} is still held");
    }
    assert_eq!((stats.renewals(Renewal::Failed), stats.renewals(Renewal::Retaken)), (0, 0));
    drop(held);
    for id in &ids {
        eventually("each slot is released", async || acquire(&slots, id).await.slot.is_some()).await;
    }
    assert_eq!(all_failures(&client), 0, "{:?}", client.status());
    moving.finish();
}

#[tokio::test]
async fn counts_reach_every_node_once_while_one_hangs() {
    let cluster = Cluster::primaries();
    let ledger = Arc::new(Ledger::new(10_000));
    let settings = FlushSettings {
        every: Duration::from_millis(2),
        retry_queue: NonZeroUsize::new(4).unwrap(),
        timeout: Duration::from_millis(300),
    };
    let mut flusher = Flusher::new(Arc::clone(&ledger), settings).unwrap();
    flusher.send_to(Some(&RedisSettings::of(Servers::Cluster(seeds(&cluster.nodes))))).unwrap();
    let meter = Meter::new(
        Arc::clone(&ledger),
        &MeterSettings {
            scope: "r".into(),
            route: "r".into(),
            dimensions: Dimensions { route: false, method: false, status: false },
            period: Period::Day,
            ttl: Duration::from_secs(86_400),
            hash_ids: false,
        },
    );
    let ids = ids(&cluster);
    let count = |times: u64| {
        for id in &ids {
            (0..times).for_each(|_| {
                let one = Counts { requests: 1, bytes_in: 0, bytes_out: 0 };
                meter.count(meter.name(id.as_bytes()), "GET", 200, &one);
            });
        }
    };
    count(3);
    let mut landed = async |requests: u64| {
        eventually("counts arrive", async || {
            flusher.tick().await;
            ledger.status().flushed == requests
        })
        .await;
    };
    landed(18).await;
    cluster.nodes[2].freeze();
    count(2);
    landed(26).await;
    cluster.nodes[2].thaw();
    landed(30).await;
    cluster.move_slot(slot(&cluster, &ids[0]), 1);
    count(1);
    landed(36).await;
    let mut sums = Vec::new();
    for node in &cluster.nodes {
        let keys: Vec<String> = node.query(&["KEYS", "request_counter.*"]).unwrap();
        for key in keys.iter().filter(|key| node.query::<String>(&["TYPE", key]).unwrap() == "hash") {
            sums.push(node.query::<u64>(&["HGET", key, "requests"]).unwrap());
        }
    }
    assert_eq!(sums, [6; 6]);
    assert_eq!(ledger.status().lost, 0);
}

#[tokio::test]
async fn quotas_are_withdrawn_on_every_node() {
    let cluster = Cluster::primaries();
    let client = connected(&cluster, PATIENT).await;
    let store = store(&client);
    let rule = Quota::new(5).unwrap();
    let ids = ids(&cluster);
    assert_eq!(store.grant_quota(key(&ids[3]), &rule, 10).await.unwrap(), 15);
    cluster.move_slot(slot(&cluster, &ids[3]), 0);
    let wanted: Vec<_> = ids.iter().map(|id| (key(id), 6)).collect();
    let taken = store.withdraw_quotas(&rule, &wanted).await.unwrap();
    for (place, outcome) in taken.iter().enumerate() {
        match outcome {
            Ok(taken) => assert_eq!((place, taken.remaining), (3, 9)),
            Err(WithdrawalError::Insufficient { remaining: left }) => assert_eq!(*left, 5),
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(store.quota_remaining(key(&ids[3]), &rule).await.unwrap(), 9);
    assert_eq!(all_failures(&client), 0);
}

#[tokio::test]
async fn a_plan_is_read_after_its_slot_migrated() {
    let cluster = Cluster::primaries();
    let client = connected(&cluster, PATIENT).await;
    let plans = RedisPlans::new(Arc::clone(&client), "plans".into(), Duration::ZERO);
    let hash = cluster.slot("plans");
    let keeper = cluster.primary_of(hash);
    cluster.nodes[keeper].query::<()>(&["HSET", "plans", "alice", "gold"]).unwrap();
    let plan = async || match plans.plan(b"alice") {
        PlanLookup::Ready(plan) => plan,
        PlanLookup::Pending(plan) => plan.await,
    };
    assert_eq!(plan().await.as_deref(), Some("gold"));
    let moving = cluster.begin_move(hash, (keeper + 1) % 3);
    moving.move_keys();
    assert_eq!(plan().await.as_deref(), Some("gold"));
    moving.finish();
    assert_eq!(plan().await.as_deref(), Some("gold"));
    assert_eq!(all_failures(&client), 0);
}
