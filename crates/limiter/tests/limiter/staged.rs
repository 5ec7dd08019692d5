//! Enforced and observed rules in one step of the store.

use std::time::Duration;

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Align, FixedWindow, Rule};
use tollgate_limiter::store::redis::RedisStore;
use tollgate_limiter::store::{Check, MAX_CHECKS, OnStoreFailure, Store};
use tollgate_limiter::verdict::{Source, Verdict};

use crate::model::{KINDS, Rng, answer};
use crate::round_trips::{Monitor, rules_without_missed_turns};
use crate::support::{RedisServer, memory, rule, store};

const HOUR: Duration = Duration::from_secs(3_600);

fn window(limit: u64) -> Rule {
    Rule::FixedWindow(FixedWindow::new(limit, HOUR, Align::First).unwrap())
}

fn check<'a>(scope: &'a str, rule: &'a Rule) -> Check<'a> {
    Check { key: BucketKey { scope, id: b"me" }, rule, cost: 1 }
}

/// Decides under an enforced and an observed rule.
async fn ask(store: &RedisStore, enforced: &Rule, observed: &Rule) -> Verdict {
    store.decide(&[check("r#held", enforced)], &[check("r#tried", observed)]).get().await
}

/// Allowed by the enforced rule, and by the observed one.
fn allowed(verdict: &Verdict) -> (bool, Option<bool>) {
    (verdict.is_allowed(), verdict.observed.as_ref().map(|observed| observed.is_allowed()))
}

#[tokio::test]
async fn enforced_and_observed_rules_of_any_algorithm_are_one_call() {
    let server = RedisServer::start();
    let store = store(&server.connected_client().await, OnStoreFailure::Deny).denial_cache(false);
    let redis = &mut server.connection();
    let mut rng = Rng::new(11);
    for (count, first) in (2..=MAX_CHECKS).flat_map(|count| (0..KINDS.len()).map(move |first| (count, first))) {
        let rules = rules_without_missed_turns(&mut rng, first, count);
        let scopes: Vec<String> = (0..count).map(|at| format!("r{count}{first}#rule{at}")).collect();
        let checks: Vec<Check<'_>> = scopes.iter().zip(&rules).map(|(scope, rule)| check(scope, rule)).collect();
        let (enforced, observed) = checks.split_at(1 + first % (count - 1));
        // The first call loads the script.
        let _ = store.decide(enforced, observed).get().await;
        let mut monitor = Monitor::start(&server);
        for _ in 0..3 {
            let verdict = store.decide(enforced, observed).get().await;
            assert_eq!(verdict.source, Source::Redis);
            assert_eq!(verdict.observed.is_some(), verdict.is_allowed(), "{rules:?}");
        }
        assert_eq!(monitor.sent(redis), ["evalsha"; 3], "{rules:?}");
    }
}

#[tokio::test]
async fn an_observed_denial_is_never_served_as_a_real_one() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let store = store(&client, OnStoreFailure::Deny);
    let (enforced, observed) = (window(6), window(2));
    let redis = &mut server.connection();
    // Loads the scripts for both rules, and for the enforced one.
    ask(&store, &window(1_000), &window(1_000)).await;
    answer(store.decide(&[check("r#held", &window(1_000))], &[])).await;
    redis::cmd("FLUSHALL").exec(redis).unwrap();
    let mut monitor = Monitor::start(&server);
    let mut verdicts = Vec::new();
    for _ in 0..8 {
        verdicts.push(allowed(&ask(&store, &enforced, &observed).await));
    }
    let [both, observed_denies, denied] = [(true, Some(true)), (true, Some(false)), (false, None)];
    assert_eq!(verdicts[..2], [both; 2]);
    assert_eq!(verdicts[2..6], [observed_denies; 4], "a cached denial of the observed rule denies nothing");
    assert_eq!(verdicts[6..], [denied; 2]);
    let calls = monitor.sent(redis).into_iter().filter(|command| command == "evalsha").count();
    assert_eq!(calls, 7, "one for each request, none for a cached denial");
    assert_eq!(client.stats().denial_cache_hits.get(), 4, "three of the observed rule, one of the enforced rule");
    // The same rules, now both enforced.
    let both = [check("r#held", &enforced), check("r#tried", &observed)];
    assert!(!answer(store.decide(&both, &[])).await.is_allowed());
}

#[tokio::test]
async fn two_steps_remain_where_equal_requests_share_calls() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let plain = store(&client, OnStoreFailure::Deny);
    let (enforced, observed) = (rule(1, 100), rule(1, 1_000));
    let checks = [check("r#held", &enforced), check("r#tried", &observed)];
    let (held, tried) = checks.split_at(1);
    let redis = &mut server.connection();
    // Loads the scripts for both lists, and for each of them.
    let _ = plain.decide(held, tried).get().await;
    let _ = plain.decide(held, &[]).get().await;
    let _ = plain.decide(tried, &[]).get().await;
    let leased = plain.clone().lease(Some(HOUR));
    let mut monitor = Monitor::start(&server);
    let mut calls = |decisions: usize, expected: usize, reason: &str| {
        let sent = monitor.sent(redis).into_iter().filter(|command| command == "evalsha").count();
        assert_eq!(sent, expected, "{decisions} decisions: {reason}");
    };
    let first = plain.decide(held, tried);
    let second = plain.decide(held, tried);
    let (first, second) = tokio::join!(first.get(), second.get());
    assert_eq!([allowed(&first), allowed(&second)], [(true, Some(true)); 2]);
    calls(2, 3, "the second takes two calls, since an equal request is in flight");
    assert_eq!(allowed(&plain.decide(held, tried).get().await), (true, Some(true)));
    calls(1, 1, "alone");
    assert_eq!(allowed(&leased.decide(held, tried).get().await), (true, Some(true)));
    calls(1, 2, "leases are taken per list");
    let twice = plain.decide(held, held).get().await;
    calls(1, 2, "the second step must see the first one");
    let left = twice.observed.map(|observed| observed.remaining);
    assert_eq!(left, Some(twice.remaining.map(|left| left - 1)));
    let twice = memory().0.decide(held, held).get().await;
    assert_eq!((twice.remaining, twice.observed.and_then(|observed| observed.remaining)), (Some(99), Some(98)));
}

#[tokio::test]
async fn without_redis_the_policy_decides_both_lists() {
    let server = RedisServer::stopped(&[]);
    let client = server.client();
    let (enforced, observed) = (window(2), window(1));
    for (policy, expected) in [
        (OnStoreFailure::Local, [(true, Some(true)), (true, Some(false)), (false, None)]),
        (OnStoreFailure::Allow, [(true, Some(true)); 3]),
        (OnStoreFailure::Deny, [(false, None); 3]),
    ] {
        let store = store(&client, policy);
        for expected in expected {
            let verdict = ask(&store, &enforced, &observed).await;
            assert_eq!((allowed(&verdict), verdict.source), (expected, Source::Fallback), "{policy:?}");
        }
    }
}
