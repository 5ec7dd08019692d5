//! Credentials and permissions (ACL).

mod missing;

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::concurrency::redis::{RedisSlots, Releases};
use tollgate_limiter::concurrency::{Acquisition, Concurrency, MemorySlots, SlotStore};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::metering::{Counts, Dimensions, FlushSettings, Flusher, Ledger, Meter, MeterSettings, Period};
use tollgate_limiter::plan::{PlanLookup, PlanSource};
use tollgate_limiter::rule::{
    Align, FixedWindow, LeakyBucket, Quota, Rule, SlidingWindowCounter, SlidingWindowLog, TokenBucket,
};
use tollgate_limiter::store::redis::{LockSettings, LockedStore, Login, RedisPlans, RedisSettings, RedisStore};
use tollgate_limiter::store::{Check, Decision, OnStoreFailure, Store};
use tollgate_limiter::verdict::{Source, Verdict};

use crate::support::{RedisServer, ask, connected, eventually, memory, store};

const HOUR: Duration = Duration::from_secs(3_600);

/// Permissions for each feature, as in docs/operations/acl.md: commands, and patterns of keys.
const PERMISSIONS: [(&str, &str, &str); 12] = [
    ("always", "eval evalsha subscribe", ""),
    ("notices", "publish", ""),
    ("token-bucket", "time mget setex", "request_rate_limiter.*"),
    ("gcra", "time get set", "gcra.*"),
    ("fixed-window", "time get set", "window.*"),
    ("sliding-window-counter", "time get set", "counter.*"),
    (
        "sliding-window-log",
        "time zadd zcard zcount zrange zrangebyscore zrank zrevrange zremrangebyrank pexpire",
        "entries.*",
    ),
    ("leaky-bucket", "time get set", "leaky.*"),
    ("quota", "time get set", "quota.*"),
    ("limits", "time get set", "rules.*"),
    (
        "ConcurrencyLimiter",
        "time zadd zcount zscore zrangebyscore zrevrange zrem zremrangebyrank pexpire",
        "concurrency_limiter.*",
    ),
    ("RequestCounter", "get set hget hincrby expire ttl", "request_counter.*"),
];

const PASSWORD: &str = "of-the-user";

/// A server with a user that has the permissions of `things` only.
fn server_for(things: &[&str]) -> (RedisServer, RedisSettings) {
    let server = RedisServer::start();
    let needed = PERMISSIONS.iter().filter(|(thing, ..)| *thing == "always" || things.contains(thing));
    let words: BTreeSet<String> = needed
        .flat_map(|(_, commands, keys)| {
            let commands = commands.split(' ').map(|command| format!("+{command}"));
            commands.chain(keys.split_terminator(' ').map(|pattern| format!("~{pattern}")))
        })
        .collect();
    grant(&server, &words.iter().map(String::as_str).chain(["&tollgate.returned"]).collect::<Vec<_>>());
    let settings = settings(server.url());
    (server, settings)
}

fn grant(server: &RedisServer, words: &[&str]) {
    let password = format!(">{PASSWORD}");
    server.query::<()>(&[&["ACL", "SETUSER", "gateway", "on", &password], words].concat()).unwrap();
}

fn settings(url: String) -> RedisSettings {
    let login = Login { username: Some("gateway".into()), password: Some(PASSWORD.into()) };
    RedisSettings { login, timeout: Duration::from_secs(20), ..RedisSettings::new(url) }
}

/// Asserts that no command was refused, and that no permission was unused.
fn assert_exact_permissions(server: &RedisServer, things: &[&str]) {
    assert_eq!(refused(server), BTreeSet::new(), "{things:?}");
    let stats: String = server.query(&["INFO", "commandstats"]).unwrap();
    for (thing, commands, _) in PERMISSIONS.iter().filter(|(thing, ..)| *thing == "always" || things.contains(thing)) {
        let unused = commands.split(' ').filter(|command| !stats.contains(&format!("cmdstat_{command}:")));
        assert_eq!(unused.collect::<Vec<_>>(), Vec::<&str>::new(), "{thing}");
    }
}

