//! A Redis that loses scripts or keys.

use std::time::Duration;

use tollgate_limiter::rule::{Rule, TokenBucket};
use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::verdict::Source;
use tollgate_test_support::Fault;

use super::{Fixture, MAX_RECOVERY, decide};
use crate::support::{RedisServer, ask, eventually, store};

const BURST: u64 = 1_000_000;

/// Each reply reports the remaining tokens, and nothing is refilled: all replies differ, and none is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_flush_under_load_charges_each_request_once() {
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
    println!("{flushes} flushes, {} misses", client.stats().script_misses.get());
    assert!(client.stats().script_misses.get() >= 2);
}

/// A pause between loading and calling would let the script be flushed again.
#[tokio::test]
async fn a_flushed_script_and_its_call_are_sent_together() {
    let fixture = Fixture::with_budget(Duration::from_secs(60)).await;
    let store = fixture.store(OnStoreFailure::Deny);
    fixture.proxy.once(Fault::HoldReplies);
    let asking = tokio::spawn(async move { decide(&store, "k").await });
    eventually("redis has said that it knows no such script", async || fixture.proxy.calls() == 1).await;
    fixture.proxy.set(Fault::Delay(Duration::from_secs(3_600)));
    eventually("the call follows with its script, in one command", async || fixture.proxy.calls() == 2).await;
    asking.abort();
}

#[tokio::test]
async fn a_redis_that_never_keeps_the_script_is_not_called_for_ever() {
    let fixture = Fixture::with_budget(Duration::from_secs(20)).await;
    let store = fixture.store(OnStoreFailure::Deny);
    fixture.proxy.set(Fault::error("NOSCRIPT No matching script. Please use EVAL."));
    assert_eq!(decide(&store, "k").await, Source::Fallback);
    assert_eq!((fixture.proxy.struck(), fixture.proxy.calls()), (2, 0), "once, and once more with its script");
    fixture.proxy.set(Fault::Pass);
    let back = fixture.recovery().await;
    assert!(back < MAX_RECOVERY, "{back:?}");
}

/// A missing key is a full bucket: one more burst may be admitted, and nothing else happens.
#[tokio::test]
async fn a_key_flush_admits_one_more_burst() {
    let fixture = Fixture::with_budget(Duration::from_secs(20)).await;
    let store = fixture.store(OnStoreFailure::Deny).denial_cache(false);
    let rule = Rule::Gcra(TokenBucket::new(1, Duration::from_secs(86_400), 5).unwrap());
    for _ in 0..2 {
        let mut admitted = 0;
        for _ in 0..8 {
            let verdict = ask(&store, "k", &rule).await;
            assert_eq!(verdict.source, Source::Redis);
            admitted += usize::from(verdict.is_allowed());
        }
        assert_eq!(admitted, 5);
        let keys: Vec<String> = fixture.server.query(&["KEYS", "*"]).unwrap();
        assert!(!keys.is_empty());
        for key in keys {
            assert!(fixture.server.query::<i64>(&["PTTL", &key]).unwrap() > 0, "{key} would stay for ever");
        }
        fixture.server.query::<()>(&["FLUSHALL"]).unwrap();
    }
}
