#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::super::queues::least_wait;
use super::*;
use crate::key::BucketKey;
use crate::rule::{Align, FixedWindow, LeakyBucket, Quota, Refill, TokenBucket, samples};
use crate::store::Check;
use crate::store::memory::{ManualClock, MemoryStore, TokioClock};

const SECOND: Duration = Duration::from_secs(1);

/// Memory store on tokio's clock that counts decisions, and makes each after `latency`.
struct CountingStore {
    memory: Arc<MemoryStore>,
    checks: AtomicUsize,
    latency: Duration,
}

impl Store for CountingStore {
    fn decide(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Decision {
        self.checks.fetch_add(1, Relaxed);
        let (decision, latency) = (self.memory.decide(enforced, observed), self.latency);
        if latency.is_zero() {
            return decision;
        }
        Decision::Pending(Box::pin(async move {
            sleep(latency).await;
            decision.get().await
        }))
    }

    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        self.memory.settle(check, more, counted_at_us);
    }
}

type Limiter = RateLimiter<CountingStore>;

fn limiter_with(rule: impl Into<Rule>, latency: Duration) -> Limiter {
    let memory = Arc::new(MemoryStore::with_clock(Arc::new(TokioClock::default())));
    RateLimiter::new("a", rule, CountingStore { memory, checks: AtomicUsize::new(0), latency })
}

/// Limiter of one request per second.
fn limiter() -> Limiter {
    limiter_with(TokenBucket::per_second(1, 1).unwrap(), Duration::ZERO)
}

/// Starts a wait. It returns the seconds until the request was allowed.
async fn spawn_wait(limiter: &Limiter, key: &'static str, cost: u64) -> JoinHandle<u64> {
    let (limiter, start) = (limiter.clone(), Instant::now());
    let wait = tokio::spawn(async move {
        assert!(limiter.until_allowed(key, cost).await.unwrap().is_allowed());
        start.elapsed().as_secs()
    });
    tokio::task::yield_now().await;
    wait
}

fn checks(limiter: &Limiter) -> usize {
    limiter.store.checks.load(Relaxed)
}

