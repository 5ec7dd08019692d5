//! Seeds of two clusters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_limiter::store::redis::RedisClient;
use tollgate_limiter::verdict::Source;
use tollgate_test_support::{Cluster, RedisServer};

use super::{USUAL, client_of, ids_on, one_key, seeds, store};
use crate::support::{ask, eventually};

fn is_at(client: &RedisClient, cluster: &Cluster) -> bool {
    let addresses = cluster.addresses();
    let nodes = client.status().nodes;
    nodes.len() == 3 && nodes.iter().all(|node| addresses.contains(&node.name) && node.live_connections > 0)
}

/// `nodes: [A1, B1]`, where B1 belongs to another cluster by now.
#[tokio::test]
async fn another_cluster_is_left_when_the_known_nodes_reply_again() {
    let (home, other) = (Cluster::primaries(), Cluster::primaries());
    let client = client_of(seeds([&home.nodes[0], &other.nodes[0]]), USUAL);
    eventually("the cluster is found", async || is_at(&client, &home)).await;
    let (store, id) = (store(&client), ids_on(&home, 0, 1).remove(0));
    assert_eq!(ask(&store, &id, &one_key(9)).await.remaining, Some(8));
    home.nodes.iter().for_each(RedisServer::freeze);
    eventually("no known node replies", async || {
        ask(&store, &id, &one_key(9)).await;
        is_at(&client, &other)
    })
    .await;
    home.nodes.iter().for_each(RedisServer::thaw);
    eventually("the known nodes reply again", async || is_at(&client, &home)).await;
    eventually("redis decides", async || ask(&store, "other", &one_key(1_000_000)).await.source == Source::Redis).await;
    let verdict = ask(&store, &id, &one_key(9)).await;
    assert!(verdict.source == Source::Redis && verdict.remaining <= Some(7), "it counts on: {verdict:?}");
}

/// Starts a client with a seed of `home`, which hangs until one of `other` is asked. Returns the time until then.
async fn with_a_late_first_seed(home: &Cluster, other: &Cluster) -> (Arc<RedisClient>, Duration) {
    let asked = || {
        other.nodes[0].query::<redis::Value>(&["CLUSTER", "SLOTS"]).unwrap();
        let calls = other.nodes[0].info("cmdstat_cluster|slots");
        calls.strip_prefix("calls=").and_then(|calls| calls.split(',').next()?.parse::<u64>().ok()).unwrap()
    };
    let mut own = asked();
    home.nodes[0].freeze();
    let start = Instant::now();
    let client = client_of(seeds([&home.nodes[0], &other.nodes[0]]), USUAL);
    eventually("the second seed is asked", async || {
        own += 1;
        asked() > own
    })
    .await;
    (client, start.elapsed())
}

#[tokio::test]
async fn the_first_listed_seed_selects_the_cluster_although_it_replies_late() {
    let (home, other) = (Cluster::primaries(), Cluster::primaries());
    let (client, hung_for) = with_a_late_first_seed(&home, &other).await;
    home.nodes[0].thaw();
    // After a second, the next seed's cluster counts; a busy machine may need as long.
    let is_too_late = hung_for > Duration::from_millis(700);
    eventually("its cluster is used", async || is_at(&client, &home) || is_too_late && is_at(&client, &other)).await;
}

/// As the workers of a gateway have them.
#[tokio::test]
async fn all_clients_of_a_process_use_one_cluster() {
    let (home, other) = (Cluster::primaries(), Cluster::primaries());
    let (first, _) = with_a_late_first_seed(&home, &other).await;
    eventually("a second has passed", async || is_at(&first, &other)).await;
    home.nodes[0].thaw();
    let second = client_of(seeds([&home.nodes[0], &other.nodes[0]]), USUAL);
    eventually("the second client uses the same", async || is_at(&second, &other)).await;
    assert!(is_at(&first, &other));
}
