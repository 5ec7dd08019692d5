//! States in the right format whose numbers no gateway has written.

use std::time::Duration;

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{
    Align, Calendar, CalendarUnit, FixedWindow, LeakyBucket, Quota, Rule, SlidingWindowCounter, TokenBucket,
};
use tollgate_limiter::store::redis::RedisStore;
use tollgate_limiter::store::{Check, OnStoreFailure, Store};
use tollgate_limiter::verdict::Source;

use crate::model::answer;
use crate::support::{RedisServer, store};

const LIMIT: u64 = 5;
const HOUR: Duration = Duration::from_secs(3_600);

/// Longest time in ms for which a state may be kept: two windows of the largest length.
const LONGEST_MS: i64 = 2 * (1 << 53) / 1_000 + 2_000;

const NUMBERS: &[&str] =
    &["0", "9007199254740991", "9007199254740993", "18446744073709551615", "99999999999999999999999999"];

/// Rules that write one state in turns.
fn rules() -> Vec<Vec<Rule>> {
    let calendar = |unit| Calendar::new(unit, "UTC").unwrap();
    let bucket = |rate| TokenBucket::new(rate, HOUR * 1_000, LIMIT).unwrap();
    let window = |hours, align| Rule::FixedWindow(FixedWindow::new(LIMIT, HOUR * hours, align).unwrap());
    let on_calendar = |unit| Rule::FixedWindow(FixedWindow::on_calendar(LIMIT, calendar(unit)).unwrap());
    let counter = |days| Rule::SlidingWindowCounter(SlidingWindowCounter::new(LIMIT, HOUR * 24 * days).unwrap());
    let queue = LeakyBucket::new(1, HOUR).unwrap().with_max_wait(HOUR * 10).unwrap().with_max_queue(LIMIT - 1).unwrap();
    let quota = |unit| Rule::Quota(Quota::resetting(LIMIT, calendar(unit)).unwrap());
    vec![
        vec![Rule::TokenBucket(bucket(1)), Rule::TokenBucket(bucket(2))],
        vec![Rule::Gcra(bucket(1)), Rule::Gcra(bucket(2))],
        vec![window(1, Align::First), window(3, Align::Clock), on_calendar(CalendarUnit::Day)],
        vec![on_calendar(CalendarUnit::Month), on_calendar(CalendarUnit::Day), window(2, Align::First)],
        vec![counter(90), counter(120)],
        vec![Rule::LeakyBucket(queue.clone())],
        vec![Rule::LeakyBucket(queue.with_warm_up(HOUR).unwrap())],
        vec![quota(CalendarUnit::Year), quota(CalendarUnit::Month)],
    ]
}

/// Returns `state` with each of its numbers replaced by each of [`NUMBERS`], one at a time.
fn hostile(state: &str) -> Vec<String> {
    let mut states = Vec::new();
    let is_digit = |at: usize| state.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    for from in (0..state.len()).filter(|at| is_digit(*at) && (*at == 0 || !is_digit(at - 1))) {
        let to = (from..).find(|at| !is_digit(*at)).unwrap();
        states.extend(NUMBERS.iter().map(|number| [&state[..from], number, &state[to..]].concat()));
    }
    states
}

async fn decide(store: &RedisStore, checks: &[Check<'_>]) -> bool {
    let verdict = answer(store.decide(checks, &[])).await;
    assert_eq!(verdict.source, Source::Redis, "{checks:?}");
    verdict.is_allowed()
}

/// A failed call would be the fallback's for as long as the state lasts.
#[tokio::test]
async fn a_hostile_number_in_a_state_fails_no_call_and_admits_at_most_the_capacity_once_more() {
    let server = RedisServer::start();
    let store = store(&server.connected_client().await, OnStoreFailure::Deny).denial_cache(false);
    let mut tried = 0;
    for rules in rules() {
        for scopes in [&["r"][..], &["r", "r#second"], &["r#first", "r#second"]] {
            let check =
                |rule| scopes.iter().map(move |scope| Check { key: BucketKey { scope, id: b"k" }, rule, cost: 1 });
            let checks: Vec<Vec<Check<'_>>> = rules.iter().map(|rule| check(rule).collect()).collect();
            server.query::<()>(&["FLUSHALL"]).unwrap();
            for checks in &checks {
                assert!(decide(&store, checks).await, "{rules:?}");
            }
            let keys: Vec<String> = server.query(&["KEYS", "*"]).unwrap();
            let states: Vec<String> = keys.iter().map(|key| server.query(&["GET", key]).unwrap()).collect();
            for (at, key) in keys.iter().enumerate() {
                for state in hostile(&states[at]) {
                    keys.iter().zip(&states).for_each(|(key, state)| server.query::<()>(&["SET", key, state]).unwrap());
                    // With an expiry, which no write may remove.
                    server.query::<()>(&["SET", key, &state, "PX", "3600000"]).unwrap();
                    let mut admitted = 0;
                    for turn in 0..LIMIT + 2 {
                        admitted += u64::from(decide(&store, &checks[turn as usize % rules.len()]).await);
                    }
                    assert!(admitted <= LIMIT, "{admitted} after {state} under {rules:?}");
                    for (more, check) in
                        [1, -1].iter().flat_map(|more| checks.iter().flatten().map(move |check| (more, check)))
                    {
                        let settled = store.settle_confirmed(*check, *more, 0).await;
                        assert!(settled.is_ok(), "{more} after {state} under {check:?}");
                    }
                    let ttl: i64 = server.query(&["PTTL", key]).unwrap();
                    assert!((1..=LONGEST_MS).contains(&ttl), "{ttl} ms after {state} under {rules:?}");
                    tried += 1;
                }
            }
        }
    }
    println!("{tried} states");
    assert!(tried > 300, "{tried}");
}
