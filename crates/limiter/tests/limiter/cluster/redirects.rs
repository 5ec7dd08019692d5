//! Redirections at every step of a slot migration.

use std::sync::Arc;

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Quota, Rule};
use tollgate_limiter::store::redis::RedisStore;
use tollgate_limiter::store::{Check, Store};
use tollgate_limiter::verdict::Source;
use tollgate_test_support::{Cluster, Port, RedisServer, eventually as wait};

use super::{PATIENT, USUAL, all_failures, connected, hourly, ids_on, one_key, slot, store, two_keys};
use crate::model::answer;
use crate::support::ask;

/// Decides a request in Redis and returns the remaining tokens.
async fn left(store: &RedisStore, id: &str, rule: &Rule) -> u64 {
    let verdict = ask(store, id, rule).await;
    assert_eq!(verdict.source, Source::Redis, "{id} {rule:?}");
    verdict.remaining.unwrap()
}

#[tokio::test]
async fn a_moved_slot_causes_one_redirection() {
    let cluster = Cluster::primaries();
    let client = connected(&cluster, PATIENT).await;
    let (store, id, rule) = (store(&client), ids_on(&cluster, 0, 1).remove(0), two_keys(9));
    assert_eq!(left(&store, &id, &rule).await, 8);
    cluster.move_slot(slot(&cluster, &id), 1);
    // The new node does not know the script either.
    cluster.nodes[1].query::<()>(&["SCRIPT", "FLUSH"]).unwrap();
    for expected in [7, 6, 5] {
        assert_eq!(left(&store, &id, &rule).await, expected);
    }
    let redirected = cluster.nodes[0].query::<String>(&["INFO", "errorstats"]).unwrap();
    assert!(redirected.contains("errorstat_MOVED:count=1"), "{redirected}");
    assert_eq!((all_failures(&client), client.stats().script_misses.get()), (0, 2), "once on each node");
}

#[tokio::test]
async fn a_migrating_slot_is_served_by_both_nodes() {
    let cluster = Cluster::primaries();
    let client = connected(&cluster, PATIENT).await;
    let (store, id) = (store(&client), ids_on(&cluster, 0, 1).remove(0));
    let (gcra, window) = (one_key(9), two_keys(9));
    assert_eq!(left(&store, &id, &gcra).await, 8);
    let moving = cluster.begin_move(slot(&cluster, &id), 2);
    assert_eq!(left(&store, &id, &gcra).await, 7, "it is still on the source node");
    moving.move_key(&format!("gcra.{{r.{id}}}"));
    assert_eq!(
        [left(&store, &id, &gcra).await, left(&store, &id, &gcra).await],
        [6, 5],
        "it is on the target node by now"
    );
    // A bucket with two keys that neither node has yet.
    assert_eq!([left(&store, &id, &window).await, left(&store, &id, &window).await], [8, 7]);
    let list = [one_key(9), Rule::Quota(Quota::new(9).unwrap())];
    let ask_list = async || {
        let check = |(scope, rule)| Check { key: BucketKey { scope, id: id.as_bytes() }, rule, cost: 1 };
        let checks: Vec<_> = ["r#one", "r#two"].into_iter().zip(&list).map(check).collect();
        let verdict = answer(store.decide(&checks, &[])).await;
        assert_eq!(verdict.source, Source::Redis);
        verdict.per_rule.iter().map(|answer| answer.remaining).collect::<Vec<_>>()
    };
    assert_eq!([ask_list().await, ask_list().await], [[8, 8], [7, 7]]);
    moving.finish();
    assert_eq!([left(&store, &id, &gcra).await, left(&store, &id, &window).await], [4, 6]);
    assert_eq!(ask_list().await, [6, 6]);
    assert_eq!(all_failures(&client), 0);
}

