//! A node that hangs, dies, or has lost its slots.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_limiter::store::Store;
use tollgate_limiter::store::redis::{BreakerState, RedisClient, StoreError};
use tollgate_limiter::verdict::Source;
use tollgate_test_support::Cluster;

use super::{USUAL, connected, failures, ids_on, one_key, store};
use crate::support::{ask, eventually};

fn state(client: &RedisClient, cluster: &Cluster, node: usize) -> BreakerState {
    let name = cluster.nodes[node].address.to_string();
    client.status().nodes.iter().find(|known| known.name == name).unwrap().breaker
}

/// 99th percentile of 2,000 decisions, all made by Redis.
async fn slow(store: &impl Store, ids: &[&str]) -> Duration {
    let ample = one_key(1_000_000);
    let mut took = Vec::new();
    for id in ids.iter().cycle().take(2_000) {
        let start = Instant::now();
        assert_eq!(ask(store, id, &ample).await.source, Source::Redis);
        took.push(start.elapsed());
    }
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

#[tokio::test]
async fn a_hanging_node_affects_only_its_own_keys() {
    let cluster = Cluster::primaries();
    let client = connected(&cluster, USUAL).await;
    let store = Arc::new(store(&client));
    let [own, other, third] = [0, 1, 2].map(|node| ids_on(&cluster, node, 1).remove(0));
    let ample = one_key(1_000_000);
    for id in [&own, &other, &third] {
        assert_eq!(ask(&*store, id, &ample).await.source, Source::Redis);
    }
    let before = slow(&*store, &[&other, &third]).await;
    cluster.nodes[0].freeze();
    // Its keys wait up to the timeout, and soon not at all; others are decided as before.
    let bystander = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { slow(&*store, &[&other, &third]).await })
    };
    let start = Instant::now();
    for _ in 0..10 {
        assert_eq!(ask(&*store, &own, &ample).await.source, Source::Fallback);
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let meanwhile = bystander.await.unwrap();
    let start = Instant::now();
    for _ in 0..1_000 {
        ask(&*store, &own, &ample).await;
    }
    let degraded = start.elapsed();
    assert!(degraded < Duration::from_secs(3), "{degraded:?} for 1,000 decisions");
    // The bound allows for a machine on which other tests run; both figures are printed.
    assert!(meanwhile < before * 2 + Duration::from_millis(30), "{before:?} before, {meanwhile:?} meanwhile");
    assert_eq!(state(&client, &cluster, 0), BreakerState::Open);
    assert_eq!([1, 2].map(|node| state(&client, &cluster, node)), [BreakerState::Closed; 2]);
    cluster.nodes[0].thaw();
    let back = eventually("the node is back", async || ask(&*store, &own, &ample).await.source == Source::Redis).await;
    assert!(back < Duration::from_secs(3), "{back:?}");
    println!("1,000 decisions without the node: {degraded:?}; back after {back:?}");
    println!("99th percentile of other nodes' keys: {before:?} before, {meanwhile:?} meanwhile");
}

#[tokio::test]
async fn a_dead_node_affects_only_its_own_keys() {
    let mut cluster = Cluster::primaries();
    let client = connected(&cluster, USUAL).await;
    let store = store(&client);
    let [own, other] = [0, 1].map(|node| ids_on(&cluster, node, 1).remove(0));
    cluster.nodes[0].kill();
    eventually("the loss is noticed without a request", async || !client.status().connected()).await;
    let ample = one_key(1_000_000);
    let start = Instant::now();
    for _ in 0..200 {
        assert_eq!(ask(&store, &own, &ample).await.source, Source::Fallback);
        assert_eq!(ask(&store, &other, &ample).await.source, Source::Redis);
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    cluster.nodes[0].launch();
    eventually("the node is back", async || ask(&store, &own, &ample).await.source == Source::Redis).await;
}

#[tokio::test]
async fn an_unassigned_slot_does_not_affect_others() {
    let cluster = Cluster::primaries();
    let client = connected(&cluster, USUAL).await;
    let store = store(&client);
    let ids = ids_on(&cluster, 0, 2);
    let slot = super::slot(&cluster, &ids[0]).to_string();
    cluster.nodes.iter().for_each(|node| node.query::<()>(&["CLUSTER", "DELSLOTS", &slot]).unwrap());
    for _ in 0..10 {
        assert_eq!(ask(&store, &ids[0], &one_key(9)).await.source, Source::Fallback);
        assert_eq!(ask(&store, &ids[1], &one_key(99)).await.source, Source::Redis);
    }
    assert_eq!(failures(&client, StoreError::ClusterDown), 10);
    assert!(client.status().connected() && state(&client, &cluster, 0) == BreakerState::Closed);
    cluster.nodes[0].query::<()>(&["CLUSTER", "ADDSLOTS", &slot]).unwrap();
    let asked = async || ask(&store, &ids[0], &one_key(1_000_000)).await.source == Source::Redis;
    eventually("the slot is served again", asked).await;
}
