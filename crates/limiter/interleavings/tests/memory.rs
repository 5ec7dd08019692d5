//! Interleavings of two or three threads in the memory store. `TOLLGATE_ORDERS` sets their number (1,000). A failure prints
//! the schedule that repeats it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tollgate_interleavings::key::BucketKey;
use tollgate_interleavings::rule::{Align, FixedWindow, Rule, TokenBucket};
use tollgate_interleavings::store::memory::{ManualClock, MemoryStore};
use tollgate_interleavings::store::{Check, Decision, Store};

/// Ids of scope `r` in one shard. The hash key of these tests is constant.
const ONE_SHARD: [&str; 5] = ["aj", "au", "ay", "bi", "cd"];

type Task = Box<dyn FnOnce() -> u64 + Send>;

struct World {
    store: MemoryStore,
    clock: Arc<ManualClock>,
}

fn world(max_keys: usize) -> Arc<World> {
    let clock = Arc::new(ManualClock::default());
    clock.set(1_000_000_000);
    Arc::new(World {
        store: MemoryStore::with_clock(clock.clone()).with_max_keys(NonZeroUsize::new(max_keys).unwrap()),
        clock,
    })
}

fn bucket(burst: u64) -> Rule {
    Rule::Gcra(TokenBucket::per_second(1, burst).unwrap())
}

fn hour(limit: u64) -> Rule {
    Rule::FixedWindow(FixedWindow::new(limit, Duration::from_secs(3_600), Align::First).unwrap())
}

impl World {
    fn ask_all(&self, checks: &[(&str, &str, &Rule)]) -> u64 {
        let checks: Vec<_> = checks
            .iter()
            .map(|(scope, id, rule)| Check { key: BucketKey { scope, id: id.as_bytes() }, rule, cost: 1 })
            .collect();
        match self.store.decide(&checks, &[]) {
            Decision::Ready(verdict) => verdict.is_allowed().into(),
            Decision::Pending(_) => panic!("the memory store decides immediately"),
        }
    }

    fn ask(&self, id: &str, rule: &Rule) -> u64 {
        self.ask_all(&[("r", id, rule)])
    }
}

/// Runs `check` in random orders, and in orders that are rare among them (PCT).
fn in_many_orders(check: fn()) {
    let orders = std::env::var("TOLLGATE_ORDERS").map_or(1_000, |orders| orders.parse().unwrap());
    shuttle::check_random(check, orders / 2);
    shuttle::check_pct(check, orders / 2, 3);
}

/// Runs all tasks concurrently and returns the sum of their results.
fn together(tasks: Vec<Task>) -> u64 {
    let threads: Vec<_> = tasks.into_iter().map(shuttle::thread::spawn).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
}

fn task(world: &Arc<World>, run: impl FnOnce(&World) -> u64 + Send + 'static) -> Task {
    let world = Arc::clone(world);
    Box::new(move || run(&world))
}

#[test]
fn one_key_is_admitted_its_burst() {
    in_many_orders(|| {
        let world = world(100);
        let twice = || task(&world, |world| world.ask("k", &bucket(3)) + world.ask("k", &bucket(3)));
        assert_eq!(together(vec![twice(), twice(), twice()]), 3);
        assert_eq!(world.store.len(), 1);
    });
}

#[test]
fn keys_around_the_cap_share_one_burst_and_len_is_exact() {
    in_many_orders(|| {
        let world = world(2);
        let [a, b, c, d, e] = ONE_SHARD;
        let two = |one: &'static str, other: &'static str| {
            task(&world, move |world| {
                let admitted = world.ask(one, &bucket(1)) + world.ask(other, &bucket(1));
                assert!(world.store.len() <= 2);
                admitted
            })
        };
        // Two keys have room; the other three share one burst.
        assert_eq!(together(vec![two(a, b), two(c, d), two(e, a)]), 3);
        assert_eq!(world.store.len(), 2);
    });
}

