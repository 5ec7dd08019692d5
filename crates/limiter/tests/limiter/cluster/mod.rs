//! The limiter against a Redis Cluster.

mod apart;
mod failover;
mod many;
mod outages;
mod redirects;
mod resharding;
mod routing;
mod watching;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::rule::{Rule, TokenBucket};
use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::memory::MemoryStore;
use tollgate_limiter::store::redis::{HostPort, RedisClient, RedisSettings, RedisStore, Servers, StoreError};
use tollgate_test_support::{Cluster, PATIENCE, RedisServer};

/// For tests in which nothing may be late, however busy the machine is.
const PATIENT: Duration = Duration::from_secs(20);

/// What a gateway waits for by default.
const USUAL: Duration = Duration::from_millis(100);

fn seeds<'a>(nodes: impl IntoIterator<Item = &'a RedisServer>) -> Vec<HostPort> {
    nodes.into_iter().map(|node| HostPort { host: "127.0.0.1".into(), port: node.port }).collect()
}

/// A client that knows those seeds, and is not connected yet.
fn client_of(seeds: Vec<HostPort>, timeout: Duration) -> Arc<RedisClient> {
    RedisClient::start(&RedisSettings { timeout, ..RedisSettings::of(Servers::Cluster(seeds)) }).unwrap()
}

/// A client that is connected to every primary.
async fn connected(cluster: &Cluster, timeout: Duration) -> Arc<RedisClient> {
    let client = client_of(seeds(&cluster.nodes), timeout);
    assert!(client.wait_connected(PATIENCE).await, "{:?}", client.status());
    client
}

fn store(client: &Arc<RedisClient>) -> RedisStore {
    let local = MemoryStore::new(NonZeroUsize::new(1_000).unwrap());
    RedisStore::new(Arc::clone(client), Arc::new(local), OnStoreFailure::Local)
}

/// Key ids of the limiter `r` whose buckets `nodes[node]` keeps.
fn ids_on(cluster: &Cluster, node: usize, count: usize) -> Vec<String> {
    let ids = (0..).map(|number| format!("id{number}"));
    ids.filter(|id| cluster.primary_of(slot(cluster, id)) == node).take(count).collect()
}

fn slot(cluster: &Cluster, id: &str) -> u16 {
    cluster.slot(&format!("r.{id}"))
}

/// So many in an hour, of which none comes back while a test runs.
fn hourly(burst: u64) -> TokenBucket {
    TokenBucket::new(1, Duration::from_secs(3_600), burst).unwrap()
}

fn two_keys(burst: u64) -> Rule {
    Rule::TokenBucket(hourly(burst))
}

fn one_key(burst: u64) -> Rule {
    Rule::Gcra(hourly(burst))
}

/// How many clients a node has, beside the one that asks it.
fn clients(node: &RedisServer) -> usize {
    node.query::<String>(&["CLIENT", "LIST", "TYPE", "pubsub"]).unwrap().lines().count()
}

fn failures(client: &RedisClient, kind: StoreError) -> u64 {
    client.status().failures.iter().find(|(known, _)| *known == kind).unwrap().1
}

fn all_failures(client: &RedisClient) -> u64 {
    client.status().failures.iter().map(|(_, count)| count).sum()
}
