//! Failover to replicas.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::store::{Check, Store};
use tollgate_limiter::verdict::{Source, Verdict};
use tollgate_test_support::Cluster;

use super::{PATIENT, USUAL, all_failures, clients, connected, ids_on, one_key, store, two_keys};
use crate::model::answer;
use crate::support::{ask, eventually};

/// Two rules in a list; no connection loads their script beforehand.
async fn ask_list(store: &impl Store, id: &str, burst: u64) -> Verdict {
    let rules = [one_key(burst), two_keys(burst + 1)];
    let check = |(scope, rule)| Check { key: BucketKey { scope, id: id.as_bytes() }, rule, cost: 1 };
    let checks: Vec<_> = ["r#one", "r#two"].into_iter().zip(&rules).map(check).collect();
    answer(store.decide(&checks, &[])).await
}

/// Continuous requests for one key until stopped. Counts those admitted by Redis and without it.
struct Load {
    stop: Arc<AtomicBool>,
    by_redis: Arc<AtomicU64>,
    without: Arc<AtomicU64>,
    slowest: tokio::task::JoinHandle<Duration>,
}

impl Load {
    fn start(store: impl Store + 'static, id: &str, burst: u64) -> Self {
        let (stop, by_redis, without) =
            (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let (id, stops, counts) = (id.to_owned(), Arc::clone(&stop), [Arc::clone(&by_redis), Arc::clone(&without)]);
        let slowest = tokio::spawn(async move {
            let mut slowest = Duration::ZERO;
            while !stops.load(Relaxed) {
                let start = Instant::now();
                let verdict = ask_list(&store, &id, burst).await;
                slowest = slowest.max(start.elapsed());
                let count = &counts[usize::from(verdict.source == Source::Fallback)];
                count.fetch_add(u64::from(verdict.is_allowed()), Relaxed);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            slowest
        });
        Self { stop, by_redis, without, slowest }
    }

    async fn end(self) -> (u64, u64, Duration) {
        self.stop.store(true, Relaxed);
        let slowest = self.slowest.await.unwrap();
        (self.by_redis.load(Relaxed), self.without.load(Relaxed), slowest)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manual_failover_loses_no_request_and_no_count() {
    const BURST: u64 = 300;
    let cluster = Cluster::start();
    let client = connected(&cluster, PATIENT).await;
    let primary = cluster.serving()[0];
    let id = ids_on(&cluster, primary, 1).remove(0);
    let load = Load::start(store(&client), &id, BURST);
    let replica = cluster.replica_of(primary);
    eventually("some were admitted", async || load.by_redis.load(Relaxed) > 20).await;
    tokio::task::block_in_place(|| cluster.failover(replica));
    let store = store(&client);
    let looked = AtomicU64::new(0);
    let none_is_left = async || {
        let verdict = ask_list(&store, &id, BURST).await;
        looked.fetch_add(u64::from(verdict.is_allowed()), Relaxed);
        verdict.remaining == Some(0)
    };
    eventually("none is left", none_is_left).await;
    let (by_redis, without, _) = load.end().await;
    assert_eq!((by_redis + looked.load(Relaxed), without), (BURST, 0));
    assert_eq!(all_failures(&client), 0, "{:?}", client.status());
    assert!(client.stats().script_misses.get() >= 1, "the new primary did not know the list");
    let serving = cluster.nodes[replica].address.to_string();
    eventually("the map is updated", async || client.status().nodes.iter().any(|node| node.name == serving)).await;
    assert_eq!(client.status().nodes.len(), 3);
    eventually("the old primary is abandoned", async || clients(&cluster.nodes[primary]) == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_primary_is_replaced_within_a_second_at_the_cost_of_one_burst() {
    const BURST: u64 = 50;
    let mut cluster = Cluster::start();
    let client = connected(&cluster, USUAL).await;
    let primary = cluster.serving()[0];
    let [id, probe] = <[String; 2]>::try_from(ids_on(&cluster, primary, 2)).unwrap();
    let replica = cluster.replica_of(primary);
    let load = Load::start(store(&client), &id, BURST);
    eventually("all were admitted", async || load.by_redis.load(Relaxed) == BURST).await;
    cluster.nodes[primary].kill();
    tokio::task::block_in_place(|| cluster.wait_serving(replica));
    let store = store(&client);
    let ample = one_key(1_000_000);
    let found = eventually("redis decides", async || ask(&store, &probe, &ample).await.source == Source::Redis).await;
    assert!(found < Duration::from_secs(3), "{found:?}");
    let (by_redis, without, slowest) = load.end().await;
    assert!(by_redis <= 2 * BURST, "at most one burst was lost with the primary: {by_redis}");
    assert!(without <= BURST, "the fallback admits at most one burst: {without}");
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    // The old primary returns as a replica and gets no calls.
    cluster.nodes[primary].launch();
    tokio::task::block_in_place(|| cluster.wait_complete());
    assert_eq!(ask(&store, &probe, &ample).await.source, Source::Redis);
    assert_eq!(client.status().nodes.len(), 3);
    println!("found {found:?} after the cluster agreed, slowest decision {slowest:?}, {by_redis} + {without} admitted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_primary_is_replaced_and_gets_no_calls_when_it_resumes() {
    let cluster = Cluster::start();
    let client = connected(&cluster, USUAL).await;
    let primary = cluster.serving()[0];
    let id = ids_on(&cluster, primary, 1).remove(0);
    let replica = cluster.replica_of(primary);
    let store = store(&client);
    let ample = one_key(1_000_000);
    assert_eq!(ask(&store, &id, &ample).await.source, Source::Redis);
    cluster.nodes[primary].freeze();
    assert_eq!(ask(&store, &id, &ample).await.source, Source::Fallback);
    tokio::task::block_in_place(|| cluster.wait_serving(replica));
    let found = eventually("redis decides", async || ask(&store, &id, &ample).await.source == Source::Redis).await;
    assert!(found < Duration::from_secs(3), "{found:?}");
    let before = ask(&store, &id, &ample).await.remaining.unwrap();
    cluster.nodes[primary].thaw();
    // On a busy machine, a call may miss its deadline; Redis may have counted it all the same.
    let (mut remaining, mut late, mut late_in_all) = (before, 0, 0);
    for _ in 0..100 {
        let verdict = ask(&store, &id, &ample).await;
        if verdict.source != Source::Redis {
            late += 1;
            late_in_all += 1;
            continue;
        }
        let spent = remaining - verdict.remaining.unwrap();
        assert!((1..=1 + late).contains(&spent), "{spent} tokens after {late} late calls");
        (remaining, late) = (verdict.remaining.unwrap(), 0);
    }
    assert!(late_in_all <= 3, "{late_in_all} of 100 calls were late");
    println!("found {found:?} after the cluster agreed");
}
