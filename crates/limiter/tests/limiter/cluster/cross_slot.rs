//! Rules of one request with keys in different slots.

use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{
    Align, FixedWindow, LeakyBucket, Quota, Rule, SlidingWindowCounter, SlidingWindowLog, TokenBucket,
};
use tollgate_limiter::store::{Check, Store};
use tollgate_limiter::verdict::{Outcome, Source, Verdict};
use tollgate_test_support::Cluster;

use super::{PATIENT, USUAL, all_failures, connected, hourly, ids_on, one_key, slot, store};
use crate::model::answer;
use crate::support::eventually;

const HOUR: Duration = Duration::from_secs(3_600);

/// Key ids on each node, in the order of their slots.
fn in_slots(cluster: &Cluster) -> [String; 3] {
    let mut ids = [0, 1, 2].map(|node| ids_on(cluster, node, 1).remove(0));
    ids.sort_by_key(|id| slot(cluster, id));
    ids
}

/// Decides a request with `cost` under each rule. Each rule counts another key id.
async fn ask<const N: usize>(store: &impl Store, ids: &[String], rules: &[Rule; N], cost: u64) -> Verdict {
    let scopes: Vec<String> = (0..N).map(|n| format!("r#rule{n}")).collect();
    let key = |n: usize| BucketKey { scope: &scopes[n], id: ids[n % ids.len()].as_bytes() };
    let checks: Vec<_> = rules.iter().enumerate().map(|(n, rule)| Check { key: key(n), rule, cost }).collect();
    answer(store.decide(&checks, &[])).await
}

fn left(verdict: &Verdict) -> Vec<u64> {
    assert_eq!(verdict.source, Source::Redis);
    verdict.per_rule.iter().map(|answer| answer.remaining).collect()
}

fn every_kind(limit: u64) -> [Rule; 6] {
    [
        Rule::TokenBucket(hourly(limit)),
        Rule::Gcra(hourly(limit)),
        Rule::FixedWindow(FixedWindow::new(limit, HOUR, Align::First).unwrap()),
        Rule::SlidingWindowLog(SlidingWindowLog::new(limit, HOUR).unwrap()),
        Rule::SlidingWindowCounter(SlidingWindowCounter::new(limit, HOUR).unwrap()),
        Rule::Quota(Quota::new(limit).unwrap()),
    ]
}

#[tokio::test]
async fn rules_of_all_algorithms_are_decided_all_or_nothing() {
    let cluster = Cluster::primaries();
    let client = connected(&cluster, PATIENT).await;
    let store = store(&client);
    let ids = in_slots(&cluster);
    for tight in 0..6 {
        cluster.nodes.iter().for_each(|node| node.query::<()>(&["FLUSHALL"]).unwrap());
        let mut rules = every_kind(10);
        rules[tight] = every_kind(2)[tight].clone();
        let expected =
            |tight_left, left| (0..6).map(|n| if n == tight { tight_left } else { left }).collect::<Vec<_>>();
        let verdict = ask(&store, &ids, &rules, 1).await;
        assert_eq!((verdict.is_allowed(), verdict.rule, left(&verdict)), (true, tight, expected(1, 9)));
        assert_eq!(left(&ask(&store, &ids, &rules, 1).await), expected(0, 8));
        for _ in 0..3 {
            let denied = ask(&store, &ids, &rules, 1).await;
            assert_eq!((denied.is_allowed(), denied.rule, left(&denied)), (false, tight, expected(0, 8)));
            // Returned in the background.
            let back = async || left(&ask(&store, &ids, &rules, 0).await) == expected(0, 8);
            eventually("all tokens are returned", back).await;
        }
    }
    assert_eq!(all_failures(&client), 0, "{:?}", client.status());
}

#[tokio::test]
async fn observed_rules_of_other_slots_take_a_step_of_their_own() {
    let cluster = Cluster::primaries();
    let client = connected(&cluster, PATIENT).await;
    let store = store(&client);
    let ids = in_slots(&cluster);
    let rule = &every_kind(10)[0];
    let check = |scope, id: usize| Check { key: BucketKey { scope, id: ids[id].as_bytes() }, rule, cost: 1 };
    for (observed_id, calls) in [(1, 2), (0, 1)] {
        let before = client.stats().call_sizes.buckets().iter().sum::<u64>();
        let decision = store.decide(&[check("r#held", 0)], &[check("r#tried", observed_id)]);
        assert_eq!(decision.get().await.observed.map(|observed| observed.remaining), Some(Some(9)));
        assert_eq!(client.stats().call_sizes.buckets().iter().sum::<u64>() - before, calls);
    }
}

#[tokio::test]
async fn rules_of_one_key_id_are_one_call_for_all_algorithms() {
    let cluster = Cluster::primaries();
    let client = connected(&cluster, PATIENT).await;
    let store = store(&client);
    let id = ids_on(&cluster, 1, 1);
    let rules = every_kind(10);
    for expected in [9, 8, 7] {
        assert_eq!(left(&ask(&store, &id, &rules, 1).await), [expected; 6]);
    }
    // The first found the script missing.
    let calls = ["cmdstat_evalsha", "cmdstat_eval"].map(|command| cluster.nodes[1].info(command));
    assert_eq!(calls.each_ref().map(|calls| calls.split(',').next().unwrap()), ["calls=3", "calls=1"]);
    let keys: Vec<String> = cluster.nodes[1].query(&["KEYS", "*"]).unwrap();
    assert_eq!(keys.len(), 3, "{keys:?}");
}

