//! Windows that change or differ between gateways over one key.

use std::time::Duration;

use tollgate_limiter::rule::{Align, FixedWindow, Rule, SlidingWindowLog};

use crate::changes::{START, Stores};
use crate::model::Rng;
use crate::support::RedisServer;

const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3_600 * SECOND;

fn log(limit: u64, window_us: u64) -> Rule {
    Rule::SlidingWindowLog(SlidingWindowLog::new(limit, Duration::from_micros(window_us)).unwrap())
}

fn fixed(limit: u64, window_us: u64) -> Rule {
    Rule::FixedWindow(FixedWindow::new(limit, Duration::from_micros(window_us), Align::First).unwrap())
}

#[tokio::test]
async fn two_windows_on_one_log_admit_the_larger_limit_in_the_shorter_window() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (case, (short, long)) in
        [((10, SECOND), (100, HOUR)), ((5, SECOND), (8, 3 * SECOND)), ((20, 2 * SECOND), (6, 60 * SECOND))]
            .into_iter()
            .enumerate()
    {
        let (stores, mut rng) = (Stores::new(&client, &format!("log{case}")), Rng::new(case as u64));
        let (mut at, mut admitted) = (START, Vec::new());
        let taken_since = |admitted: &[(u64, u64)], from: u64| -> u64 {
            admitted.iter().rev().take_while(|(at, _)| *at > from).map(|(_, cost)| cost).sum()
        };
        for _ in 0..1_200 {
            at += rng.pick(&[0, 1, SECOND / 50, SECOND / 5, SECOND, 2 * SECOND]);
            stores.clock.set(at);
            let ((limit, window), cost) = (rng.pick(&[short, long]), rng.pick(&[1, 1, 2, 5]));
            if stores.is_admitted(&log(limit, window), cost).await {
                admitted.push((at, cost));
                let in_short = taken_since(&admitted, at - short.1);
                assert!(in_short <= short.0.max(long.0), "{in_short} in {} us", short.1);
            } else {
                let used = taken_since(&admitted, at - window);
                assert!(used + cost > limit, "denied with {used} of {limit} used");
            }
        }
    }
}

#[tokio::test]
async fn writes_under_a_shorter_window_drop_what_the_longer_one_counts() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let (short, long) = (log(10, SECOND), log(100, HOUR));
    let stores = Stores::new(&client, "log-bound");
    for second in 0..3 {
        stores.clock.set(START + second * SECOND);
        assert!(stores.is_admitted(&short, 1).await);
        assert!(stores.is_admitted(&long, 99).await, "100 in each second, as documented");
        assert!(!stores.is_admitted(&long, 1).await && !stores.is_admitted(&short, 1).await);
    }
}

#[tokio::test]
async fn a_late_correction_ends_no_window_earlier() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let (second, hour) = (fixed(10, SECOND), fixed(10, HOUR));
    for more in [-3, 3] {
        let stores = Stores::new(&client, &format!("late{more}"));
        assert!(stores.is_admitted(&second, 3).await);
        stores.clock.set(START + 2 * SECOND);
        assert_eq!(stores.burst(&hour, 20).await, 10);
        // A request under the former rule ends now.
        stores.settle_taken_at(&second, 3, more, START).await;
        assert_eq!(stores.burst(&hour, 20).await, 0, "nothing is returned to another window");
        stores.clock.set(START + 4 * SECOND);
        assert_eq!(stores.burst(&hour, 20).await, 0, "the hour goes on");
        stores.clock.set(START + 2 * SECOND + HOUR);
        assert_eq!(stores.burst(&hour, 20).await, 10);
    }
}

#[tokio::test]
async fn a_correction_under_a_longer_window_returns_at_most_what_its_request_took() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let (second, hour) = (fixed(10, SECOND), fixed(10, HOUR));
    let stores = Stores::new(&client, "returned");
    assert!(stores.is_admitted(&hour, 4).await);
    stores.clock.set(START + 10 * SECOND);
    assert_eq!(stores.burst(&second, 20).await, 6, "the window was shortened, with its tokens");
    stores.clock.set(START + 12 * SECOND);
    assert_eq!(stores.burst(&second, 20).await, 10);
    stores.settle_taken_at(&hour, 4, -4, START).await;
    assert_eq!(stores.burst(&second, 20).await, 4, "into a window that it did not come from");
}