/// Refused commands.
fn refused(server: &RedisServer) -> BTreeSet<String> {
    let log: Vec<HashMap<String, redis::Value>> = server.query(&["ACL", "LOG"]).unwrap();
    let objects = log.into_iter().map(|mut entry| redis::from_redis_value::<String>(entry.remove("object").unwrap()));
    objects.map(Result::unwrap).collect()
}

async fn decided(store: &RedisStore, checks: &[Check<'_>]) -> Verdict {
    let Decision::Pending(verdict) = store.decide(checks, &[]) else { panic!("redis is called") };
    let verdict = verdict.await;
    assert_eq!(verdict.source, Source::Redis, "{checks:?}");
    verdict
}

fn key(scope: &str) -> BucketKey<'_> {
    BucketKey { scope, id: b"k" }
}

/// Admits, denies, returns and takes more, so that every part of a script runs.
async fn work_out(store: &RedisStore, rules: &[(&str, Rule)]) {
    let checks: Vec<Check<'_>> = rules.iter().map(|(scope, rule)| Check { key: key(scope), rule, cost: 1 }).collect();
    let first = decided(store, &checks).await;
    for _ in 0..6 {
        decided(store, &checks).await;
    }
    for check in checks {
        for more in [-1, -1, -1, 1, -1] {
            assert!(store.settle_confirmed(check, more, first.counted_at_us).await.is_ok(), "{check:?}");
        }
        for cost in [3, 1_000] {
            decided(store, &[Check { cost, ..check }]).await;
        }
    }
}

fn rules() -> Vec<(&'static str, Rule)> {
    vec![
        ("token-bucket", Rule::TokenBucket(TokenBucket::new(1, HOUR, 3).unwrap())),
        ("gcra", Rule::Gcra(TokenBucket::new(1, HOUR, 3).unwrap())),
        ("fixed-window", Rule::FixedWindow(FixedWindow::new(3, HOUR, Align::First).unwrap())),
        ("sliding-window-counter", Rule::SlidingWindowCounter(SlidingWindowCounter::new(3, HOUR).unwrap())),
        ("sliding-window-log", Rule::SlidingWindowLog(SlidingWindowLog::new(6, HOUR).unwrap())),
        (
            "leaky-bucket",
            Rule::LeakyBucket(
                LeakyBucket::new(1, HOUR).unwrap().with_max_wait(HOUR * 3).unwrap().with_max_queue(9).unwrap(),
            ),
        ),
        ("quota", Rule::Quota(Quota::new(3).unwrap())),
    ]
}

#[tokio::test]
async fn each_algorithm_needs_exactly_these_permissions() {
    for (algorithm, rule) in rules() {
        let (server, settings) = server_for(&[algorithm, "notices"]);
        let store = store(&connected(&settings).await, OnStoreFailure::Deny).denial_cache(false);
        work_out(&store, &[("r", rule)]).await;
        assert_exact_permissions(&server, &[algorithm, "notices"]);
        let other = match algorithm {
            "gcra" => rules().remove(2).1,
            _ => rules().remove(1).1,
        };
        assert_eq!(ask(&store, "k", &other).await.source, Source::Fallback, "{algorithm} with the keys of another");
    }
}

#[tokio::test]
async fn a_list_needs_the_permissions_of_its_rules() {
    let named = ["r#token-bucket", "r#gcra", "r#window", "r#counter", "r#log", "r#leaky", "r#quota"];
    let (server, settings) = server_for(&["limits", "sliding-window-log", "quota", "notices"]);
    let store = store(&connected(&settings).await, OnStoreFailure::Deny).denial_cache(false);
    let rules: Vec<_> = named.into_iter().zip(rules()).map(|(scope, (_, rule))| (scope, rule)).collect();
    work_out(&store, &rules).await;
    assert_exact_permissions(&server, &["limits", "notices"]);
}