#[tokio::test]
async fn the_wait_is_exactly_the_longest_of_all_slots() {
    let cluster = Cluster::primaries();
    let client = connected(&cluster, PATIENT).await;
    let store = store(&client);
    let [first, .., last] = in_slots(&cluster);
    let bucket = |period| Rule::Gcra(TokenBucket::new(1, period, 1).unwrap());
    let (short, long) = (bucket(Duration::from_secs(600)), bucket(HOUR));
    for (ids, rules) in [
        ([first.clone(), last.clone()], [short.clone(), long.clone()]),
        ([last.clone(), first.clone()], [short.clone(), long.clone()]),
    ] {
        cluster.nodes.iter().for_each(|node| node.query::<()>(&["FLUSHALL"]).unwrap());
        assert!(ask(&store, &ids, &rules, 1).await.is_allowed());
        let denied = ask(&store, &ids, &rules, 1).await;
        let Outcome::Denied { retry_after } = denied.outcome else { panic!("{denied:?}") };
        assert_eq!(denied.rule, 1);
        assert!(retry_after > HOUR - Duration::from_secs(60) && retry_after <= HOUR, "{retry_after:?}");
    }
}

#[tokio::test]
async fn a_shared_bucket_can_be_combined_with_own_rules() {
    let cluster = Cluster::primaries();
    let client = connected(&cluster, PATIENT).await;
    let store = store(&client);
    // Spring's two keys, as for a limiter's only rule; the slots determine whether its call is first or last.
    let [pool, own] = [Rule::TokenBucket(hourly(100)), one_key(2)];
    for id in in_slots(&cluster) {
        let check = |scope, rule, cost| Check { key: BucketKey { scope, id: id.as_bytes() }, rule, cost };
        for expected in [[99, 1], [98, 0], [98, 0], [98, 0]] {
            let verdict = answer(store.decide(&[check("#pool", &pool, 1), check("r#own", &own, 1)], &[])).await;
            assert_eq!(left(&verdict), expected);
            let alone =
                async || answer(store.decide(&[check("#pool", &pool, 0)], &[])).await.remaining == Some(expected[0]);
            eventually("it is the same bucket", alone).await;
        }
    }
}

#[tokio::test]
async fn a_turn_of_a_leaky_bucket_is_returned_too() {
    let cluster = Cluster::primaries();
    let client = connected(&cluster, PATIENT).await;
    let store = store(&client);
    let ids = in_slots(&cluster);
    let pace = Rule::LeakyBucket(
        LeakyBucket::new(1, HOUR).unwrap().with_max_wait(HOUR * 20).unwrap().with_max_queue(100).unwrap(),
    );
    let rules = [pace, one_key(1)];
    assert_eq!(ask(&store, &ids, &rules, 1).await.delay, Duration::ZERO);
    for _ in 0..3 {
        assert!(!ask(&store, &ids, &rules, 1).await.is_allowed());
    }
    // The next request's turn is in an hour, not in four.
    let next = async || {
        let only = [rules[0].clone()];
        let verdict = ask(&store, &ids, &only, 0).await;
        verdict.reset_after <= HOUR
    };
    eventually("turns are returned", next).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_are_admitted_up_to_the_tokens() {
    let cluster = Cluster::primaries();
    let client = connected(&cluster, PATIENT).await;
    let ids = Arc::new(in_slots(&cluster));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let (store, ids) = (store(&client), Arc::clone(&ids));
        tasks.spawn(async move { ask(&store, &*ids, &[one_key(50), one_key(50), one_key(50)], 1).await.is_allowed() });
    }
    let admitted = tasks.join_all().await.into_iter().filter(|&admitted| admitted).count();
    assert_eq!(admitted, 50);
    let store = store(&client);
    let rules = [one_key(50), one_key(50), one_key(50)];
    eventually("nothing stays taken", async || left(&ask(&store, &*ids, &rules, 0).await) == [0, 0, 0]).await;
}

#[tokio::test]
async fn with_one_node_unreachable_nothing_is_taken_from_the_others() {
    let cluster = Cluster::primaries();
    let client = connected(&cluster, USUAL).await;
    let store = store(&client);
    let ids = in_slots(&cluster);
    let rules = [one_key(1_000), one_key(1_000), one_key(1_000)];
    let looked = async || ask(&store, &ids, &rules, 0).await.source == Source::Redis;
    eventually("the scripts are loaded", looked).await;
    assert_eq!(left(&ask(&store, &ids, &rules, 1).await), [999; 3]);
    let hung = cluster.primary_of(slot(&cluster, &ids[2]));
    cluster.nodes[hung].freeze();
    for _ in 0..20 {
        assert_eq!(ask(&store, &ids, &rules, 1).await.source, Source::Fallback);
    }
    let others = [one_key(1_000), one_key(1_000)];
    let untouched = async || left(&ask(&store, &ids[..2], &others, 0).await) == [999; 2];
    eventually("taken tokens are returned", untouched).await;
}

/// An open breaker admits one probe for each node; the slots of one request must share it.
#[tokio::test]
async fn redis_decides_slots_of_a_node_again_after_its_return() {
    let mut cluster = Cluster::primaries();
    let client = connected(&cluster, USUAL).await;
    let (store, ids) = (store(&client), ids_on(&cluster, 0, 3));
    let rules = [one_key(1_000), one_key(1_000), one_key(1_000)];
    assert_eq!(ask(&store, &ids, &rules, 1).await.source, Source::Redis);
    cluster.nodes[0].kill();
    eventually("the loss is noticed", async || ask(&store, &ids, &rules, 1).await.source == Source::Fallback).await;
    cluster.nodes[0].launch();
    eventually("redis decides again", async || ask(&store, &ids, &rules, 1).await.source == Source::Redis).await;
}
