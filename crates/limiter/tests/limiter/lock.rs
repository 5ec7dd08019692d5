//! Decisions under a lock, on a server that forbids scripts.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Align, FixedWindow, Rule, SlidingWindowCounter, SlidingWindowLog};
use tollgate_limiter::store::redis::{LockSettings, LockedStore, RedisClient, RedisSettings, Retry};
use tollgate_limiter::store::{Check, Decision, OnStoreFailure, Store};
use tollgate_limiter::verdict::{Outcome, Source, Verdict};

use crate::support::{RedisServer, ask, eventually, memory, rule, store};

/// Redis key of `ask`'s bucket `k`.
pub(crate) const KEY: &str = "window.{r.k}";

pub(crate) fn without_scripts() -> RedisServer {
    let renamed = ["EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "SCRIPT", "FUNCTION", "FCALL", "FCALL_RO"];
    let args: Vec<&str> = renamed.iter().flat_map(|command| ["--rename-command", command, ""]).collect();
    RedisServer::start_with(&args)
}

/// Retries every 2 ms until the timeout.
pub(crate) fn retrying() -> LockSettings {
    let retry = Retry::Fixed { delay: Duration::from_millis(2), tries: NonZeroU32::MAX };
    LockSettings { retry, ..LockSettings::default() }
}

pub(crate) fn locked_within(server: &RedisServer, timeout: Duration, lock: LockSettings) -> LockedStore {
    let settings = RedisSettings { timeout, ..RedisSettings::new(server.url()) };
    LockedStore::new(RedisClient::start(&settings).unwrap(), lock, memory().0, OnStoreFailure::Deny, false).unwrap()
}

pub(crate) fn locked(server: &RedisServer) -> LockedStore {
    locked_within(server, Duration::from_secs(20), retrying())
}

fn window(limit: u64, window: Duration) -> Rule {
    Rule::FixedWindow(FixedWindow::new(limit, window, Align::First).unwrap())
}

pub(crate) fn hourly(limit: u64) -> Rule {
    window(limit, Duration::from_secs(3_600))
}

/// A window since 1970, so that a test does not meet its end.
fn counted(limit: u64) -> Rule {
    Rule::SlidingWindowCounter(SlidingWindowCounter::new(limit, Duration::from_secs(100 * 365 * 86_400)).unwrap())
}

fn logged(limit: u64) -> Rule {
    Rule::SlidingWindowLog(SlidingWindowLog::new(limit, Duration::from_secs(100 * 365 * 86_400)).unwrap())
}

pub(crate) async fn decided(store: &impl Store, checks: &[Check<'_>]) -> Verdict {
    match store.decide(checks, &[]) {
        Decision::Ready(verdict) => verdict,
        Decision::Pending(verdict) => verdict.await,
    }
}

#[tokio::test]
async fn decides_without_scripts_and_leaves_no_lock() {
    let server = without_scripts();
    let store = locked(&server);
    let rule = hourly(2);
    let left = [ask(&store, "k", &rule).await, ask(&store, "k", &rule).await].map(|verdict| {
        assert_eq!((verdict.outcome, verdict.source), (Outcome::Allowed, Source::Redis));
        verdict.remaining
    });
    assert_eq!(left, [Some(1), Some(0)]);
    let redis = &mut server.connection();
    let stored = || redis::cmd("GET").arg(KEY).query::<String>(&mut server.connection()).unwrap();
    let before = stored();
    assert!(matches!(ask(&store, "k", &rule).await.outcome, Outcome::Denied { .. }));
    assert_eq!(stored(), before);
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(redis).unwrap();
    assert_eq!(keys, [KEY]);
    let ttl_ms: u64 = redis::cmd("PTTL").arg(KEY).query(redis).unwrap();
    assert!((3_590_000..=3_601_000).contains(&ttl_ms), "{ttl_ms}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stores_of_64_tasks_never_admit_more_than_the_limit() {
    let server = without_scripts();
    let (one, other) = (locked(&server), locked(&server));
    let tasks: Vec<_> = (0..128)
        .map(|n| {
            let store = if n % 2 == 0 { one.clone() } else { other.clone() };
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..3 {
                    let verdict = ask(&store, "k", &hourly(100)).await;
                    assert_eq!(verdict.source, Source::Redis, "{:?}", store.stats());
                    admitted += u64::from(verdict.is_allowed());
                }
                admitted
            })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.unwrap();
    }
    assert_eq!(admitted, 100);
    assert!(one.stats().contended.get() > 0 && one.stats().exhausted.get() == 0, "{:?}", one.stats());
}

#[tokio::test]
async fn a_lock_of_a_dead_holder_expires() {
    let server = without_scripts();
    let redis = &mut server.connection();
    let hold = |redis: &mut redis::Connection, ms: u64| {
        redis::cmd("SET").arg(format!("{KEY}.lock")).arg("dead").arg("PX").arg(ms).exec(redis).unwrap();
    };
    hold(redis, 300);
    let store = locked(&server);
    let before = std::time::Instant::now();
    assert!(ask(&store, "k", &hourly(9)).await.is_allowed());
    assert!(before.elapsed() >= Duration::from_millis(290));
    assert!(store.stats().contended.get() > 0);

    // No decision exceeds the timeout, and a held lock is not an outage.
    hold(redis, 60_000);
    let hasty = locked_within(&server, Duration::from_millis(50), LockSettings::default());
    for _ in 0..8 {
        let verdict = ask(&hasty, "k", &hourly(9)).await;
        assert!(matches!(verdict.outcome, Outcome::StoreUnavailable { .. }), "{verdict:?}");
    }
    // On a busy machine the timeout may end an attempt: it is counted as a timeout.
    assert!(hasty.stats().exhausted.get() > 0);
    assert!(hasty.stats().tries.get() > 8, "pauses fit into the timeout: {:?}", hasty.stats());
    assert_eq!(redis::cmd("GET").arg(format!("{KEY}.lock")).query::<String>(redis).unwrap(), "dead");
}

/// After each read of the store another client writes without the lock; no write may overwrite that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_keys_with_gateways_that_use_scripts() {
    for rule in [hourly(200), counted(200), logged(200), logged(1_001)] {
        both_kinds_of_gateway_admit_the_limit(rule).await;
    }
}

async fn both_kinds_of_gateway_admit_the_limit(rule: Rule) {
    // The last of them is too wide for the number of requests: it takes several tokens each.
    let (limit, cost) = (rule.capacity(), rule.capacity().div_ceil(200));
    let server = RedisServer::start();
    let with_scripts = store(&server.connected_client().await, OnStoreFailure::Deny);
    let under_lock = locked(&server);
    let ask_often = move |store: std::sync::Arc<dyn Store>, rule: Rule| async move {
        let mut admitted = 0;
        for _ in 0..300 {
            let check = Check { key: BucketKey { scope: "r", id: b"k" }, rule: &rule, cost };
            let verdict = match store.decide(&[check], &[]) {
                Decision::Ready(verdict) => verdict,
                Decision::Pending(verdict) => verdict.await,
            };
            assert_ne!(verdict.source, Source::Fallback);
            admitted += u64::from(verdict.is_allowed());
        }
        admitted
    };
    let one = tokio::spawn(ask_often(std::sync::Arc::new(with_scripts), rule.clone()));
    let other = tokio::spawn(ask_often(std::sync::Arc::new(under_lock), rule));
    assert_eq!(one.await.unwrap() + other.await.unwrap(), limit / cost);
}

#[tokio::test]
async fn several_rules_are_decided_all_or_nothing() {
    let server = without_scripts();
    let store = locked(&server);
    let (wide, tight) = (hourly(10), hourly(1));
    let key = |scope| BucketKey { scope, id: b"k" };
    let both = [Check { key: key("a"), rule: &wide, cost: 1 }, Check { key: key("b"), rule: &tight, cost: 1 }];
    let left = |verdict: &Verdict| verdict.per_rule.iter().map(|answer| answer.remaining).collect::<Vec<_>>();
    assert_eq!(left(&decided(&store, &both).await), [9, 0]);
    let denied = decided(&store, &both).await;
    assert_eq!((denied.is_allowed(), denied.rule, left(&denied)), (false, 1, vec![9, 0]));
    let admitted = decided(&store, &both[..1]).await;
    assert_eq!(admitted.remaining, Some(8));
    store.settle(both[0], -2, admitted.counted_at_us);
    let look = Check { cost: 0, ..both[0] };
    eventually("two tokens are returned", async || decided(&store, &[look]).await.remaining == Some(10)).await;
}

#[tokio::test]
async fn unsupported_rules_are_left_to_the_fallback() {
    let mut server = without_scripts();
    let store =
        locked_within(&server, Duration::from_secs(2), LockSettings { connections: NonZeroUsize::MIN, ..retrying() });
    let bucket = rule(1, 1);
    assert!(!LockedStore::supports(&bucket) && LockedStore::supports(&hourly(1)));
    assert!(matches!(ask(&store, "k", &bucket).await.outcome, Outcome::StoreUnavailable { .. }));
    assert!(ask(&store, "k", &hourly(5)).await.is_allowed());
    server.kill();
    for _ in 0..6 {
        assert!(matches!(ask(&store, "k", &hourly(5)).await.outcome, Outcome::StoreUnavailable { .. }));
    }
    assert!(store.stats().failures.by_reason().iter().map(|(_, count)| count).sum::<u64>() == 6, "{:?}", store.stats());
    server.launch();
    eventually("redis decides again", async || ask(&store, "k", &hourly(5)).await.source == Source::Redis).await;
}

#[tokio::test]
async fn a_log_under_a_lock_is_the_sorted_set_of_the_script() {
    let server = without_scripts();
    let store = locked(&server);
    let redis = &mut server.connection();
    let rule = Rule::SlidingWindowLog(SlidingWindowLog::new(5, Duration::from_millis(200)).unwrap());
    let key = BucketKey { scope: "r", id: b"k" };
    let ask = async |cost| decided(&store, &[Check { key, rule: &rule, cost }]).await;
    let first = ask(2).await;
    let second = ask(3).await;
    assert!(second.counted_at_us > first.counted_at_us);
    let Outcome::Denied { retry_after } = ask(1).await.outcome else { panic!("the limit is used up") };
    assert!(retry_after <= Duration::from_millis(200), "{retry_after:?}");
    let entries = |redis: &mut redis::Connection| -> Vec<(String, u64)> {
        let after_windows = 1_u64 << 48;
        redis::cmd("ZRANGEBYSCORE")
            .arg("entries.{r.k}")
            .arg(after_windows)
            .arg("+inf")
            .arg("WITHSCORES")
            .query(redis)
            .unwrap()
    };
    let expected = [("0:2".to_owned(), first.counted_at_us), ("2:3".to_owned(), second.counted_at_us)];
    assert_eq!(entries(redis), expected);
    let ttl_ms: u64 = redis::cmd("PTTL").arg("entries.{r.k}").query(redis).unwrap();
    assert!((200..=1_200).contains(&ttl_ms), "{ttl_ms}");
    eventually("all entries expire", async || ask(0).await.remaining == Some(5)).await;
    let third = ask(4).await;
    assert_eq!(entries(redis), [("5:4".to_owned(), third.counted_at_us)], "a write drops them");
    redis::cmd("ZADD").arg("entries.{r.k}").arg(7).arg("soup").exec(redis).unwrap();
    let fourth = ask(1).await;
    assert_eq!((fourth.remaining, entries(redis).len()), (Some(4), 1), "an invalid log counts as missing");
}

/// Costs, and the corrections of the taken costs.
fn steps() -> impl Strategy<Value = Vec<(u64, i64)>> {
    prop::collection::vec((0u64..5, prop_oneof![3 => Just(0), 1 => -3i64..4]), 1..25)
}

/// With windows so long that the server's clock and the memory store's fixed clock do not matter.
#[test]
fn memory_and_redis_agree_on_every_trace() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = without_scripts();
    let one_at_a_time = LockSettings { connections: NonZeroUsize::MIN, ..retrying() };
    let entered = runtime.enter();
    let store = locked_within(&server, Duration::from_secs(20), one_at_a_time);
    drop(entered);
    let config = ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() };
    let trace = |(limits, kind, steps): (Vec<u64>, usize, Vec<(u64, i64)>)| {
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        let (memory, clock) = memory();
        clock.set(1);
        for (n, (cost, more)) in steps.into_iter().enumerate() {
            let limit = limits[n % limits.len()];
            let rule = [hourly, counted, logged][kind](limit);
            // The memory store's clock stands still, so its log holds all requests in one entry.
            let more = if kind == 2 { more.max(-(cost as i64)) } else { more };
            let check = Check { key: BucketKey { scope: "r", id: b"k" }, rule: &rule, cost };
            let Decision::Ready(expected) = memory.decide(&[check], &[]) else {
                panic!("the memory store decides at once")
            };
            let verdict = runtime.block_on(decided(&store, &[check]));
            let kind = |verdict: &Verdict| (std::mem::discriminant(&verdict.outcome), verdict.remaining);
            prop_assert_eq!(kind(&verdict), kind(&expected), "{:?} {:?}", verdict, store.stats());
            if more != 0 && verdict.is_allowed() {
                memory.settle(check, more, expected.counted_at_us);
                let look = Check { cost: 0, ..check };
                let looked = runtime.block_on(async {
                    store.settle(check, more, verdict.counted_at_us);
                    // The correction takes the only connection before the next decision.
                    tokio::task::yield_now().await;
                    decided(&store, &[look]).await
                });
                let Decision::Ready(expected) = memory.decide(&[look], &[]) else {
                    panic!("the memory store decides at once")
                };
                prop_assert_eq!(looked.remaining, expected.remaining);
            }
        }
        Ok(())
    };
    TestRunner::new(config).run(&(prop::collection::vec(1u64..30, 1..3), 0usize..3, steps()), trace).unwrap();
}
