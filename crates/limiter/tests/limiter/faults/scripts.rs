//! A Redis that forgets scripts, or keys.

use std::time::Duration;

use tollgate_limiter::rule::{Rule, TokenBucket};
use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::verdict::Source;
use tollgate_test_support::Fault;

use super::{SOON, Stage, decide};
use crate::support::{RedisServer, ask, eventually, store};

const BURST: u64 = 1_000_000;

/// Each answer says what is left, and no token comes back: they are all different, and none is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_of_scripts_under_load_takes_one_token_a_request() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let asking: Vec<_> = (0..8)
        .map(|_| {
            let store = store(&client, OnStoreFailure::Deny);
            tokio::spawn(async move {
                let rule = Rule::Gcra(TokenBucket::new(1, Duration::from_secs(86_400), BURST).unwrap());
                let mut left = Vec::new();
                for _ in 0..150 {
                    let verdict = ask(&store, "k", &rule).await;
                    assert_eq!(verdict.source, Source::Redis, "{verdict:?}");
                    left.push(verdict.remaining.unwrap());
                }
                left
            })
        })
        .collect();
    let mut flushes = 0;
    while asking.iter().any(|client| !client.is_finished()) {
        server.query::<()>(&["SCRIPT", "FLUSH"]).unwrap();
        flushes += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut left = Vec::new();
    for client in asking {
        left.extend(client.await.unwrap());
    }
    left.sort_unstable_by(|a, b| b.cmp(a));
    assert!(left.iter().copied().eq((0..1_200).map(|spent| BURST - 1 - spent)), "one token each");
    println!("{flushes} flushes, {} misses", client.status().script_misses);
    assert!(client.status().script_misses >= 2);
}

/// Whoever waited for the script to be loaded would leave a moment in which it is forgotten again.
#[tokio::test]
async fn a_script_that_was_forgotten_and_its_call_go_out_together() {
    let stage = Stage::with_budget(Duration::from_secs(60)).await;
    let store = stage.store(OnStoreFailure::Deny);
    stage.server.query::<()>(&["SCRIPT", "FLUSH"]).unwrap();
    stage.proxy.once(Fault::HoldReplies);
    let asking = tokio::spawn(async move { decide(&store, "k").await });
    eventually("redis has said that it knows no such script", async || stage.proxy.calls() == 1).await;
    stage.proxy.set(Fault::Delay(Duration::from_secs(3_600)));
    eventually("the call follows the script, which nobody confirms", async || stage.proxy.calls() == 2).await;
    asking.abort();
}

#[tokio::test]
async fn a_redis_that_forgets_the_script_each_time_is_not_asked_for_ever() {
    let stage = Stage::with_budget(Duration::from_secs(20)).await;
    let store = stage.store(OnStoreFailure::Deny);
    stage.proxy.set(Fault::error("NOSCRIPT No matching script. Please use EVAL."));
    assert_eq!(decide(&store, "k").await, Source::Fallback);
    assert_eq!((stage.proxy.struck(), stage.proxy.calls()), (2, 0), "once, and once more after it was loaded");
    stage.proxy.set(Fault::Pass);
    let back = stage.recovery().await;
    assert!(back < SOON, "{back:?}");
}

/// Keys that are gone are buckets that are full: as much again may be admitted, and nothing else happens.
#[tokio::test]
async fn a_flush_of_keys_admits_one_burst_more() {
    let stage = Stage::with_budget(Duration::from_secs(20)).await;
    let store = stage.store(OnStoreFailure::Deny).denial_cache(false);
    let rule = Rule::Gcra(TokenBucket::new(1, Duration::from_secs(86_400), 5).unwrap());
    for _ in 0..2 {
        let mut admitted = 0;
        for _ in 0..8 {
            let verdict = ask(&store, "k", &rule).await;
            assert_eq!(verdict.source, Source::Redis);
            admitted += usize::from(verdict.is_allowed());
        }
        assert_eq!(admitted, 5);
        let keys: Vec<String> = stage.server.query(&["KEYS", "*"]).unwrap();
        assert!(!keys.is_empty());
        for key in keys {
            assert!(stage.server.query::<i64>(&["PTTL", &key]).unwrap() > 0, "{key} would stay for ever");
        }
        stage.server.query::<()>(&["FLUSHALL"]).unwrap();
    }
}
