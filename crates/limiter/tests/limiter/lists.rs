//! Several rules in Redis: one script, one round trip.

use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{
    Align, FixedWindow, LeakyBucket, Quota, Rule, SlidingWindowCounter, SlidingWindowLog, TokenBucket,
};
use tollgate_limiter::store::memory::{Clock, ManualClock};
use tollgate_limiter::store::{Check, Decision, MAX_CHECKS, OnStoreFailure, Store};
use tollgate_limiter::verdict::{Source, Verdict};

use crate::support::{RedisServer, store};

async fn ask(store: &impl Store, rules: &[Rule], cost: u64) -> Verdict {
    let scopes: Vec<String> = (0..rules.len()).map(|n| format!("r#rule{n}")).collect();
    let key = |n: usize| BucketKey { scope: &scopes[n], id: b"me" };
    let checks: Vec<_> = rules.iter().enumerate().map(|(n, rule)| Check { key: key(n), rule, cost }).collect();
    match store.decide(&checks, &[]) {
        Decision::Ready(verdict) => verdict,
        Decision::Pending(verdict) => verdict.await,
    }
}

fn left(verdict: &Verdict) -> Vec<u64> {
    verdict.per_rule.iter().map(|answer| answer.remaining).collect()
}

fn every_kind(limit: u64) -> [Rule; 6] {
    let hour = Duration::from_secs(3_600);
    let bucket = TokenBucket::new(limit, hour, limit).unwrap();
    [
        Rule::TokenBucket(bucket.clone()),
        Rule::Gcra(bucket),
        Rule::FixedWindow(FixedWindow::new(limit, hour, Align::First).unwrap()),
        Rule::SlidingWindowLog(SlidingWindowLog::new(limit, hour).unwrap()),
        Rule::SlidingWindowCounter(SlidingWindowCounter::new(limit, hour).unwrap()),
        Rule::Quota(Quota::new(limit).unwrap()),
    ]
}

#[tokio::test]
async fn rules_of_all_algorithms_are_decided_all_or_nothing() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = store(&client, OnStoreFailure::Deny);
    for tight in 0..6 {
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        let mut rules = every_kind(10);
        rules[tight] = every_kind(2)[tight].clone();
        let verdict = ask(&store, &rules, 1).await;
        assert_eq!(verdict.source, Source::Redis, "{:?}", client.status());
        let expected =
            |tight_left, left| (0..6).map(|n| if n == tight { tight_left } else { left }).collect::<Vec<_>>();
        assert_eq!((verdict.is_allowed(), verdict.rule, left(&verdict)), (true, tight, expected(1, 9)));
        assert_eq!(left(&ask(&store, &rules, 1).await), expected(0, 8));
        for _ in 0..3 {
            let denied = ask(&store, &rules, 1).await;
            assert_eq!((denied.is_allowed(), denied.rule, left(&denied)), (false, tight, expected(0, 8)));
        }
    }
}

#[tokio::test]
async fn the_largest_list_is_one_call_of_one_script() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = store(&client, OnStoreFailure::Deny);
    for kind in every_kind(10) {
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        let rules = vec![kind; MAX_CHECKS];
        let verdict = ask(&store, &rules, 1).await;
        assert_eq!((verdict.source, left(&verdict)), (Source::Redis, vec![9; MAX_CHECKS]), "{:?}", client.status());
    }
}

#[tokio::test]
async fn rules_of_other_lists_stay_in_the_shared_string() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = store(&client, OnStoreFailure::Deny);
    let [_, gcra, window, ..] = every_kind(10);
    let ask = async |names: &[&str]| {
        let scopes: Vec<String> = names.iter().map(|name| format!("r#{name}")).collect();
        let rule = |name: &str| if name.starts_with('g') { &gcra } else { &window };
        let checks: Vec<_> = names
            .iter()
            .zip(&scopes)
            .map(|(name, scope)| Check { key: BucketKey { scope, id: b"me" }, rule: rule(name), cost: 1 })
            .collect();
        let Decision::Pending(verdict) = store.decide(&checks, &[]) else { panic!("redis is reachable") };
        let verdict = verdict.await;
        assert_eq!(verdict.source, Source::Redis, "{:?}", client.status());
        if names.len() == 1 { vec![verdict.remaining.unwrap()] } else { left(&verdict) }
    };
    assert_eq!(ask(&["g-a", "w_b"]).await, [9, 9]);
    assert_eq!(ask(&["w_b", "gc"]).await, [8, 9]);
    assert_eq!(ask(&["gc"]).await, [8], "a single rule finds the state that the list wrote");
    assert_eq!(ask(&["g-a", "w_b", "gc", "wd"]).await, [8, 7, 7, 9]);
    let redis = &mut server.connection();
    let names: Vec<String> = redis::cmd("KEYS").arg("*").query(redis).unwrap();
    assert_eq!(names, ["rules.{r.me}"]);
    let expires_in_ms: i64 = redis::cmd("PTTL").arg(&names[0]).query(redis).unwrap();
    assert!((3_599_000..=3_602_000).contains(&expires_in_ms), "as long as the longest window: {expires_in_ms}");
    let check = Check { key: BucketKey { scope: "r#w_b", id: b"me" }, rule: &window, cost: 0 };
    store.settle(check, -2, 1 << 52);
    let look = async || match store.decide(&[check], &[]) {
        Decision::Ready(verdict) => verdict,
        Decision::Pending(verdict) => verdict.await,
    };
    crate::support::eventually("the correction arrives", async || look().await.remaining == Some(9)).await;
}

