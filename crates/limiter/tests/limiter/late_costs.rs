//! Costs that are known after the request: charged when they are known, and returned to what counts the request only.

use std::time::Duration;

use tollgate_limiter::rule::{
    Align, Calendar, CalendarUnit, FixedWindow, LeakyBucket, Quota, Rule, SlidingWindowCounter, SlidingWindowLog,
    TokenBucket,
};

use crate::changes::{START, Stores};
use crate::support::RedisServer;

const WINDOW: Duration = Duration::from_secs(10);
const DAY: Duration = Duration::from_secs(86_400);

/// A bucket that fills in a window.
fn bucket() -> TokenBucket {
    TokenBucket::new(10, WINDOW, 10).unwrap()
}

fn rules() -> Vec<Rule> {
    vec![
        Rule::TokenBucket(bucket()),
        Rule::Gcra(bucket()),
        Rule::FixedWindow(FixedWindow::new(10, WINDOW, Align::First).unwrap()),
        Rule::FixedWindow(FixedWindow::new(10, WINDOW, Align::Clock).unwrap()),
        Rule::SlidingWindowLog(SlidingWindowLog::new(10, WINDOW).unwrap()),
        Rule::SlidingWindowCounter(SlidingWindowCounter::new(10, WINDOW).unwrap()),
        Rule::LeakyBucket(
            LeakyBucket::new(10, WINDOW).unwrap().with_max_wait(WINDOW).unwrap().with_max_queue(9).unwrap(),
        ),
        Rule::FixedWindow(FixedWindow::on_calendar(10, daily()).unwrap()),
        Rule::Quota(Quota::resetting(10, daily()).unwrap()),
    ]
}

fn daily() -> Calendar {
    Calendar::new(CalendarUnit::Day, "UTC").unwrap()
}

fn left(verdict: &tollgate_limiter::verdict::Verdict) -> u64 {
    verdict.remaining.unwrap()
}

/// Otherwise responses that end after the window would cost nothing.
#[tokio::test]
async fn a_cost_known_after_its_window_counts_in_the_present_one() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (at, rule) in rules().iter().enumerate() {
        for scope in [format!("late{at}"), format!("late{at}#listed")] {
            let stores = Stores::new(&client, &scope);
            let taken_at = stores.ask(rule, 1).await.counted_at_us;
            stores.clock.advance(3 * DAY);
            stores.settle_taken_at(rule, 1, 3, taken_at).await;
            assert_eq!(left(&stores.ask(rule, 0).await), rule.capacity() - 3, "{rule:?}");
        }
    }
}

#[tokio::test]
async fn a_cost_returned_after_its_window_adds_nothing_to_the_present_one() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (at, rule) in rules().iter().enumerate() {
        for scope in [format!("late{at}"), format!("late{at}#listed")] {
            let stores = Stores::new(&client, &scope);
            let all = rule.capacity();
            let taken_at = stores.ask(rule, all).await.counted_at_us;
            stores.clock.advance(3 * DAY);
            assert!(stores.is_admitted(rule, all).await);
            stores.settle_taken_at(rule, all, -(all as i64), taken_at).await;
            assert_eq!(left(&stores.ask(rule, 0).await), 0, "{rule:?}");
        }
    }
}

/// Rules of both bucket algorithms, with and without units of their own.
fn buckets() -> Vec<Rule> {
    let numbers = [TokenBucket::per_second(1, 10).unwrap(), TokenBucket::new(60, 6 * WINDOW, 10).unwrap()];
    numbers.into_iter().flat_map(|numbers| [Rule::TokenBucket(numbers.clone()), Rule::Gcra(numbers)]).collect()
}

#[tokio::test]
async fn a_bucket_takes_back_what_was_not_refilled_since() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (at, rule) in buckets().iter().enumerate() {
        for scope in [format!("part{at}"), format!("part{at}#listed")] {
            let stores = Stores::new(&client, &scope);
            assert!(stores.is_admitted(rule, 10).await);
            stores.clock.set(START + 4_000_000);
            assert!(stores.is_admitted(rule, 4).await);
            stores.settle_taken_at(rule, 10, -10, START).await;
            assert_eq!(left(&stores.ask(rule, 0).await), 6, "{rule:?}");
            // At once, all of it.
            let now = stores.now();
            assert!(stores.is_admitted(rule, 6).await);
            stores.settle_taken_at(rule, 6, -5, now).await;
            assert_eq!(left(&stores.ask(rule, 0).await), 5, "{rule:?}");
        }
    }
}

/// Each request costs a burst until its response tells that it cost nothing. All responses end together.
#[tokio::test]
async fn costs_that_are_returned_together_admit_one_burst() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (at, rule) in buckets().iter().enumerate() {
        let stores = Stores::new(&client, &format!("banked{at}"));
        let mut taken = Vec::new();
        for _ in 0..5 {
            assert!(stores.is_admitted(rule, 10).await);
            taken.push(stores.now());
            stores.clock.advance(WINDOW);
        }
        let mut admitted = stores.burst(rule, 20).await;
        for taken_at in taken {
            stores.settle_taken_at(rule, 10, -10, taken_at).await;
            admitted += stores.burst(rule, 20).await;
        }
        assert_eq!(admitted, 10, "{rule:?}");
    }
}
