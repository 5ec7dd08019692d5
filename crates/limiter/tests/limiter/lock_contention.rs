//! Commands of a decision under a lock, and contention for it on a healthy server.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Rule, SlidingWindowLog};
use tollgate_limiter::store::redis::{
    Breakers, LockSettings, LockedStore, Operation, RedisClient, RedisSettings, RedisStats,
};
use tollgate_limiter::store::{Check, OnStoreFailure};
use tollgate_limiter::verdict::{Outcome, Source};

use crate::lock::{KEY, decided, hourly, locked, locked_within, retrying, without_scripts};
use crate::round_trips::Monitor;
use crate::support::{ask, eventually, memory};

/// With a lock held by others and a budget that ends during attempts, on a healthy server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contention_is_a_refusal_and_never_a_fallback() {
    let server = without_scripts();
    for on_store_failure in [OnStoreFailure::Local, OnStoreFailure::Allow, OnStoreFailure::Deny] {
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        let settings = RedisSettings { timeout: Duration::from_millis(60), ..RedisSettings::new(server.url()) };
        let stats = Arc::<RedisStats>::default();
        let client =
            RedisClient::start_counting(&settings, &Breakers::default(), Arc::clone(&stats), |_| None).unwrap();
        let lock = LockSettings { connections: NonZeroUsize::new(4).unwrap(), ..retrying() };
        let store = LockedStore::new(client, lock, memory().0, on_store_failure, false).unwrap();
        // The first decision connects.
        eventually("redis decides", async || ask(&store, "warm", &hourly(1)).await.source == Source::Redis).await;
        let failed = || store.stats().failures.by_reason().iter().map(|(_, count)| count).sum::<u64>();
        redis::cmd("SET").arg(format!("{KEY}.lock")).arg("other").exec(&mut server.connection()).unwrap();
        let (before, calls) = (failed(), calls(&stats));
        let verdicts = futures_of(64, || {
            let store = store.clone();
            async move { ask(&store, "k", &hourly(1_000)).await }
        });
        for verdict in verdicts.await {
            assert!(matches!(verdict.outcome, Outcome::StoreUnavailable { .. }), "{on_store_failure:?}: {verdict:?}");
            assert_eq!((verdict.source, verdict.remaining), (Source::Redis, None), "{on_store_failure:?}");
        }
        assert_eq!(failed(), before, "contention is no failure of redis: {:?}", store.stats());
        assert_eq!(self::calls(&stats) - calls, 64, "each decision has its latency");
    }
}

#[tokio::test]
async fn a_log_under_a_lock_is_read_by_commands_and_written_in_one_transaction() {
    let server = without_scripts();
    let store = locked(&server);
    let redis = &mut server.connection();
    let rule = Rule::SlidingWindowLog(SlidingWindowLog::new(2, Duration::from_secs(3_600)).unwrap());
    assert!(ask(&store, "k", &rule).await.is_allowed());
    let read = ["unwatch", "set", "watch", "get", "time", "zrange"];
    for (is_allowed, written) in [(true, &["zadd", "pexpire", "del"][..]), (false, &["del"])] {
        let mut monitor = Monitor::start(&server);
        assert_eq!(ask(&store, "k", &rule).await.is_allowed(), is_allowed);
        let mut sent = monitor.sent(redis);
        let begins =
            sent.windows(read.len()).position(|commands| commands == read).expect("the commands before the decision");
        let transaction = sent.split_off(begins + read.len());
        // The server lists `EXEC` before or after the commands of its transaction.
        assert_eq!(transaction.first().map(String::as_str), Some("multi"), "{transaction:?}");
        let commands: Vec<&str> = transaction[1..].iter().map(String::as_str).filter(|sent| *sent != "exec").collect();
        assert_eq!((&commands[..], transaction.len()), (written, written.len() + 2), "{transaction:?}");
    }
}

/// A list locks the key of its first rule, so it and its second rule alone hold different locks. Writes to that rule fail
/// then, and locks that they leave last longer than the test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_goes_on_under_its_lock_after_a_write_that_failed() {
    let server = without_scripts();
    let lock = LockSettings { ttl: Duration::from_secs(3_600), ..retrying() };
    let [alone, listed] = [(); 2].map(|()| locked_within(&server, Duration::from_secs(20), lock.clone()));
    let decide = async |store: LockedStore, rules: &[(&str, u64)]| {
        let rules: Vec<_> = rules.iter().map(|(scope, limit)| (*scope, hourly(*limit))).collect();
        let check = |(scope, rule)| Check { key: BucketKey { scope, id: b"k" }, rule, cost: 1 };
        let checks: Vec<_> = rules.iter().map(|(scope, rule)| check((*scope, rule))).collect();
        decided(&store, &checks).await
    };
    let both = futures_of(200, || {
        let (alone, listed) = (alone.clone(), listed.clone());
        async move {
            let (one, two) =
                tokio::join!(decide(alone, &[("r", 100)]), decide(listed, &[("r#daily", 1_000), ("r", 100)]));
            [one, two]
        }
    });
    let outcomes: Vec<_> = both.await.into_iter().flatten().map(|verdict| verdict.outcome).collect();
    assert!(!outcomes.iter().any(|outcome| matches!(outcome, Outcome::StoreUnavailable { .. })), "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Allowed).count(), 100);
}

/// Calls in the latency histogram of decisions.
fn calls(stats: &RedisStats) -> u64 {
    stats.latencies_us(Operation::Decide).buckets().iter().sum()
}

async fn futures_of<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    count: usize,
    make: impl Fn() -> F,
) -> Vec<T> {
    let tasks: Vec<_> = (0..count).map(|_| tokio::spawn(make())).collect();
    let mut verdicts = Vec::with_capacity(count);
    for task in tasks {
        verdicts.push(task.await.unwrap());
    }
    verdicts
}
