//! Windows and periods that end at a wall time, while the wall clock is set.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Align, Calendar, CalendarUnit, FixedWindow, Quota, Rule};
use tollgate_limiter::store::memory::{Clock, MemoryStore};
use tollgate_limiter::store::redis::{RedisClient, RedisStore};
use tollgate_limiter::store::{Check, OnStoreFailure, Store};
use tollgate_limiter::verdict::{Outcome, Verdict};

use crate::changes::{START, Stores};
use crate::model::{Rng, answer};
use crate::support::RedisServer;

const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;

/// Steady clock beside a wall clock that can be set.
#[derive(Debug, Default)]
struct SetClock {
    now_us: AtomicU64,
    wall_us: AtomicU64,
}

impl Clock for SetClock {
    fn now_us(&self) -> u64 {
        self.now_us.load(SeqCst)
    }

    fn wall_us(&self) -> u64 {
        self.wall_us.load(SeqCst)
    }
}

impl SetClock {
    /// Lets time pass on both clocks.
    fn pass(&self, us: u64) {
        self.now_us.fetch_add(us, SeqCst);
        self.wall_us.fetch_add(us, SeqCst);
    }
}

/// Memory and Redis on one wall clock. Memory has a steady clock beside it, as a gateway has.
struct Pair {
    clock: Arc<SetClock>,
    memory: MemoryStore,
    redis: RedisStore,
    scope: String,
}

impl Pair {
    fn new(client: &Arc<RedisClient>, scope: &str, wall_us: u64) -> Self {
        let clock = Arc::new(SetClock::default());
        clock.now_us.store(START, SeqCst);
        clock.wall_us.store(wall_us, SeqCst);
        let memory = || MemoryStore::with_clock(clock.clone()).with_max_keys(NonZeroUsize::new(100).unwrap());
        let redis = RedisStore::new(Arc::clone(client), Arc::new(memory()), OnStoreFailure::Deny)
            .with_clock(clock.clone())
            .denial_cache(false);
        Self { memory: memory(), redis, clock, scope: scope.to_owned() }
    }

    async fn ask(&self, rule: &Rule) -> [Verdict; 2] {
        let check = Check { key: BucketKey { scope: &self.scope, id: b"me" }, rule, cost: 1 };
        self.memory.sweep();
        [answer(self.memory.decide(&[check], &[])).await, answer(self.redis.decide(&[check], &[])).await]
    }

    /// Returns the verdict of both stores; they must agree.
    async fn agreed(&self, rule: &Rule) -> Verdict {
        let [memory, redis] = self.ask(rule).await;
        let said = |verdict: &Verdict| (verdict.outcome, verdict.remaining, verdict.reset_after);
        assert_eq!(said(&memory), said(&redis), "memory and redis differ under {rule:?}");
        memory
    }

    async fn burst(&self, rule: &Rule, count: u64) -> u64 {
        let mut admitted = 0;
        for _ in 0..count {
            admitted += u64::from(self.agreed(rule).await.is_allowed());
        }
        admitted
    }
}

pub(crate) fn clock(limit: u64, window_us: u64) -> Rule {
    Rule::FixedWindow(FixedWindow::new(limit, Duration::from_micros(window_us), Align::Clock).unwrap())
}

fn calendar(unit: CalendarUnit) -> Calendar {
    Calendar::new(unit, "UTC").unwrap()
}

pub(crate) fn on_calendar(limit: u64, unit: CalendarUnit) -> Rule {
    Rule::FixedWindow(FixedWindow::on_calendar(limit, calendar(unit)).unwrap())
}

fn quota(limit: u64, unit: CalendarUnit) -> Rule {
    Rule::Quota(Quota::resetting(limit, calendar(unit)).unwrap())
}

/// Rules with the length of their windows, which all begin together at multiples of a day.
fn rules(limit: u64) -> Vec<(Rule, u64)> {
    vec![
        (clock(limit, 2 * SECOND), 2 * SECOND),
        (clock(limit, 10 * SECOND), 10 * SECOND),
        (clock(limit, DAY), DAY),
        (on_calendar(limit, CalendarUnit::Hour), HOUR),
        (on_calendar(limit, CalendarUnit::Day), DAY),
        (quota(limit, CalendarUnit::Hour), HOUR),
        (quota(limit, CalendarUnit::Day), DAY),
    ]
}

/// Midnight near the start.
pub(crate) const MIDNIGHT: u64 = START - START % DAY + DAY;

#[tokio::test]
async fn an_edge_that_is_crossed_twice_admits_one_limit() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (case, (rule, length)) in rules(20).into_iter().enumerate() {
        for scope in [format!("edge{case}"), format!("list#edge{case}")] {
            let stores = Stores::new(&client, &scope);
            let mut admitted = Vec::new();
            for at in [
                MIDNIGHT - SECOND,
                MIDNIGHT + SECOND,
                // The clock is set back by 3 s.
                MIDNIGHT - 2 * SECOND,
                MIDNIGHT - 1,
                MIDNIGHT,
                MIDNIGHT + length - 1,
                MIDNIGHT + length,
            ] {
                stores.clock.set(at);
                admitted.push(stores.burst(&rule, 25).await);
            }
            assert_eq!(admitted, [20, 20, 0, 0, 0, 0, 20], "{rule:?}");
        }
    }
}

