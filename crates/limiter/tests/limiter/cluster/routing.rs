//! Routing of calls to nodes.

use std::time::Instant;

use tollgate_limiter::store::redis::HostPort;
use tollgate_limiter::verdict::Source;
use tollgate_test_support::{Cluster, PATIENCE, RedisServer, free_address};

use super::{
    PATIENT, USUAL, all_failures, client_of, clients, connected, ids_on, one_key, seeds, slot, store, two_keys,
};
use crate::support::{ask, eventually};

#[tokio::test]
async fn each_key_is_decided_on_its_node_and_only_primaries_are_connected() {
    let cluster = Cluster::start();
    // One address without a listener, and one node from which the others are discovered.
    let unreachable = HostPort { host: "127.0.0.1".into(), port: free_address().port() };
    let client = client_of(vec![unreachable, seeds(&cluster.nodes)[1].clone()], PATIENT);
    assert!(client.wait_connected(PATIENCE).await, "{:?}", client.status());
    let store = store(&client);
    for node in cluster.serving() {
        for (id, rule) in ids_on(&cluster, node, 6).iter().zip([two_keys(5), one_key(5)].iter().cycle()) {
            for left in [4, 3, 2, 1, 0, 0] {
                let verdict = ask(&store, id, rule).await;
                assert_eq!((verdict.remaining, verdict.source), (Some(left), Source::Redis), "{:?}", client.status());
            }
        }
        let keys: usize = cluster.nodes[node].query(&["DBSIZE"]).unwrap();
        assert_eq!(keys, 9, "three buckets of two keys, three of one");
        let calls = ["cmdstat_evalsha", "cmdstat_eval"].map(|command| cluster.nodes[node].info(command));
        assert_eq!(calls.each_ref().map(|calls| calls.split(',').next().unwrap()), ["calls=36", "calls=2"]);
    }
    let status = client.status();
    let mut names: Vec<_> = status.nodes.iter().map(|node| node.name.clone()).collect();
    let mut primaries: Vec<_> = cluster.serving().iter().map(|&node| cluster.nodes[node].address.to_string()).collect();
    names.sort();
    primaries.sort();
    assert_eq!((names, status.live_connections()), (primaries, 3));
    assert_eq!((client.stats().script_misses.get(), all_failures(&client)), (6, 0), "two scripts on three nodes");
}

#[tokio::test]
async fn a_hanging_node_delays_neither_the_start_nor_others() {
    let cluster = Cluster::primaries();
    let ids: Vec<_> = (0..3).map(|node| ids_on(&cluster, node, 1).remove(0)).collect();
    cluster.nodes[0].freeze();
    let client = client_of(seeds(&cluster.nodes), USUAL);
    let store = store(&client);
    let start = Instant::now();
    let ample = one_key(1_000_000);
    for id in &ids[1..] {
        eventually("redis decides", async || ask(&store, id, &ample).await.source == Source::Redis).await;
    }
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    assert_eq!(ask(&store, &ids[0], &ample).await.source, Source::Fallback);
    cluster.nodes[0].thaw();
    eventually("the cluster is found", async || ask(&store, &ids[0], &ample).await.source == Source::Redis).await;
}

#[tokio::test]
async fn a_cluster_that_is_down_at_start_is_found_later() {
    let mut cluster = Cluster::primaries();
    let ids: Vec<_> = (0..3).map(|node| ids_on(&cluster, node, 1).remove(0)).collect();
    cluster.nodes.iter_mut().for_each(RedisServer::kill);
    let client = client_of(seeds(&cluster.nodes), USUAL);
    client.wait_attempted(PATIENCE).await;
    assert!(client.status().last_error().is_some() && !client.status().connected());
    let store = store(&client);
    assert_eq!(ask(&store, &ids[0], &one_key(9)).await.source, Source::Fallback);
    cluster.nodes.iter_mut().for_each(RedisServer::launch);
    cluster.wait_complete();
    for id in &ids {
        eventually("redis decides", async || ask(&store, id, &one_key(1_000_000)).await.source == Source::Redis).await;
    }
    assert!(client.status().last_error().is_none());
}

#[tokio::test]
async fn nodes_are_named_by_hostname_or_by_the_host_that_was_asked() {
    for (arguments, host) in [
        (
            &["--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type", "hostname"][..],
            "localhost",
        ),
        (&["--cluster-preferred-endpoint-type", "unknown-endpoint"], "127.0.0.1"),
    ] {
        let cluster = Cluster::start_with(0, arguments);
        let client = connected(&cluster, PATIENT).await;
        let (store, id) = (store(&client), ids_on(&cluster, 0, 1).remove(0));
        assert_eq!(ask(&store, &id, &one_key(9)).await.remaining, Some(8));
        cluster.move_slot(slot(&cluster, &id), 1);
        for left in [7, 6] {
            let verdict = ask(&store, &id, &one_key(9)).await;
            assert_eq!((verdict.remaining, verdict.source), (Some(left), Source::Redis), "{:?}", client.status());
        }
        let status = client.status();
        assert_eq!(status.nodes.len(), 3, "{status:?}");
        assert!(status.nodes.iter().all(|node| node.name.starts_with(&format!("{host}:"))), "{status:?}");
    }
}

#[tokio::test]
async fn a_server_without_cluster_support_is_reported() {
    let server = RedisServer::start();
    let client = client_of(seeds([&server]), USUAL);
    client.wait_attempted(PATIENCE).await;
    let status = client.status();
    assert!(status.last_error().is_some_and(|error| error.contains("cluster support disabled")), "{status:?}");
    assert_eq!(ask(&store(&client), "a", &one_key(1)).await.source, Source::Fallback);
}

#[tokio::test]
async fn a_client_closes_all_connections_on_shutdown() {
    let cluster = Cluster::primaries();
    let client = connected(&cluster, USUAL).await;
    assert!(cluster.nodes.iter().all(|node| clients(node) == 1));
    client.shutdown();
    assert_eq!(ask(&store(&client), "a", &one_key(1)).await.source, Source::Fallback);
    for node in &cluster.nodes {
        eventually("the connections are closed", async || clients(node) == 0).await;
    }
}
