//! Servers and proxies that close idle connections: the end of a connection costs no decision.

use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::store::redis::{
    BreakerState, Breakers, HostPort, Login, RedisClient, RedisSettings, Sentinel, Servers,
};
use tollgate_limiter::store::{Check, OnStoreFailure, Store};
use tollgate_limiter::verdict::Source;
use tollgate_test_support::{Cluster, Fault, FaultProxy, RedisServer, Sentinels};

use crate::model::answer;
use crate::support::{connected, eventually, rule, store};

/// Lifetime of a connection that is closed for its idleness; shorter ones are not replaced at once.
const IDLE: Duration = Duration::from_millis(300);

const PATIENT: Duration = Duration::from_secs(20);

fn one(url: String, resp2: bool) -> RedisSettings {
    RedisSettings { timeout: PATIENT, resp2, ..RedisSettings::new(url) }
}

fn host_port(server: &RedisServer) -> HostPort {
    HostPort { host: "127.0.0.1".into(), port: server.port }
}

async fn decide(client: &Arc<RedisClient>, id: &str) -> Source {
    let (store, ample) = (store(client, OnStoreFailure::Deny).denial_cache(false), rule(1_000_000, 1_000_000));
    answer(store.decide(&[Check { key: BucketKey { scope: "r", id: id.as_bytes() }, rule: &ample, cost: 1 }], &[]))
        .await
        .source
}

/// Closes the connections of clients.
fn close(server: &RedisServer) {
    for kind in ["normal", "pubsub"] {
        server.query::<u64>(&["CLIENT", "KILL", "TYPE", kind]).unwrap();
    }
}

/// Closes the idle connections of `client` to `server` again and again. The next decision, for `id`, is always Redis'.
async fn assert_ends_cost_nothing(client: &Arc<RedisClient>, server: &RedisServer, id: &str) {
    assert_eq!(decide(client, id).await, Source::Redis);
    for _ in 0..3 {
        tokio::time::sleep(IDLE).await;
        let connects = client.stats().connects.get();
        close(server);
        eventually("the end is noticed without a call", async || {
            !client.status().connected() || client.stats().connects.get() > connects
        })
        .await;
        assert_eq!(decide(client, id).await, Source::Redis, "{:?}", client.status());
    }
    let status = client.status();
    assert!(client.stats().failures.by_reason().iter().all(|&(_, count)| count == 0), "{status:?}");
    assert_eq!(status.breaker(), BreakerState::Closed);
}

#[tokio::test]
async fn a_closed_idle_connection_costs_no_decision() {
    for resp2 in [true, false] {
        let server = RedisServer::start();
        let client = connected(&one(server.url(), resp2)).await;
        assert_ends_cost_nothing(&client, &server, "k").await;
    }
}

#[cfg(feature = "redis-tls")]
#[tokio::test]
async fn a_closed_idle_connection_with_tls_costs_no_decision() {
    use tollgate_limiter::store::redis::{Authorities, Tls};

    let certificates = tollgate_test_support::Certificates::new();
    for resp2 in [true, false] {
        let server = RedisServer::start_tls(&certificates, false, &[]);
        let tls = Some(Tls { ca: Some(Authorities::Pem(certificates.ca())), client: None });
        let client = connected(&RedisSettings { tls, ..one(server.tls_url(), resp2) }).await;
        assert_ends_cost_nothing(&client, &server, "k").await;
    }
}

#[tokio::test]
async fn a_closed_idle_connection_to_a_primary_of_sentinels_costs_no_decision() {
    let sentinels = Sentinels::start();
    let nodes: Vec<_> = sentinels.sentinels.iter().map(host_port).collect();
    for resp2 in [true, false] {
        let sentinel = Sentinel { master: "tollgate".into(), nodes: nodes.clone(), login: Login::default() };
        let servers = Servers::Sentinel(sentinel);
        let client = connected(&RedisSettings { timeout: PATIENT, resp2, ..RedisSettings::of(servers) }).await;
        assert_ends_cost_nothing(&client, sentinels.primary(), "k").await;
    }
}

#[tokio::test]
async fn a_closed_idle_connection_to_a_node_of_a_cluster_costs_no_decision() {
    let cluster = Cluster::primaries();
    let id = (0..).map(|n| format!("id{n}")).find(|id| cluster.primary_of(cluster.slot(&format!("r.{id}"))) == 0);
    for resp2 in [true, false] {
        let servers = Servers::Cluster(cluster.nodes.iter().map(host_port).collect());
        let client = connected(&RedisSettings { timeout: PATIENT, resp2, ..RedisSettings::of(servers) }).await;
        assert_ends_cost_nothing(&client, &cluster.nodes[0], id.as_ref().unwrap()).await;
    }
}

/// The reconnection takes long: calls wait for it.
#[tokio::test]
async fn a_call_during_the_reconnection_waits_for_it() {
    for resp2 in [true, false] {
        let server = RedisServer::start();
        let proxy = FaultProxy::start(server.address);
        let client = connected(&one(proxy.url(), resp2)).await;
        assert_eq!(decide(&client, "k").await, Source::Redis);
        tokio::time::sleep(IDLE).await;
        proxy.set(Fault::Delay(Duration::from_millis(100)));
        close(&server);
        eventually("the end is noticed", async || !client.status().connected()).await;
        assert_eq!(decide(&client, "k").await, Source::Redis, "{:?}", client.status());
    }
}

/// A breaker that one worker opened would refuse the calls of the others.
#[tokio::test]
async fn a_closed_idle_connection_of_one_worker_costs_others_no_decision() {
    let server = RedisServer::start();
    let breakers = Breakers::default();
    let mut workers = Vec::new();
    for _ in 0..2 {
        let client =
            RedisClient::start_counting(&one(server.url(), false), &breakers, Arc::default(), |_| None).unwrap();
        assert!(client.wait_connected(PATIENT).await);
        assert_eq!(decide(&client, "k").await, Source::Redis);
        workers.push(client);
    }
    tokio::time::sleep(IDLE).await;
    let list: String = server.query(&["CLIENT", "LIST", "TYPE", "pubsub"]).unwrap();
    let id = list.lines().next().and_then(|line| line.strip_prefix("id=")?.split(' ').next()).unwrap();
    server.query::<u64>(&["CLIENT", "KILL", "ID", id]).unwrap();
    eventually("a worker notices", async || {
        workers.iter().any(|worker| !worker.status().connected() || worker.stats().connects.get() > 1)
    })
    .await;
    for worker in &workers {
        assert_eq!(decide(worker, "k").await, Source::Redis, "{:?}", worker.status());
    }
}
