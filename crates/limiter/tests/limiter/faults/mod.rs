//! Redis failing in every way, behind a proxy, under load: no request waits past the timeout, limits hold, and Redis
//! decides again soon after.
#![allow(clippy::print_stdout)] // measured times

mod errors;
mod gateways;
mod invalid_replies;
mod late;
mod log;
mod scripts;
mod unreachable;
mod unresponsive;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tollgate_limiter::store::memory::MemoryStore;
use tollgate_limiter::store::redis::{RedisClient, RedisSettings, RedisStore, StoreError};
use tollgate_limiter::store::{OnStoreFailure, Store};
use tollgate_limiter::verdict::Source;
use tollgate_test_support::{Fault, FaultProxy, PATIENCE};

use crate::support::{RedisServer, ask, eventually, rule};
use log::{Entry, Log};

/// Timeout of a decision.
const BUDGET: Duration = Duration::from_millis(100);

/// Longest decision on a busy machine.
const MAX_WAIT: Duration = Duration::from_millis(1_500);

/// Duration of a fault; longer than [`MAX_WAIT`].
const LONG: Duration = Duration::from_millis(2_500);

/// Longest time after a fault until Redis decides again: one second, plus two for a busy machine.
const MAX_RECOVERY: Duration = Duration::from_secs(3);

/// Rate and burst of the clients' rule.
const LIMIT: (u64, u64) = (50, 20);

/// Keys of the requests, each named after its store's policy.
const POLICIES: [(&str, OnStoreFailure); 3] =
    [("local", OnStoreFailure::Local), ("allow", OnStoreFailure::Allow), ("deny", OnStoreFailure::Deny)];

/// A Redis, a proxy in front of it, and a client of the proxy.
struct Fixture {
    server: RedisServer,
    proxy: FaultProxy,
    client: Arc<RedisClient>,
}

impl Fixture {
    async fn start() -> Self {
        Self::with_budget(BUDGET).await
    }

    async fn with_budget(timeout: Duration) -> Self {
        Self::with_server(RedisServer::start(), timeout).await
    }

    async fn with_server(server: RedisServer, timeout: Duration) -> Self {
        Self::with_settings(server, |settings| settings.timeout = timeout).await
    }

    async fn with_settings(server: RedisServer, change: impl FnOnce(&mut RedisSettings)) -> Self {
        let proxy = FaultProxy::start(server.address);
        let mut settings = RedisSettings::new(proxy.url());
        change(&mut settings);
        let client = RedisClient::start(&settings).unwrap();
        assert!(client.wait_connected(PATIENCE).await);
        Self { server, proxy, client }
    }

    fn store(&self, on_store_failure: OnStoreFailure) -> RedisStore {
        let local = Arc::new(MemoryStore::new(NonZeroUsize::new(100).unwrap()));
        RedisStore::new(Arc::clone(&self.client), local, on_store_failure)
    }

    /// Decisions that Redis did not make, for any reason.
    fn failures(&self) -> u64 {
        self.client.stats().failures.by_reason().iter().map(|(_, count)| count).sum()
    }

    /// Decisions that Redis did not make, for one reason.
    fn failures_of(&self, kind: StoreError) -> u64 {
        self.client.stats().failures.by_reason().iter().find(|(known, _)| *known == kind).unwrap().1
    }

    /// Open connections from the client to the proxy, as the system counts them.
    fn sockets(&self) -> usize {
        let (proxy, established) = (format!("{:04X}", self.proxy.address.port()), "01");
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let is_ours = |line: &&str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields[2].ends_with(&proxy) && fields[3] == established
        };
        table.lines().skip(1).filter(is_ours).count()
    }

    /// Applies `fault` for the time `lasting`, under load. Asserts that the decisions tolerate it.
    async fn run_fault(&self, name: &str, fault: Fault, lasting: Duration) -> Log {
        let load = Load::start(self);
        load.wait_for(60).await;
        self.proxy.set(fault);
        let begin = Instant::now();
        tokio::time::sleep(lasting).await;
        let end = Instant::now();
        self.proxy.set(Fault::Pass);
        let back = self.recovery().await;
        load.wait_for(60).await;
        let log = load.stop().await;
        let worst = log.assert_tolerated();
        let (during, without) = log.during(begin, end);
        println!("{name}: longest {worst:?}; {without} of {during} without redis; redis again after {back:?}");
        assert!(without > 0, "{name}: the fault took effect");
        assert!(back < MAX_RECOVERY, "{name}: {back:?}");
        log
    }

    /// Sends requests with a separate key until Redis decides. Returns the time that took.
    async fn recovery(&self) -> Duration {
        let (store, ample) = (self.store(OnStoreFailure::Deny), rule(1_000_000, 1_000_000));
        eventually("redis decides again", async || ask(&store, "probe", &ample).await.source != Source::Fallback).await
    }
}

/// Clients that send requests at a steady rate, each with one policy.
struct Load {
    ended: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<Entry>>>,
}

impl Load {
    fn start(fixture: &Fixture) -> Self {
        let (ended, asked) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let clients = POLICIES.iter().flat_map(|&(key, policy)| {
            let store = fixture.store(policy);
            let client = {
                let (ended, asked) = (Arc::clone(&ended), Arc::clone(&asked));
                move || tokio::spawn(client(key, store.clone(), Arc::clone(&ended), Arc::clone(&asked)))
            };
            [client(), client()]
        });
        let clients = clients.collect();
        Self { ended, asked, clients }
    }

    /// Waits until `count` further requests are decided.
    async fn wait_for(&self, count: usize) {
        let goal = self.asked.load(SeqCst) + count;
        eventually("requests continue", async || self.asked.load(SeqCst) >= goal).await;
    }

    async fn stop(self) -> Log {
        self.ended.store(true, SeqCst);
        let mut entries = Vec::new();
        for client in self.clients {
            entries.extend(client.await.expect("no client panics"));
        }
        Log::new(entries)
    }
}

async fn client(key: &'static str, store: RedisStore, ended: Arc<AtomicBool>, asked: Arc<AtomicUsize>) -> Vec<Entry> {
    let limit = rule(LIMIT.0, LIMIT.1);
    let mut pace = tokio::time::interval(Duration::from_millis(15));
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut entries = Vec::new();
    while !ended.load(SeqCst) {
        pace.tick().await;
        let sent = Instant::now();
        let verdict = ask(&store, key, &limit).await;
        entries.push(Entry { key, sent, answered: Instant::now(), verdict });
        asked.fetch_add(1, SeqCst);
    }
    entries
}

/// Memory of this process, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

/// Decides one request under a rule that never denies.
async fn decide(store: &impl Store, key: &str) -> Source {
    ask(store, key, &rule(1_000_000, 1_000_000)).await.source
}
