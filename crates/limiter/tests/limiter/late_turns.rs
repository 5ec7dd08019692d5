//! Turns of a leaky bucket among gateways whose replies are late.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use redis::Connection;
use tokio::time::Instant;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Align, FixedWindow, LeakyBucket, Rule};
use tollgate_limiter::store::redis::{RedisSettings, RedisStore};
use tollgate_limiter::store::{Check, OnStoreFailure, Store};
use tollgate_limiter::verdict::Source;
use tollgate_test_support::{Fault, FaultProxy};

use crate::model::answer;
use crate::support::{RedisServer, connected, eventually, seconds, store};

const TEXT: &str = include_str!("../../lua/leaky_bucket.lua");
const START_US: u64 = 1_763_700_000_000_000;
const INTERVAL: Duration = Duration::from_millis(50);
const LATE: Duration = Duration::from_millis(90);

/// Calls the script for `interval_us`, a wait of at most 10 s and 50 places. `last` is the lead, or the returned turn.
fn eval(redis: &mut Connection, interval_us: u64, now_us: u64, cost: &str, last: u64) -> (i64, i64, i64, i64, u64) {
    eval_on(redis, "k", interval_us, now_us, cost, last)
}

fn eval_on(
    redis: &mut Connection,
    key: &str,
    interval_us: u64,
    now_us: u64,
    cost: &str,
    last: u64,
) -> (i64, i64, i64, i64, u64) {
    let args = [&interval_us.to_string(), "10000000", &seconds(now_us), cost, "50", "0", &last.to_string()];
    redis::cmd("EVAL").arg(TEXT).arg(1).arg(key).arg(&args).query(redis).unwrap()
}

#[test]
fn a_late_caller_gets_a_turn_after_its_reply_and_leaves_the_time_before_to_others() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let turn = |redis: &mut Connection, lead| eval(redis, 50_000, START_US, "1", lead).4 - START_US;
    assert_eq!(turn(redis, 120_000), 120_000);
    assert_eq!([turn(redis, 0), turn(redis, 0)], [0, 50_000], "two turns fit before it");
    assert_eq!([turn(redis, 0), turn(redis, 120_000)], [170_000, 220_000]);
    // 50 places behind the lead.
    let denied = (0..60).map(|_| eval(redis, 50_000, START_US, "1", 120_000)).find(|reply| reply.0 == 0).unwrap();
    assert_eq!((denied.2, denied.4), (170_000, START_US), "a caller without a lead waits longer");
}

#[test]
fn turns_of_callers_with_any_lead_never_overlap() {
    let server = RedisServer::start();
    let redis = std::cell::RefCell::new(server.connection());
    let step = (
        prop_oneof![Just(0u64), 0..20_000u64, 0..300_000u64],
        prop_oneof![Just(0u64), 0..200_000u64],
        1..4u64,
        0..8usize,
    );
    let config = ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() };
    let run = |interval_us: u64, steps: Vec<(u64, u64, u64, usize)>| {
        let redis = &mut redis.borrow_mut();
        redis::cmd("DEL").arg("k").exec(redis).unwrap();
        let (mut now_us, mut turns) = (START_US, Vec::<(u64, u64)>::new());
        for (elapsed_us, lead_us, cost, leaves) in steps {
            now_us += elapsed_us;
            if leaves == 0 {
                // The request with the last turn leaves, if it has not started.
                if let Some((turn_us, to_us)) = turns.pop_if(|(turn_us, _)| *turn_us > now_us) {
                    let cost = (to_us - turn_us) / interval_us;
                    eval(redis, interval_us, now_us, &format!("-{cost}"), turn_us);
                }
                continue;
            }
            let (allowed, _, wait_us, _, turn_us) = eval(redis, interval_us, now_us, &cost.to_string(), lead_us);
            if allowed == 1 {
                prop_assert!(turn_us >= now_us + lead_us && wait_us as u64 == turn_us - now_us);
                let to_us = turn_us + cost * interval_us;
                let overlaps = turns.iter().find(|(from_us, until_us)| turn_us < *until_us && *from_us < to_us);
                prop_assert!(overlaps.is_none(), "{turn_us} to {to_us} beside {overlaps:?}");
                turns.push((turn_us, to_us));
            } else if wait_us >= 0 {
                let retry = |redis: &mut Connection, after_us: u64, lead_us| {
                    redis::cmd("COPY").arg(&["k", "retried", "REPLACE"]).exec(redis).unwrap();
                    eval_on(redis, "retried", interval_us, now_us + after_us, &cost.to_string(), lead_us).0
                };
                let wait_us = wait_us as u64;
                prop_assert_eq!([retry(redis, wait_us, 0), retry(redis, wait_us, lead_us)], [1, 1]);
                prop_assert!(wait_us <= lead_us || retry(redis, wait_us - lead_us - 1, lead_us) == 0);
            }
        }
        Ok(())
    };
    let input = (1_000u64..100_000, prop::collection::vec(step, 1..60));
    TestRunner::new(config).run(&input, |(interval_us, steps)| run(interval_us, steps)).unwrap();
}

fn queue() -> Rule {
    Rule::LeakyBucket(
        LeakyBucket::new(20, Duration::from_secs(1))
            .unwrap()
            .with_max_wait(Duration::from_secs(30))
            .unwrap()
            .with_max_queue(200)
            .unwrap(),
    )
}

/// A queue without places: one request in ten seconds.
fn no_queue() -> Rule {
    Rule::LeakyBucket(
        LeakyBucket::new(1, Duration::from_secs(10))
            .unwrap()
            .with_max_wait(Duration::ZERO)
            .unwrap()
            .with_max_queue(0)
            .unwrap(),
    )
}