/// On a gateway, the steady clock of the memory store goes on while the wall clock is set.
#[tokio::test]
async fn an_edge_that_only_the_wall_clock_crosses_twice_admits_one_limit() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (case, (rule, length)) in rules(20).into_iter().enumerate() {
        let pair = Pair::new(&client, &format!("wall{case}"), MIDNIGHT - SECOND);
        assert_eq!(pair.burst(&rule, 25).await, 20);
        pair.clock.pass(2 * SECOND);
        assert_eq!(pair.burst(&rule, 25).await, 20);
        pair.clock.wall_us.store(MIDNIGHT - 2 * SECOND, SeqCst);
        assert_eq!(pair.burst(&rule, 25).await, 0, "{rule:?}");
        pair.clock.pass(2 * SECOND);
        assert_eq!(pair.burst(&rule, 25).await, 0, "{rule:?}");
        pair.clock.pass(length);
        assert_eq!(pair.burst(&rule, 25).await, 20, "{rule:?}");
    }
}

/// The window before the edge was full, nothing came behind it, and expired states were dropped.
#[tokio::test]
async fn a_window_that_is_entered_again_without_a_request_behind_it_is_still_full() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (case, (rule, length)) in rules(20).into_iter().enumerate().filter(|(_, (_, length))| *length > 4 * SECOND) {
        let pair = Pair::new(&client, &format!("idle{case}"), MIDNIGHT - 4 * SECOND);
        assert_eq!(pair.burst(&rule, 25).await, 20);
        pair.clock.pass(6 * SECOND);
        pair.memory.sweep();
        pair.clock.wall_us.fetch_sub(4 * SECOND, SeqCst);
        assert_eq!(pair.burst(&rule, 25).await, 0, "{rule:?}");
        pair.clock.pass(length);
        assert_eq!(pair.burst(&rule, 25).await, 20, "{rule:?}");
    }
}

#[tokio::test]
async fn a_suspended_machine_and_a_step_forward_end_windows_at_their_wall_time() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (case, (rule, length)) in rules(20).into_iter().enumerate() {
        let pair = Pair::new(&client, &format!("suspended{case}"), MIDNIGHT);
        assert_eq!(pair.burst(&rule, 25).await, 20);
        // The steady clock stands still.
        pair.clock.wall_us.fetch_add(length / 2, SeqCst);
        let rest = Duration::from_micros(length / 2);
        assert_eq!(pair.agreed(&rule).await.outcome, Outcome::Denied { retry_after: rest }, "{rule:?}");
        pair.clock.wall_us.fetch_add(length / 2, SeqCst);
        assert_eq!(pair.burst(&rule, 25).await, 20, "{rule:?}");
    }
}

/// A clock that was far ahead for a while blocks no key for longer than two windows and a minute.
#[tokio::test]
async fn a_clock_that_was_years_ahead_starves_no_key() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    for (case, (rule, length)) in rules(20).into_iter().enumerate() {
        let pair = Pair::new(&client, &format!("ahead{case}"), MIDNIGHT + 3_650 * DAY);
        assert_eq!(pair.burst(&rule, 25).await, 20);
        pair.clock.wall_us.store(MIDNIGHT, SeqCst);
        assert_eq!(pair.burst(&rule, 25).await, 0, "the tokens are consumed in the present window");
        pair.clock.pass(length);
        assert_eq!(pair.burst(&rule, 25).await, 20, "{rule:?}");
    }
}

/// Under random steps of the wall clock, memory and Redis agree, and each window that the clock ever reached has one limit.
#[tokio::test]
async fn random_steps_of_the_wall_clock_give_no_window_a_second_limit() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let limit = 5;
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let all: Vec<_> = rules(limit);
        let (rule, length) = rng.pick(&all.iter().collect::<Vec<_>>());
        let scope = format!("random{seed}{}", rng.pick(&["", "#rule"]));
        let pair = Pair::new(&client, &scope, MIDNIGHT - SECOND * rng.below(8));
        let (mut latest, mut admitted) = (0, 0);
        for _ in 0..80 {
            pair.clock.pass(rng.pick(&[0, 1, SECOND / 3, SECOND, length / 2]));
            match rng.below(8) {
                0 => drop(pair.clock.wall_us.fetch_sub(rng.below(3 * SECOND), SeqCst)),
                1 => drop(pair.clock.wall_us.fetch_add(rng.pick(&[3 * SECOND, *length, 3 * length]), SeqCst)),
                _ => {}
            }
            let window = pair.clock.wall_us() / length;
            if window > latest {
                (latest, admitted) = (window, 0);
            }
            admitted += u64::from(pair.agreed(rule).await.is_allowed());
            assert!(admitted <= limit, "seed {seed}: {admitted} in one window under {rule:?}");
        }
        assert!(latest > MIDNIGHT / length, "no edge was crossed");
    }
}