#[tokio::test]
async fn a_call_with_one_migrated_key_waits_for_the_other() {
    let cluster = Cluster::primaries();
    let client = connected(&cluster, PATIENT).await;
    let (store, id) = (store(&client), ids_on(&cluster, 0, 1).remove(0));
    assert_eq!(left(&store, &id, &two_keys(9)).await, 8);
    let moving = cluster.begin_move(slot(&cluster, &id), 2);
    moving.move_key(&format!("request_rate_limiter.{{r.{id}}}.tokens"));
    let call = {
        let (store, id) = (store.clone(), id.clone());
        tokio::spawn(async move { ask(&store, &id, &two_keys(9)).await })
    };
    let has_tryagain = |node: &RedisServer| {
        let stats: String = node.query(&["INFO", "errorstats"]).unwrap();
        stats.contains("errorstat_TRYAGAIN")
    };
    let (source, waits) = (&cluster.nodes[0], &call);
    tokio::task::yield_now().await;
    crate::support::eventually("the node replies TRYAGAIN", async || has_tryagain(source)).await;
    assert!(!waits.is_finished());
    moving.move_key(&format!("request_rate_limiter.{{r.{id}}}.timestamp"));
    let verdict = call.await.unwrap();
    assert_eq!((verdict.remaining, verdict.source), (Some(7), Source::Redis));
    moving.finish();
    assert_eq!(left(&store, &id, &two_keys(9)).await, 6);
}

#[tokio::test]
async fn an_unserved_call_falls_back_without_opening_the_breaker() {
    let cluster = Cluster::primaries();
    let client = connected(&cluster, USUAL).await;
    let store = store(&client);
    let ids = ids_on(&cluster, 0, 2);
    assert_eq!(left(&store, &ids[0], &two_keys(9)).await, 8);
    let moving = cluster.begin_move(slot(&cluster, &ids[0]), 2);
    moving.move_key(&format!("request_rate_limiter.{{r.{}}}.tokens", ids[0]));
    for _ in 0..6 {
        assert_eq!(ask(&store, &ids[0], &two_keys(9)).await.source, Source::Fallback);
        assert_eq!(ask(&store, &ids[1], &one_key(9)).await.source, Source::Redis);
    }
    assert!(client.status().connected());
}

#[tokio::test]
async fn a_joining_node_is_connected_when_a_redirection_names_it() {
    let mut cluster = Cluster::primaries();
    let client = connected(&cluster, PATIENT).await;
    let (store, ids) = (store(&client), ids_on(&cluster, 0, 2));
    assert_eq!(left(&store, &ids[0], &one_key(9)).await, 8);
    let bus = Port::claim();
    let number = bus.number.to_string();
    let joins = RedisServer::start_with(&["--cluster-enabled", "yes", "--cluster-port", &number]);
    let known = &cluster.nodes[0];
    let at = [known.port.to_string(), (known.port + 10_000).to_string()];
    joins.query::<()>(&["CLUSTER", "MEET", "127.0.0.1", &at[0], &at[1]]).unwrap();
    cluster.nodes.push(joins);
    // It serves no requests until it considers the cluster healthy.
    wait("all nodes know the new node", || {
        let info = |node: &RedisServer| node.query::<String>(&["CLUSTER", "INFO"]).unwrap();
        let knows = |info: String| info.contains("known_nodes:4") && info.contains("cluster_state:ok");
        cluster.nodes.iter().map(info).all(knows)
    });
    let moving = cluster.begin_move(slot(&cluster, &ids[0]), 3);
    assert_eq!(left(&store, &ids[0], &two_keys(9)).await, 8, "called there before it owns a slot");
    moving.move_keys();
    assert_eq!(left(&store, &ids[0], &one_key(9)).await, 7);
    moving.finish();
    assert_eq!(left(&store, &ids[0], &one_key(9)).await, 6);
    cluster.move_slot(slot(&cluster, &ids[1]), 3);
    assert_eq!(left(&store, &ids[1], &one_key(9)).await, 8);
    assert_eq!((all_failures(&client), client.status().nodes.len()), (0, 4));
    let many = Arc::new(Rule::Gcra(hourly(1_000)));
    for left_over in (990..1_000).rev() {
        assert_eq!(left(&store, "other", &many).await, left_over);
    }
}