/// A string of several rules keeps the states of rules that calls do not name, as long as they matter and no longer.
#[tokio::test]
async fn unused_rules_leave_the_shared_string_when_their_states_expire() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let clock = Arc::new(ManualClock::default());
    clock.set(1_763_700_000_000_000);
    let store = store(&client, OnStoreFailure::Deny).with_clock(clock.clone());
    let window = |secs| Rule::FixedWindow(FixedWindow::new(9, Duration::from_secs(secs), Align::First).unwrap());
    let (short, long) = (window(60), window(600));
    let ask = async |names: [&'static str; 2], rule: &Rule| {
        let checks = names.map(|scope| Check { key: BucketKey { scope, id: b"me" }, rule, cost: 1 });
        let Decision::Pending(verdict) = store.decide(&checks, &[]) else { panic!("redis is reachable") };
        left(&verdict.await)
    };
    let redis = &mut server.connection();
    let mut stored = || redis::cmd("GET").arg("rules.{r.me}").query::<String>(redis).unwrap();
    assert_eq!(ask(["r#a", "r#b"], &short).await, [8, 8]);
    for seconds in 1..=2 {
        assert_eq!(ask(["r#c", "r#d"], &long).await, [9 - seconds; 2]);
        let all = stored();
        assert!(all.contains("window_a@") && all.contains("window_b@"), "{all}");
        clock.set(clock.now_us() + 1_000_000);
    }
    assert_eq!(ask(["r#b", "r#c"], &short).await, [7, 6], "found in the string");
    assert!(stored().contains("window_a@") && stored().contains("window_d@"), "{}", stored());
    clock.set(clock.now_us() + 59_000_000);
    assert_eq!(ask(["r#c", "r#d"], &long).await, [5, 6], "both windows still count");
    let rest = stored();
    assert!(!rest.contains("window_a"), "{rest}");
}

/// One rule of each algorithm.
fn of_each_algorithm() -> Vec<Rule> {
    let hour = Duration::from_secs(3_600);
    let pace = LeakyBucket::new(10, Duration::from_secs(1))
        .unwrap()
        .with_max_wait(hour)
        .unwrap()
        .with_max_queue(100)
        .unwrap()
        .with_warm_up(hour)
        .unwrap();
    every_kind(100).into_iter().chain([Rule::LeakyBucket(pace)]).collect()
}

#[tokio::test]
async fn every_list_of_six_fits_into_one_script() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = store(&client, OnStoreFailure::Deny);
    let rules = of_each_algorithm();
    let scopes: Vec<String> = (0..MAX_CHECKS).map(|n| format!("r#rule{n}")).collect();
    // Rules with one key id, and with one each; six of one algorithm, and each pair of algorithms in both orders.
    for (first, second) in (0..rules.len()).flat_map(|first| (0..rules.len()).map(move |second| (first, second))) {
        for (share, ids) in [(3, ["k"; 6]), (1, ["a", "b", "c", "d", "e", "f"]), (5, ["a", "b", "c", "d", "e", "f"])] {
            let check = |n: usize| Check {
                key: BucketKey { scope: &scopes[n], id: ids[n].as_bytes() },
                rule: &rules[if n < share { first } else { second }],
                cost: 0,
            };
            let checks: Vec<_> = (0..MAX_CHECKS).map(check).collect();
            let Decision::Pending(verdict) = store.decide(&checks, &[]) else { panic!("redis is reachable") };
            assert_eq!(verdict.await.source, Source::Redis, "{first} and {second}: {:?}", client.status());
        }
    }
}

#[tokio::test]
async fn rules_with_one_name_and_different_algorithms_keep_separate_states() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = store(&client, OnStoreFailure::Deny);
    let ask = async |rule: &Rule| {
        let check = |scope| Check { key: BucketKey { scope, id: b"me" }, rule, cost: 1 };
        let Decision::Pending(verdict) = store.decide(&[check("r#api"), check("r#x")], &[]) else {
            panic!("redis is reachable")
        };
        left(&verdict.await)[0]
    };
    let rules = of_each_algorithm();
    let mut first = Vec::new();
    for rule in &rules[1..6] {
        first.push(ask(rule).await);
    }
    assert_eq!(first, [99; 5], "each has a state of its own");
    assert_eq!(ask(&rules[1]).await, 98, "the spent tokens are still counted");
}
