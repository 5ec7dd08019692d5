//! Waits of a `RateLimiter` on Redis.

use std::time::{Duration, Instant};

use tollgate_limiter::{FixedWindow, OnStoreFailure, RateLimiter, Rule, TokenBucket, WaitError};

use crate::support::{RedisServer, store};

#[tokio::test]
async fn requests_wait_for_redis_in_order_and_dropped_ones_return_their_tokens() {
    let server = RedisServer::start();
    let store = store(&server.connected_client().await, OnStoreFailure::Deny);
    let limiter = RateLimiter::new("a", TokenBucket::per_second(20, 1).unwrap(), store);
    let mut waits = Vec::new();
    let start = Instant::now();
    for _ in 0..6 {
        let limiter = limiter.clone();
        waits.push(tokio::spawn(async move {
            assert!(limiter.until_allowed("a", 1).await.unwrap().is_allowed());
            start.elapsed()
        }));
        tokio::task::yield_now().await;
    }
    // The first one is being decided.
    waits.remove(0).abort();
    waits.remove(2).abort();
    let mut times = Vec::new();
    for wait in waits {
        times.push(wait.await.unwrap());
    }
    assert!(times.is_sorted(), "{times:?}");
    assert!(times[3] - times[0] >= Duration::from_millis(140), "50 ms apart: {times:?}");
    assert_eq!(limiter.until_allowed("a", 2).await, Err(WaitError::NeverAllowed { cost: 2 }));
}

#[tokio::test]
async fn a_key_in_redis_is_refunded_and_forgotten_under_all_rules() {
    let server = RedisServer::start();
    let store = store(&server.connected_client().await, OnStoreFailure::Deny);
    let hour = Duration::from_secs(3_600);
    let window = |limit| Rule::from(FixedWindow::new(limit, hour, tollgate_limiter::Align::First).unwrap());
    for rules in [vec![window(3)], vec![window(3), window(9)]] {
        let limiter = RateLimiter::with_rules(&rules.len().to_string(), rules.clone(), store.clone()).unwrap();
        let verdict = limiter.check("a", 3).await;
        assert_eq!(limiter.peek("a").await.remaining, Some(0));
        limiter.refund("a", 2, &verdict);
        tokio::time::timeout(Duration::from_secs(10), async {
            while limiter.peek("a").await.remaining != Some(2) {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        limiter.forget("a").await.unwrap();
        let left = limiter.peek("a").await;
        assert_eq!((left.remaining, left.per_rule.last().map_or(9, |last| last.remaining)), (Some(3), 9));
    }
}