#[tokio::test]
async fn slots_need_exactly_these_permissions() {
    let (server, settings) = server_for(&["ConcurrencyLimiter"]);
    let rule = Concurrency::new(1).unwrap().with_ttl(Duration::from_millis(300)).unwrap();
    let releases = Arc::<Releases>::default();
    let local = MemorySlots::new(Arc::default(), rule, Arc::default());
    let slots = RedisSlots::new(connected(&settings).await, local, OnStoreFailure::Deny, Arc::clone(&releases));
    let acquire = async || {
        let Acquisition::Pending(acquired) = slots.acquire(key("r")) else { panic!("redis is called") };
        acquired.await
    };
    // An ended lease, for the next call to remove.
    server.query::<i64>(&["ZADD", "concurrency_limiter.{r.k}.leases", "1", "ended"]).unwrap();
    let held = acquire().await;
    assert!(held.slot.is_some() && acquire().await.slot.is_none());
    let renewed = || server.query::<f64>(&["ZSCORE", "concurrency_limiter.{r.k}.leases", &member(&server)]).unwrap();
    let first = renewed();
    eventually("the lease is renewed", async || renewed() > first).await;
    drop(held);
    releases.settled(Duration::from_secs(10)).await;
    drop(acquire().await);
    releases.settled(Duration::from_secs(10)).await;
    assert_exact_permissions(&server, &["ConcurrencyLimiter"]);
}

fn member(server: &RedisServer) -> String {
    server.query::<Vec<String>>(&["ZRANGE", "concurrency_limiter.{r.k}.leases", "0", "-1"]).unwrap().remove(0)
}

#[tokio::test]
async fn counts_need_exactly_these_permissions() {
    let (server, settings) = server_for(&["RequestCounter"]);
    let (ledger, meter) = metering();
    let mut flusher = flusher(&ledger, &settings);
    for n in 1..=2 {
        meter.count(meter.name(b"k"), "GET", 200, &Counts { requests: 1, bytes_in: 3, bytes_out: 4 });
        eventually("counts arrive", async || {
            flusher.tick().await;
            ledger.status().flushed == n
        })
        .await;
    }
    assert_exact_permissions(&server, &["RequestCounter"]);
}

fn metering() -> (Arc<Ledger>, Meter) {
    let ledger = Arc::new(Ledger::new(100));
    let meter = Meter::new(
        Arc::clone(&ledger),
        &MeterSettings {
            scope: "r".into(),
            route: "r".into(),
            dimensions: Dimensions { route: true, method: true, status: true },
            period: Period::Day,
            ttl: HOUR,
            hash_ids: false,
        },
    );
    (ledger, meter)
}

fn flusher(ledger: &Arc<Ledger>, settings: &RedisSettings) -> Flusher {
    let flush = FlushSettings {
        every: Duration::from_millis(2),
        retry_queue: NonZeroUsize::MIN,
        timeout: Duration::from_secs(20),
    };
    let mut flusher = Flusher::new(Arc::clone(ledger), flush).unwrap();
    flusher.send_to(Some(settings)).unwrap();
    flusher
}

#[tokio::test]
async fn plans_need_their_hash() {
    let (server, settings) = server_for(&[]);
    grant(&server, &["+hget", "~plans"]);
    server.query::<()>(&["HSET", "plans", "k", "gold"]).unwrap();
    let plans = RedisPlans::new(connected(&settings).await, "plans".into(), HOUR);
    let PlanLookup::Pending(plan) = plans.plan(b"k") else { panic!("redis is called") };
    assert_eq!(plan.await.as_deref(), Some("gold"));
    assert_eq!(refused(&server), BTreeSet::new());
}

/// Without any permission for scripts.
#[tokio::test]
async fn locks_need_no_script_permissions() {
    let server = RedisServer::start();
    grant(&server, &["+set", "+get", "+del", "+time", "+watch", "+unwatch", "+multi", "+exec", "+ping"]);
    grant(&server, &["~window.*", "~counter.*", "+subscribe", "&tollgate.returned"]);
    let client = connected(&settings(server.url())).await;
    let lock = LockSettings::default();
    let locked = LockedStore::new(Arc::clone(&client), lock, memory().0, OnStoreFailure::Deny, false).unwrap();
    for (_, rule) in rules().drain(2..4) {
        for left in [Some(2), Some(1), Some(0), Some(0)] {
            let verdict = ask(&locked, "k", &rule).await;
            assert_eq!((verdict.remaining, verdict.source), (left, Source::Redis));
        }
    }
    assert_eq!(refused(&server), BTreeSet::new());
}
