//! What a takeover leaves alone: states of other rules and keys, decisions that find their states, resets, permissions.

use std::time::Duration;

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Rule, TokenBucket};
use tollgate_limiter::store::redis::{Login, RedisSettings, RedisStore};
use tollgate_limiter::store::{Check, OnStoreFailure, Store};

use super::{Gateway, HOUR, gateway, kinds, limiters, pairs};
use crate::model::answer;
use crate::support::{RedisServer, connected, store};

#[tokio::test]
async fn states_of_present_rules_are_never_taken() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for rule in &kinds(20, HOUR) {
        let scopes: [&[&str]; 3] = [&["r#x", "r#y"], &["r#x", "r"], &["r", "r#x"]];
        for scopes in scopes {
            redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
            // Rules that count one key id in different requests: other key resolvers, or plans.
            let all: Vec<_> = scopes.iter().map(|scope| (*scope, rule.clone())).collect();
            for one in [&all[..1], &all[1..], &all[..1], &all[1..]].iter().zip([20, 20, 0, 0]) {
                let store = store(&client, OnStoreFailure::Deny).denial_cache(false).limiters(limiters(&all));
                let gateway = Gateway { store, rules: one.0.to_vec() };
                assert_eq!(gateway.burst().await, one.1, "{rule:?} of {scopes:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_state_with_another_tag_of_its_name_is_not_taken() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let rule = &kinds(20, HOUR)[0];
    let ask = async |scope: &'static str, id: &'static [u8]| {
        let rules = [(scope, rule.clone())];
        let store = store(&client, OnStoreFailure::Deny).denial_cache(false).limiters(limiters(&rules));
        answer(store.decide(&[Check { key: BucketKey { scope, id }, rule, cost: 20 }])).await.is_allowed()
    };
    assert!(ask("r", b"a%20b").await);
    assert!(ask("r#x", b"a b").await, "the key id `a b` has spent nothing");
    assert!(!ask("r", b"a%20b").await);
}

#[tokio::test]
async fn a_bucket_that_spring_wrote_is_taken_into_a_list() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let rule = Rule::TokenBucket(TokenBucket::per_second(1, 1_000).unwrap());
    let redis = &mut server.connection();
    let (seconds, _): (u64, u64) = redis::cmd("TIME").query(redis).unwrap();
    for (word, value) in [("tokens", 5), ("timestamp", seconds)] {
        redis::cmd("SET").arg(format!("request_rate_limiter.{{r.me}}.{word}")).arg(value).exec(redis).unwrap();
    }
    let left = gateway(&client, &[("r#x", &rule)]).ask(1).await.remaining.unwrap();
    assert!((3..60).contains(&left), "{left}");
}

#[tokio::test]
async fn a_decision_that_finds_its_state_reads_nothing_else() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let redis = &mut server.connection();
    for (first, second) in &pairs() {
        for rules in [&[("r", first)][..], &[("r#x", first), ("r#y", second)]] {
            redis::cmd("FLUSHALL").exec(redis).unwrap();
            let counts = async |gateway: &Gateway<RedisStore>| {
                redis::cmd("CONFIG").arg("RESETSTAT").exec(&mut server.connection()).unwrap();
                gateway.ask(1).await;
                let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connection()).unwrap();
                let calls = |line: &str| Some(line.strip_prefix("cmdstat_")?.split_once(',')?.0.to_owned());
                let mut calls: Vec<_> =
                    stats.lines().filter_map(calls).filter(|call| !call.contains("config")).collect();
                calls.sort();
                calls
            };
            let aware = gateway(&client, rules);
            let unaware =
                Gateway { store: store(&client, OnStoreFailure::Deny).denial_cache(false), rules: aware.rules.clone() };
            aware.ask(1).await;
            // Logs and quotas have other names without the table.
            unaware.ask(1).await;
            let own = counts(&aware).await;
            assert_eq!(own, counts(&unaware).await, "{rules:?}");
        }
    }
}

#[tokio::test]
async fn a_reset_deletes_a_state_that_would_be_taken_over() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for rule in &kinds(20, HOUR)[..6] {
        for (former, present) in [("r", "r#x"), ("r#x", "r"), ("r#x", "r#y")] {
            redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
            assert_eq!(gateway(&client, &[(former, rule)]).burst().await, 20, "{rule:?}");
            let rules = [(present, rule.clone())];
            let store = store(&client, OnStoreFailure::Deny).denial_cache(false).limiters(limiters(&rules));
            let check = Check { key: BucketKey { scope: present, id: b"me" }, rule, cost: 0 };
            store.forget(check).await.unwrap();
            assert_eq!(gateway(&client, &[(present, rule)]).burst().await, 20, "{rule:?}: {former}, {present}");
        }
    }
}

/// Users whose permissions cover the names of one form only.
#[tokio::test]
async fn without_permission_for_former_keys_decisions_go_on() {
    let server = RedisServer::start();
    let mut redis = server.connection();
    let user = "ACL SETUSER narrow on nopass resetchannels ~request_rate_limiter.* +evalsha +eval +time +mget +setex";
    redis::cmd("ACL").arg(user.split(' ').skip(1).collect::<Vec<_>>()).exec(&mut redis).unwrap();
    let login = Login { username: Some("narrow".to_owned()), password: Some("any".to_owned()) };
    let timeout = Duration::from_secs(20);
    let settings = RedisSettings { login, timeout, ..RedisSettings::new(server.url()) };
    let client = connected(&settings).await;
    let rule = &kinds(20, HOUR)[0];
    assert_eq!(gateway(&client, &[("r", rule)]).burst().await, 20);
    assert_eq!(gateway(&client, &[("r", rule)]).burst().await, 0);
}
