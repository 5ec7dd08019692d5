//! Failovers under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::redis::{RedisSettings, RedisStore};
use tollgate_limiter::verdict::Source;
use tollgate_test_support::{MASTER, Sentinels};

use super::{connected, nodes, script_calls, settings};
use crate::support::{ask, eventually, rule, store};

const TIMEOUT: Duration = Duration::from_millis(300);

/// Addition to [`TIMEOUT`] for a slow machine.
const LONGEST: Duration = Duration::from_secs(3);

const BURST: u64 = 200;

/// Sequential requests for one key, until dropped.
struct Load {
    admitted: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    task: JoinHandle<Duration>,
    since: Instant,
}

impl Load {
    fn start(store: RedisStore) -> Self {
        let (admitted, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (count, end) = (Arc::clone(&admitted), Arc::clone(&stop));
        let task = tokio::spawn(async move {
            let mut longest = Duration::ZERO;
            while !end.load(SeqCst) {
                let start = Instant::now();
                let verdict = ask(&store, "load", &limit()).await;
                longest = longest.max(start.elapsed());
                count.fetch_add(u64::from(verdict.is_allowed()), SeqCst);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            longest
        });
        Self { admitted, stop, task, since: Instant::now() }
    }

    /// A failover may lose writes that replicas did not receive: at most a burst. The admitted requests stay bounded.
    async fn check(self) {
        self.stop.store(true, SeqCst);
        let longest = self.task.await.unwrap();
        assert!(longest < LONGEST, "a request waited for {longest:?}");
        let most = 2 * BURST + 10 * (self.since.elapsed().as_secs() + 1);
        let admitted = self.admitted.load(SeqCst);
        assert!((1..=most).contains(&admitted), "{admitted} were admitted, and {most} may have been");
    }
}

fn limit() -> Rule {
    rule(10, BURST)
}

async fn sentinels() -> Sentinels {
    tokio::task::spawn_blocking(Sentinels::start).await.unwrap()
}

async fn loaded(sentinels: &Sentinels) -> (RedisStore, Load) {
    let settings = RedisSettings { timeout: TIMEOUT, ..settings(MASTER, nodes(sentinels)) };
    let store = store(&connected(&settings).await, OnStoreFailure::Deny);
    let load = Load::start(store.clone());
    eventually("redis decides", async || load.admitted.load(SeqCst) > 0).await;
    (store, load)
}

/// Waits until Redis decides again, at most three seconds after the failover.
async fn follows(sentinels: Sentinels, store: &RedisStore, old: usize, lost: Instant) -> (Sentinels, usize) {
    let (sentinels, new) = tokio::task::spawn_blocking(move || {
        let new = sentinels.other_primary(old).0;
        (sentinels, new)
    })
    .await
    .unwrap();
    let named = lost.elapsed();
    eventually("the new primary decides", async || {
        let decided = ask(store, "probe", &rule(1_000_000, 1_000_000)).await.source == Source::Redis;
        decided && script_calls(&sentinels.data[new]) > 0
    })
    .await;
    let took = lost.elapsed();
    eprintln!("the sentinels agreed after {named:?}, redis decided again after {took:?}");
    assert!(took < named + Duration::from_secs(3), "{took:?}, {named:?}");
    (sentinels, new)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_primary_is_replaced() {
    let mut sentinels = sentinels().await;
    let (store, load) = loaded(&sentinels).await;
    let lost = Instant::now();
    sentinels.data[0].kill();
    let (_sentinels, _) = follows(sentinels, &store, 0, lost).await;
    load.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_primary_is_replaced_and_gets_no_writes_when_it_resumes() {
    let sentinels = sentinels().await;
    let (store, load) = loaded(&sentinels).await;
    let lost = Instant::now();
    sentinels.data[0].freeze();
    let (sentinels, new) = follows(sentinels, &store, 0, lost).await;
    let old = &sentinels.data[0];
    old.thaw();
    assert_eq!(old.info("role"), "master", "it has not been demoted yet");
    // Commands in flight when it froze have arrived by now.
    let (before, elsewhere) = (script_calls(old), script_calls(&sentinels.data[new]));
    eventually("decisions continue", async || script_calls(&sentinels.data[new]) > elsewhere + 100).await;
    assert_eq!(script_calls(old), before);
    load.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manual_failover_and_the_loss_of_all_sentinels_cost_little() {
    let sentinels = sentinels().await;
    let (store_of_load, load) = loaded(&sentinels).await;
    let patient = store(&connected(&settings(MASTER, nodes(&sentinels))).await, OnStoreFailure::Deny);
    let start = Instant::now();
    let ordered = tokio::task::spawn_blocking(move || {
        sentinels.failover();
        sentinels
    });
    let (mut sentinels, _) = follows(ordered.await.unwrap(), &store_of_load, 0, start).await;

    sentinels.kill_sentinels();
    for _ in 0..200 {
        assert_eq!(ask(&patient, "probe", &rule(1_000_000, 1_000_000)).await.source, Source::Redis);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    load.check().await;
}