#[test]
fn a_key_that_finds_room_again_inherits_its_deficit() {
    in_many_orders(|| {
        let world = world(1);
        assert_eq!(world.ask("first", &bucket(1)), 1);
        let drain = task(&world, |world| (0..3).map(|_| world.ask("second", &hour(2))).sum());
        let sweep = task(&world, |world| {
            world.clock.advance(Duration::from_secs(2));
            world.store.sweep();
            0
        });
        let more = task(&world, |world| world.ask("second", &hour(2)));
        assert_eq!(together(vec![drain, sweep, more]), 2);
        assert_eq!(world.ask("second", &hour(2)), 0);
    });
}

#[test]
fn a_flood_on_one_limiter_takes_nothing_of_the_share_of_another() {
    in_many_orders(|| {
        let world = world(8);
        world.store.declare([Arc::from("flooded"), Arc::from("calm")]);
        let flood = |ids: [&'static str; 5]| {
            task(&world, move |world| {
                for id in ids {
                    world.ask_all(&[("flooded", id, &hour(1))]);
                }
                assert!(world.store.len() <= 8);
                0
            })
        };
        // Half of the room belongs to two limiters, so that each has two entries.
        let calm = task(&world, |world| {
            ["x", "y", "x", "y", "x", "y"].iter().map(|id| world.ask_all(&[("calm", id, &hour(2))])).sum()
        });
        assert_eq!(together(vec![flood(["a", "b", "c", "d", "e"]), flood(["f", "g", "h", "i", "j"]), calm]), 4);
        assert_eq!(world.store.len(), 8);
    });
}

#[test]
fn a_list_consumes_all_or_nothing_beside_single_rules() {
    in_many_orders(|| {
        let world = world(100);
        let both = || {
            let (wide, tight) = (bucket(9), hour(2));
            task(&world, move |world| {
                world.ask_all(&[("w", "k", &wide), ("t", "k", &tight)])
                    + world.ask_all(&[("t", "k", &tight), ("w", "k", &wide)])
            })
        };
        let alone = task(&world, |world| world.ask_all(&[("t", "k", &hour(2))]));
        assert_eq!(together(vec![both(), both(), alone]), 2);
        let left = (0..10).map(|_| world.ask_all(&[("w", "k", &bucket(9))])).sum::<u64>();
        assert!((7..=8).contains(&left), "a denied list consumed tokens of the wide rule: {left} remain");
    });
}

#[test]
fn lists_around_the_cap_exceed_no_bound() {
    in_many_orders(|| {
        let world = world(2);
        let list = |id: &'static str| {
            let (one, two) = (bucket(2), hour(2));
            task(&world, move |world| {
                (0..3).map(|_| world.ask_all(&[("one", id, &one), ("two", id, &two)])).sum::<u64>()
            })
        };
        let admitted = together(vec![list("a"), list("b"), list("c")]);
        // Two of each key, with room or in a shared state, under either rule.
        assert!((2..=6).contains(&admitted), "{admitted}");
        assert_eq!(world.store.len(), 2);
        for id in ["a", "b", "c"] {
            assert_eq!(world.ask_all(&[("one", id, &bucket(2)), ("two", id, &hour(2))]), 0, "{id} is spent");
        }
    });
}

#[test]
fn len_is_exact_during_concurrent_sweeps() {
    in_many_orders(|| {
        let world = world(3);
        let fill =
            |ids: [&'static str; 3]| task(&world, move |world| ids.iter().map(|id| world.ask(id, &bucket(1))).sum());
        let sweep = task(&world, |world| {
            world.clock.advance(Duration::from_secs(2));
            world.store.sweep();
            assert!(world.store.len() <= 3);
            0
        });
        together(vec![fill(["a", "b", "c"]), fill(["d", "e", "a"]), sweep]);
        world.clock.advance(Duration::from_secs(2));
        world.store.sweep();
        assert!(world.store.is_empty(), "{} are counted and not there", world.store.len());
        assert_eq!(world.ask("x", &bucket(1)), 1);
        assert_eq!(world.store.len(), 1);
    });
}
