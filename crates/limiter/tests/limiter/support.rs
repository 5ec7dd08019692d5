//! Test helpers: redis-server, clients and stores.

use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Rule, TokenBucket};
use tollgate_limiter::store::memory::{ManualClock, MemoryStore};
use tollgate_limiter::store::redis::{RedisClient, RedisSettings, RedisStore};
use tollgate_limiter::store::{Check, Decision, OnStoreFailure, Store};
use tollgate_limiter::verdict::Verdict;

/// redis-server with helpers for clients.
pub(crate) struct RedisServer(tollgate_test_support::RedisServer);

impl Deref for RedisServer {
    type Target = tollgate_test_support::RedisServer;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for RedisServer {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl RedisServer {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(args: &[&str]) -> Self {
        Self(tollgate_test_support::RedisServer::start_with(args))
    }

    /// Creates a server that is not running yet.
    pub(crate) fn stopped(args: &[&str]) -> Self {
        Self(tollgate_test_support::RedisServer::stopped(args))
    }

    /// Starts a client with a timeout long enough for a busy machine.
    pub(crate) fn client(&self) -> Arc<RedisClient> {
        self.client_that_waits(Duration::from_secs(20))
    }

    pub(crate) async fn connected_client(&self) -> Arc<RedisClient> {
        self.connected_client_that_waits(Duration::from_secs(20)).await
    }

    /// Starts a client with `timeout` and waits until it is connected.
    pub(crate) async fn connected_client_that_waits(&self, timeout: Duration) -> Arc<RedisClient> {
        let client = self.client_that_waits(timeout);
        assert!(client.wait_connected(Duration::from_secs(10)).await);
        client
    }

    fn client_that_waits(&self, timeout: Duration) -> Arc<RedisClient> {
        RedisClient::start(&RedisSettings { timeout, ..RedisSettings::new(self.url()) }).unwrap()
    }
}

pub(crate) fn rule(rate: u64, burst: u64) -> Rule {
    Rule::TokenBucket(TokenBucket::per_second(rate, burst).unwrap())
}

pub(crate) fn memory() -> (Arc<MemoryStore>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    (Arc::new(MemoryStore::with_clock(clock.clone()).with_max_keys(NonZeroUsize::new(1_000).unwrap())), clock)
}

pub(crate) fn store(client: &Arc<RedisClient>, on_store_failure: OnStoreFailure) -> RedisStore {
    RedisStore::new(Arc::clone(client), memory().0, on_store_failure)
}

pub(crate) async fn ask(store: &impl Store, id: &str, rule: &Rule) -> Verdict {
    match store.decide(&[Check { key: BucketKey { scope: "r", id: id.as_bytes() }, rule, cost: 1 }], &[]) {
        Decision::Ready(verdict) => verdict,
        Decision::Pending(verdict) => verdict.await,
    }
}

/// Polls `done` until it returns true, and returns the duration. Panics after 10 s.
pub(crate) async fn eventually(what: &str, mut done: impl AsyncFnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !done().await {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    start.elapsed()
}

/// Formats microseconds as the seconds of a script argument.
pub(crate) fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

/// Runs the `redis-cli` commands of a script header and returns the output of the last one.
pub(crate) fn run_line(server: &RedisServer, script: &str) -> Vec<String> {
    let lines = script.lines().filter(|line| line.starts_with("redis-cli "));
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let outputs = lines.map(|line| {
        let line = line.replacen("redis-cli", &format!("redis-cli -p {}", server.port), 1);
        Command::new("sh").arg("-c").arg(line).current_dir(root).output().unwrap()
    });
    String::from_utf8(outputs.last().unwrap().stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Starts a client and waits until it is connected.
pub(crate) async fn connected(settings: &RedisSettings) -> Arc<RedisClient> {
    let client = RedisClient::start(settings).unwrap();
    assert!(client.wait_connected(Duration::from_secs(10)).await, "{:?}", client.status());
    client
}
