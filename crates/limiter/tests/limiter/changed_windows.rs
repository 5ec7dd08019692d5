//! Windows that change or differ between gateways over one key.

use std::time::Duration;

use tollgate_limiter::rule::{Align, CalendarUnit, FixedWindow, Rule, SlidingWindowCounter, SlidingWindowLog};

use crate::changes::{START, Stores};
use crate::model::Rng;
use crate::support::RedisServer;
use crate::wall_clock::{MIDNIGHT, clock, on_calendar};
use crate::windows;

const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3_600 * SECOND;

fn log(limit: u64, window_us: u64) -> Rule {
    Rule::SlidingWindowLog(SlidingWindowLog::new(limit, Duration::from_micros(window_us)).unwrap())
}

fn fixed(limit: u64, window_us: u64) -> Rule {
    Rule::FixedWindow(FixedWindow::new(limit, Duration::from_micros(window_us), Align::First).unwrap())
}

fn counter(limit: u64, window_us: u64) -> Rule {
    Rule::SlidingWindowCounter(SlidingWindowCounter::new(limit, Duration::from_micros(window_us)).unwrap())
}

#[tokio::test]
async fn each_window_on_one_log_counts_what_all_rules_admitted() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (case, rules) in [
        vec![(10, SECOND), (100, HOUR)],
        vec![(5, SECOND), (8, 10 * SECOND)],
        vec![(20, 2 * SECOND), (6, 60 * SECOND)],
        vec![(5, SECOND), (50, 60 * SECOND), (400, HOUR)],
    ]
    .into_iter()
    .enumerate()
    {
        let (stores, mut rng) = (Stores::new(&client, &format!("log{case}")), Rng::new(case as u64));
        let (mut at, mut admitted) = (START, Vec::new());
        for (limit, window) in &rules {
            assert!(stores.is_admitted(&log(*limit, *window), 1).await);
            admitted.push((at, 1));
        }
        for _ in 0..1_200 {
            at += rng.pick(&[0, 1, SECOND / 50, SECOND / 5, SECOND, 2 * SECOND]);
            stores.clock.set(at);
            let ((limit, window), cost) = (rng.pick(&rules), rng.pick(&[1, 1, 2, 5]));
            let used: u64 =
                admitted.iter().rev().take_while(|(taken, _)| taken + window > at).map(|(_, cost)| cost).sum();
            let is_admitted = stores.is_admitted(&log(limit, window), cost).await;
            assert_eq!(is_admitted, used + cost <= limit, "{used} of {limit} used in {window} us, cost {cost}");
            if is_admitted {
                admitted.push((at, cost));
            }
        }
    }
}

#[tokio::test]
async fn a_shorter_window_on_one_log_returns_nothing_to_the_longer_one() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let (short, long) = (log(10, SECOND), log(100, HOUR));
    let stores = Stores::new(&client, "log-bound");
    let mut admitted = 0;
    for second in 0..30 {
        stores.clock.set(START + second * SECOND);
        admitted += stores.burst(&short, 12).await;
        admitted += stores.burst(&long, 2).await;
    }
    assert_eq!(admitted, 30 * 10 + 16, "the longer rule admits two in each of eight seconds, until a hundred are used");
}

#[test]
fn a_log_of_two_windows_is_bounded() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let (short, long) = (windows::log(10, SECOND), windows::log(100, HOUR));
    windows::ask(redis, &long, START, "1");
    for n in 1..200 {
        assert_eq!(windows::ask(redis, &short, START + n * SECOND / 5, "1").0, 1);
    }
    let members: Vec<(String, u64)> =
        redis::cmd("ZRANGE").arg("k").arg(0).arg(-1).arg("WITHSCORES").query(redis).unwrap();
    assert_eq!(members.len(), 2 + 101, "the windows, and a hundred tokens before the last one");
    assert!(members[..2].iter().all(|(_, score)| *score == 0) && members[2].1 > 0, "{members:?}");
    assert!(members[0].0.starts_with("1000000:") && members[0].0.ends_with(":10"), "{}", members[0].0);
    assert!(members[1].0.starts_with("3600000000:") && members[1].0.ends_with(":100"), "{}", members[1].0);
    assert_eq!(windows::ask(redis, &long, START + 40 * SECOND, "1").0, 0);
    let pttl: u64 = redis::cmd("PTTL").arg("k").query(redis).unwrap();
    assert!(pttl > 3_599_000, "{pttl} ms: the hour needs the entries");
}

