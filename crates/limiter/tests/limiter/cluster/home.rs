//! Seeds of two clusters.

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
