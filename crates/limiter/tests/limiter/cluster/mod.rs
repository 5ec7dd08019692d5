//! The limiter against a Redis Cluster.

mod cross_slot;
mod failover;
mod fan_out;
mod home;
mod monitor;
mod outages;
mod redirects;
mod resharding;
mod routing;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::rule::{Rule, TokenBucket};
use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::memory::MemoryStore;
use tollgate_limiter::store::redis::{HostPort, RedisClient, RedisSettings, RedisStore, Servers, StoreError};
use tollgate_test_support::{Cluster, PATIENCE, RedisServer};

/// Timeout for tests in which no call may be late on a busy machine.
const PATIENT: Duration = Duration::from_secs(20);

/// A gateway's default timeout.
const USUAL: Duration = Duration::from_millis(100);

fn seeds<'a>(nodes: impl IntoIterator<Item = &'a RedisServer>) -> Vec<HostPort> {
    nodes.into_iter().map(|node| HostPort { host: "127.0.0.1".into(), port: node.port }).collect()
}

/// A client with those seeds that is not connected yet.
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

/// Key ids of the limiter `r` with buckets on `nodes[node]`.
fn ids_on(cluster: &Cluster, node: usize, count: usize) -> Vec<String> {
    let ids = (0..).map(|number| format!("id{number}"));
    ids.filter(|id| cluster.primary_of(slot(cluster, id)) == node).take(count).collect()
}

fn slot(cluster: &Cluster, id: &str) -> u16 {
    cluster.slot(&format!("r.{id}"))
}

/// A limit for an hour, so that nothing is refilled while a test runs.
fn hourly(burst: u64) -> TokenBucket {
    TokenBucket::new(1, Duration::from_secs(3_600), burst).unwrap()
}

fn two_keys(burst: u64) -> Rule {
    Rule::TokenBucket(hourly(burst))
}

fn one_key(burst: u64) -> Rule {
    Rule::Gcra(hourly(burst))
}

/// Returns the number of a node's clients, without the one that counts them.
fn clients(node: &RedisServer) -> usize {
    node.query::<String>(&["CLIENT", "LIST", "TYPE", "pubsub"]).unwrap().lines().count()
}

fn failures(client: &RedisClient, kind: StoreError) -> u64 {
    client.stats().failures.by_reason().iter().find(|(known, _)| *known == kind).unwrap().1
}

fn all_failures(client: &RedisClient) -> u64 {
    client.stats().failures.by_reason().iter().map(|(_, count)| count).sum()
}