/// A client that changes its plan, or the gateways of a rolling change: rules of both windows in turns.
#[tokio::test]
async fn a_shorter_fixed_window_returns_nothing_to_the_longer_one() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let (second, hour) = (fixed(10, SECOND), fixed(100, HOUR));
    for scope in ["fixed-bound", "list#fixed-bound"] {
        let stores = Stores::new(&client, scope);
        let (mut by_second, mut by_hour) = (0, 0);
        for at in 0..30 {
            stores.clock.set(START + at * SECOND);
            by_hour += stores.burst(&hour, 30).await;
            by_second += stores.burst(&second, 12).await;
        }
        assert_eq!((by_hour, by_second), (100, 26 * 10), "{scope}: the hour counts all, and the second too");
    }
}

#[tokio::test]
async fn fixed_windows_side_by_side_starve_no_rule_and_admit_less_than_both() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (name, stricter, looser) in [
        ("2s", fixed(100, 2 * SECOND), fixed(100, SECOND)),
        ("1m", fixed(50, SECOND), fixed(3_000, 60 * SECOND)),
        ("list#2s", fixed(100, 2 * SECOND), fixed(100, SECOND)),
    ] {
        let mut admitted = Vec::new();
        for (at, rules) in [&[&stricter][..], &[&stricter, &looser], &[&looser]].into_iter().enumerate() {
            let scope = format!("{at}{name}");
            admitted.push(Stores::new(&client, &scope).alternate(rules, SECOND / 200, 8 * SECOND).await);
        }
        // Windows begin at different times, so each rule may admit some before the other counts them.
        let [stricter, both, looser] = admitted[..] else { unreachable!("three runs") };
        assert!(stricter <= both && both <= looser + looser / 50, "{name}: {admitted:?}");
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
async fn a_correction_under_a_longer_window_returns_nothing_to_a_shorter_one() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let (second, hour) = (fixed(10, SECOND), fixed(10, HOUR));
    let stores = Stores::new(&client, "returned");
    assert!(stores.is_admitted(&hour, 4).await);
    stores.clock.set(START + 10 * SECOND);
    assert_eq!(stores.burst(&second, 20).await, 6, "a new length begins with the tokens of the open window");
    stores.clock.set(START + 12 * SECOND);
    assert_eq!(stores.burst(&second, 20).await, 10);
    stores.settle_taken_at(&hour, 4, -4, START).await;
    assert_eq!(stores.burst(&second, 20).await, 0, "the tokens are not of this window");
    let whole = fixed(20, HOUR);
    assert_eq!(stores.burst(&whole, 20).await, 4, "of 4, 6 and 10, the hour got 4 back");
}

#[tokio::test]
async fn a_counter_that_rested_counts_what_another_length_admits() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let (short, long) = (counter(20, 2 * SECOND), counter(20, 20 * SECOND));
    for scope in ["counter-rest", "list#counter-rest"] {
        let stores = Stores::new(&client, scope);
        assert!(stores.is_admitted(&short, 1).await && stores.is_admitted(&long, 1).await);
        stores.clock.set(START + 10 * SECOND);
        assert_eq!(stores.burst(&long, 30).await, 18);
        assert_eq!(stores.burst(&short, 30).await, 2, "{scope}: of 20, the other length took 18");
    }
}