#[tokio::test(start_paused = true)]
async fn twenty_waiting_requests_are_allowed_in_order_with_one_check_each() {
    let limiter = limiter();
    let mut waits = Vec::new();
    for _ in 0..20 {
        waits.push(spawn_wait(&limiter, "a", 1).await);
    }
    for (position, wait) in (0..).zip(waits) {
        assert_eq!(wait.await.unwrap(), position, "in order of arrival, a second apart");
    }
    // The first request is allowed before others wait, so the second one does not know its verdict.
    assert_eq!(checks(&limiter), 21);
    assert_eq!(limiter.queues.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_large_cost_is_not_overtaken_by_small_ones() {
    let limiter = limiter_with(TokenBucket::per_second(1, 5).unwrap(), Duration::ZERO);
    assert!(limiter.until_allowed("a", 5).await.unwrap().is_allowed());
    let large = spawn_wait(&limiter, "a", 5).await;
    let small = spawn_wait(&limiter, "a", 1).await;
    assert_eq!((large.await.unwrap(), small.await.unwrap()), (5, 6));
}

#[tokio::test(start_paused = true)]
async fn dropped_waits_consume_nothing_and_the_next_ones_move_up() {
    let limiter = limiter();
    let mut waits = Vec::new();
    for _ in 0..6 {
        waits.push(spawn_wait(&limiter, "a", 1).await);
    }
    // The first in the queue, one in the middle, and the last.
    for position in [1, 3, 5] {
        waits[position].abort();
    }
    let mut waits = waits.into_iter();
    let mut next = async || waits.next().unwrap().await.ok();
    let seconds = [next().await, next().await, next().await, next().await, next().await, next().await];
    assert_eq!(seconds, [Some(0), None, Some(1), None, Some(2), None]);
    assert_eq!(checks(&limiter), 4, "the next knows how long the dropped one had to wait");
    assert_eq!(limiter.queues.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn keys_wait_independently() {
    let limiter = limiter();
    let mut waits = Vec::new();
    for key in ["a", "a", "a", "b", "b"] {
        waits.push(spawn_wait(&limiter, key, 1).await);
    }
    assert_eq!(limiter.queues.len(), 2);
    let mut seconds = Vec::new();
    for wait in waits {
        seconds.push(wait.await.unwrap());
    }
    assert_eq!(seconds, [0, 1, 2, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_cost_that_can_never_be_allowed_is_an_error_at_once() {
    let (limiter, start) = (limiter(), Instant::now());
    let _first = spawn_wait(&limiter, "a", 1).await;
    let _waiting = spawn_wait(&limiter, "a", 1).await;
    assert_eq!(limiter.until_allowed("a", 2).await, Err(WaitError::NeverAllowed { cost: 2 }));
    let prepaid = limiter_with(Quota::new(3).unwrap(), Duration::ZERO);
    assert!(prepaid.until_allowed("a", 2).await.is_ok());
    assert_eq!(prepaid.until_allowed("a", 2).await, Err(WaitError::NeverAllowed { cost: 2 }));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[test]
fn waits_need_a_runtime_even_if_the_request_is_allowed_at_once() {
    let limiter = RateLimiter::new("a", TokenBucket::per_second(1, 1).unwrap(), MemoryStore::default());
    let mut context = Context::from_waker(std::task::Waker::noop());
    let wait = std::pin::pin!(limiter.until_allowed("a", 1));
    assert_eq!(wait.poll(&mut context), Poll::Ready(Err(WaitError::NoRuntime)));
    let check = std::pin::pin!(limiter.check("a", 1));
    assert!(matches!(check.poll(&mut context), Poll::Ready(verdict) if verdict.is_allowed()), "it took nothing");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_would_wait_longer_is_refused_and_takes_nothing() {
    let (limiter, start) = (limiter(), Instant::now());
    let too_long = |at_most| Err(WaitError::TooLong { at_most });
    assert!(limiter.try_wait_for("a", 1, Duration::ZERO).await.is_ok());
    let at_most = Duration::from_millis(900);
    assert_eq!(limiter.try_wait_for("a", 1, at_most).await, too_long(at_most));
    assert_eq!(start.elapsed(), Duration::ZERO, "known at once");
    let first = spawn_wait(&limiter, "a", 1).await;
    assert_eq!(limiter.try_wait_for("a", 1, at_most).await, too_long(at_most));
    assert_eq!(start.elapsed(), at_most, "another request was before it");
    assert!(limiter.try_wait_for("a", 1, 2 * SECOND).await.is_ok());
    assert_eq!((first.await.unwrap(), start.elapsed().as_secs()), (1, 2));
    assert!(limiter.try_wait_for("a", 1, Duration::MAX).await.is_ok());
    assert_eq!((start.elapsed().as_secs(), limiter.queues.len()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_turn_of_a_leaky_bucket_is_returned_when_its_wait_is_dropped() {
    let limiter = limiter_with(
        LeakyBucket::new(1, SECOND).unwrap().with_max_wait(3 * SECOND).unwrap().with_max_queue(9).unwrap(),
        Duration::ZERO,
    );
    let mut waits = Vec::new();
    for _ in 0..4 {
        waits.push(spawn_wait(&limiter, "a", 1).await);
    }
    waits[2].abort();
    tokio::task::yield_now().await;
    assert_eq!(limiter.try_wait_for("a", 1, SECOND).await, Err(WaitError::TooLong { at_most: SECOND }));
    waits.push(spawn_wait(&limiter, "a", 1).await);
    let mut seconds = Vec::new();
    for wait in waits {
        seconds.push(wait.await.ok());
    }
    assert_eq!(seconds, [Some(0), Some(1), None, Some(3), Some(2)]);
}

#[tokio::test(start_paused = true)]
async fn a_decision_dropped_in_progress_returns_its_tokens() {
    let limiter = limiter_with(FixedWindow::new(1, 3_600 * SECOND, Align::First).unwrap(), SECOND);
    let wait = spawn_wait(&limiter, "a", 1).await;
    sleep(SECOND / 2).await;
    wait.abort();
    sleep(SECOND).await;
    assert_eq!(checks(&limiter), 1);
    assert_eq!(limiter.peek("a").await.remaining, Some(1));
}

#[tokio::test(start_paused = true)]
async fn returned_tokens_wake_the_first_request() {
    let (limiter, start) =
        (limiter_with(TokenBucket::new(1, 3_600 * SECOND, 2).unwrap(), Duration::ZERO), Instant::now());
    let verdict = limiter.check("a", 2).await;
    let first = spawn_wait(&limiter, "a", 1).await;
    let second = spawn_wait(&limiter, "a", 1).await;
    limiter.refund("a", 2, &verdict);
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (0, 0));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn every_algorithm_allows_waiting_requests_in_order() {
    for rule in samples() {
        let (limiter, start) = (limiter_with(rule.clone(), Duration::ZERO), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..4 {
            waits.push(spawn_wait(&limiter, "a", 1).await);
        }
        let mut seconds = Vec::new();
        for wait in waits {
            seconds.push(wait.await.unwrap());
        }
        assert!(seconds.is_sorted(), "{rule:?}: {seconds:?}");
        assert!(checks(&limiter) <= 8 && start.elapsed() < 3_600 * SECOND, "{rule:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_estimated_wait_is_never_longer_than_the_exact_one(
        rule in 0..samples().len(),
        requests in prop::collection::vec((0u64..40_000_000, 0u64..7, 1u64..6), 1..12),
    ) {
        let (rule, clock) = (samples().swap_remove(rule), Arc::new(ManualClock::default()));
        clock.set(1_700_000_000_000_000);
        let store = MemoryStore::with_clock(clock.clone());
        let is_exact = match &rule {
            Rule::TokenBucket(bucket) | Rule::Gcra(bucket) => bucket.refill() == Refill::Smooth,
            Rule::FixedWindow(_) => true,
            _ => false,
        };
        for (gap_us, cost, next_cost) in requests {
            clock.advance(Duration::from_micros(gap_us));
            let check = |cost| Check { key: BucketKey { scope: "s", id: b"a" }, rule: &rule, cost };
            let Decision::Ready(verdict) = store.decide(&[check(cost)], &[]) else { unreachable!() };
            let wait = least_wait(&rule, verdict.remaining.unwrap(), verdict.reset_after, next_cost);
            match store.probe(check(next_cost)).outcome {
                Outcome::Denied { retry_after } => {
                    prop_assert!(wait <= retry_after, "{rule:?}: {wait:?} of {retry_after:?}");
                    let difference = retry_after - wait;
                    prop_assert!(!is_exact || difference <= Duration::from_micros(1), "{rule:?}: {difference:?}");
                }
                Outcome::Allowed => prop_assert_eq!(wait, Duration::ZERO),
                _ => {}
            }
        }
    }
}