fn window() -> Rule {
    Rule::FixedWindow(FixedWindow::new(100, Duration::from_secs(3_600), Align::First).unwrap())
}

/// Checks of one key under `rules`, each in a scope of its own.
fn checks(rules: &[Rule]) -> Vec<Check<'_>> {
    let check = |(scope, rule)| Check { key: BucketKey { scope, id: b"k" }, rule, cost: 1 };
    ["r#a", "r#b", "r#c"].into_iter().zip(rules).map(check).collect()
}

/// Asks `requests` times at once, and returns the starts.
async fn starts(store: RedisStore, requests: usize, rules: &[Rule]) -> Vec<Instant> {
    let asked: Vec<_> = (0..requests)
        .map(|_| {
            let (store, rules) = (store.clone(), rules.to_vec());
            tokio::spawn(async move {
                let verdict = answer(store.decide(&checks(&rules), &[])).await;
                assert!(verdict.source == Source::Redis && verdict.is_allowed(), "{verdict:?}");
                Instant::now() + verdict.delay
            })
        })
        .collect();
    let mut starts = Vec::new();
    for start in asked {
        starts.push(start.await.unwrap());
    }
    starts
}

fn least_gap(mut starts: Vec<Instant>) -> Duration {
    starts.sort_unstable();
    starts.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap()
}

/// A server, and stores with a connection of their own and one through the proxy.
async fn two_gateways() -> (RedisServer, FaultProxy, [RedisStore; 2]) {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(([127, 0, 0, 1], server.port).into());
    let settings = |url: &str| RedisSettings { timeout: Duration::from_secs(20), ..RedisSettings::new(url) };
    let clients = [connected(&settings(&server.url())).await, connected(&settings(&proxy.url())).await];
    let stores = clients.map(|client| store(&client, OnStoreFailure::Deny));
    (server, proxy, stores)
}

async fn beside_a_late_gateway(rules: &[Rule], fault: impl Fn(&FaultProxy)) -> Vec<Instant> {
    let (_server, proxy, [direct, late]) = two_gateways().await;
    fault(&proxy);
    let (mut all, of_late) = tokio::join!(
        async {
            let mut all = Vec::new();
            for _ in 0..6 {
                all.extend(starts(direct.clone(), 1, rules).await);
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
            all
        },
        async {
            let mut all = starts(late.clone(), 3, rules).await;
            for _ in 0..3 {
                all.extend(starts(late.clone(), 1, rules).await);
            }
            all
        }
    );
    all.extend(of_late);
    // Each request is counted once, whatever turns it missed.
    for (at, rule) in rules.iter().enumerate().filter(|(_, rule)| matches!(rule, Rule::FixedWindow(_))) {
        let look = Check { cost: 0, ..checks(rules)[at] };
        assert_eq!(answer(direct.decide(&[look], &[])).await.remaining, Some(88), "{rule:?}");
    }
    all
}

/// The gateway does not know yet that its replies are late: a missed turn is taken again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_with_late_replies_starts_no_request_beside_anothers() {
    let starts = beside_a_late_gateway(&[queue()], |proxy| proxy.set(Fault::Delay(LATE))).await;
    let gap = least_gap(starts);
    assert!(gap >= INTERVAL * 4 / 5, "{gap:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_late_reply_starts_no_request_beside_anothers() {
    let starts = beside_a_late_gateway(&[queue()], |proxy| proxy.once(Fault::Delay(LATE))).await;
    let gap = least_gap(starts);
    assert!(gap >= INTERVAL * 4 / 5, "{gap:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missed_turn_of_a_list_is_taken_again() {
    let faults: [fn(&FaultProxy); 2] = [|proxy| proxy.set(Fault::Delay(LATE)), |proxy| proxy.once(Fault::Delay(LATE))];
    for fault in faults {
        let starts = beside_a_late_gateway(&[window(), queue(), window()], fault).await;
        let gap = least_gap(starts);
        assert!(gap >= INTERVAL * 4 / 5, "{gap:?}");
    }
}

/// Later than a request may start in its turn of ten seconds.
const MISSED: Duration = Duration::from_millis(800);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_without_another_turn_returns_what_other_rules_took() {
    let (server, proxy, [direct, late]) = two_gateways().await;
    let rules = [window(), no_queue()];
    // Loads the script: the first call is to be late.
    answer(direct.decide(&checks(&rules), &[])).await;
    server.query::<()>(&["FLUSHALL"]).unwrap();
    proxy.once(Fault::Delay(MISSED));
    let verdict = answer(late.decide(&checks(&rules), &[])).await;
    assert!(!verdict.is_allowed() && verdict.rule == 1 && verdict.source == Source::Redis, "{verdict:?}");
    assert_eq!(verdict.per_rule[0].remaining, 100);
    let look = Check { cost: 0, ..checks(&rules)[0] };
    eventually("it is returned", async || answer(direct.decide(&[look], &[])).await.remaining == Some(100)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn observed_rules_count_no_request_without_another_turn() {
    let (server, proxy, [direct, late]) = two_gateways().await;
    let rules = [no_queue(), window()];
    let checks = checks(&rules);
    let (enforced, observed) = checks.split_at(1);
    let _ = direct.decide(enforced, observed).get().await;
    server.query::<()>(&["FLUSHALL"]).unwrap();
    proxy.once(Fault::Delay(MISSED));
    let verdict = late.decide(enforced, observed).get().await;
    assert!(!verdict.is_allowed() && verdict.observed.is_none(), "{verdict:?}");
    let look = Check { cost: 0, ..checks[1] };
    eventually("it is returned", async || answer(direct.decide(&[look], &[])).await.remaining == Some(100)).await;
}