/// The gateways of a rolling change, in random turns and with rests.
#[tokio::test]
async fn counters_of_two_gateways_admit_one_limit_in_each_window_after_any_rest() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let (length, long_us) = (2 * SECOND, rng.pick(&[5, 20, 60]) * SECOND);
        let (short, long) = (counter(20, length), counter(rng.pick(&[20, 100]), long_us));
        let scope = format!("counters{seed}{}", rng.pick(&["", "#rule"]));
        let stores = Stores::new(&client, &scope);
        let (mut at, mut window, mut used, mut denied) = (START, 0, 0, 0);
        for _ in 0..60 {
            at += rng.pick(&[0, SECOND / 5, SECOND, 5 * SECOND, long_us / 2, long_us, 3 * long_us]);
            stores.clock.set(at);
            if at / length != window {
                (window, used) = (at / length, 0);
            }
            let is_short = rng.chance(1, 2);
            for _ in 0..rng.pick(&[1, 5, 30]) {
                let is_admitted = stores.is_admitted(if is_short { &short } else { &long }, 1).await;
                assert!(!is_admitted || !is_short || used < 20, "seed {seed}: {used} of 20 used in one window");
                used += u64::from(is_admitted);
                denied += u64::from(!is_admitted);
            }
        }
        assert!(denied > 0);
    }
}

/// A request of the other rule opens the window of the short one, which begins on the clock all the same.
#[tokio::test]
async fn a_window_that_another_rule_opens_begins_on_the_clock() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let (short, long) = (clock(10, 2 * SECOND), clock(50, 10 * SECOND));
    for scope in ["opened", "list#opened"] {
        let stores = Stores::new(&client, scope);
        stores.clock.set(MIDNIGHT);
        assert!(stores.is_admitted(&short, 1).await && stores.is_admitted(&long, 1).await);
        stores.clock.set(MIDNIGHT + 39 * SECOND / 10);
        assert!(stores.is_admitted(&long, 1).await);
        let mut admitted = 0;
        for tenths in [40, 59] {
            stores.clock.set(MIDNIGHT + tenths * SECOND / 10);
            admitted += stores.burst(&short, 15).await;
        }
        assert_eq!(admitted, 10, "{scope}: from the 4th to the 6th second");
    }
}

/// Two gateways with windows on the clock on one key, in random turns: a window of either counts what both admit in it.
#[tokio::test]
async fn a_window_on_the_clock_counts_all_rules_on_its_key() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (case, other) in
        [clock(50, 10 * SECOND), fixed(50, 10 * SECOND), fixed(10, 2 * SECOND), on_calendar(1_000, CalendarUnit::Hour)]
            .into_iter()
            .enumerate()
    {
        let (short, length) = (clock(10, 2 * SECOND), 2 * SECOND);
        for scope in [format!("beside{case}"), format!("list#beside{case}")] {
            let (stores, mut rng) = (Stores::new(&client, &scope), Rng::new(case as u64));
            let (mut at, mut window, mut used, mut most) = (MIDNIGHT, 0, 0, 0);
            stores.clock.set(at);
            for rule in [&short, &other] {
                assert!(stores.is_admitted(rule, 1).await);
                used += 1;
            }
            for _ in 0..600 {
                at += rng.pick(&[0, 1, SECOND / 50, SECOND / 20, SECOND / 5, SECOND]);
                stores.clock.set(at);
                if at / length != window {
                    (window, used) = (at / length, if window == 0 { used } else { 0 });
                }
                let is_short = rng.chance(1, 2);
                for _ in 0..if is_short { rng.pick(&[1, 3, 12]) } else { 1 } {
                    let is_admitted = stores.is_admitted(if is_short { &short } else { &other }, 1).await;
                    assert!(!is_admitted || !is_short || used < 10, "{used} of 10 used beside {other:?}");
                    used += u64::from(is_admitted);
                    most = most.max(used);
                }
            }
            assert!(most >= 10, "the limit was never reached");
        }
    }
}
