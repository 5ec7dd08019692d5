use super::*;
use crate::rule::{LeakyBucket, SlidingWindowCounter, SlidingWindowLog};

/// Clock of the machine, with the same time on both clocks.
#[derive(Default)]
struct OneClock(MonotonicClock);

impl Clock for OneClock {
    fn now_us(&self) -> u64 {
        self.0.now_us() + 1_000_000_000
    }

    fn wall_us(&self) -> u64 {
        self.now_us()
    }

    fn both_us(&self) -> (u64, u64) {
        let now_us = self.now_us();
        (now_us, now_us)
    }
}

/// Decision of a thread.
struct Decided {
    /// Positions of the rules, with the key and the cost of each.
    checks: Vec<(usize, u8, u64)>,
    verdict: Verdict,
}

const RULES: usize = 5;

fn rules() -> [Rule; RULES] {
    let ms = Duration::from_millis;
    [
        rule(10_000, 5),
        Rule::FixedWindow(FixedWindow::new(20, ms(2), Align::Clock).unwrap()),
        Rule::SlidingWindowLog(SlidingWindowLog::new(25, ms(3)).unwrap()),
        Rule::SlidingWindowCounter(SlidingWindowCounter::new(30, ms(3)).unwrap()),
        Rule::LeakyBucket(
            LeakyBucket::new(10_000, ms(1_000)).unwrap().with_max_wait(ms(1)).unwrap().with_max_queue(8).unwrap(),
        ),
    ]
}

fn verdict_of(store: &MemoryStore, rules: &[Rule; RULES], checks: &[(usize, u8, u64)]) -> Verdict {
    const SCOPES: [&str; RULES] = ["r0", "r1", "r2", "r3", "r4"];
    let checks = checks.iter().map(|(at, key, cost)| Check {
        key: BucketKey { scope: SCOPES[*at], id: std::slice::from_ref(key) },
        rule: &rules[*at],
        cost: *cost,
    });
    decide_all(store, &checks.collect::<Vec<_>>())
}

/// A log of decisions by several threads has the order in which they took the locks.
#[test]
fn decisions_of_many_threads_are_repeated_in_the_order_of_their_times() {
    let capacity = NonZeroUsize::new(1_000).unwrap();
    let (store, rules) = (MemoryStore::with_clock(Arc::new(OneClock::default())).with_max_keys(capacity), rules());
    let run = |seed: u64| {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut decide = |_| {
            let first = random.usize(..RULES);
            let check = |offset| ((first + offset) % RULES, random.u8(..3), random.u64(1..3));
            let checks: Vec<_> = (0..1 + first % 3).map(check).collect();
            let verdict = verdict_of(&store, &rules, &checks);
            Decided { checks, verdict }
        };
        (0..10_000).map(&mut decide).collect::<Vec<_>>()
    };
    let mut decided: Vec<Decided> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|seed| scope.spawn(move || run(seed))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    decided.sort_by_key(|decided| (decided.verdict.decided_at_us(), decided.verdict.order));

    let clock = Arc::new(ManualClock::default());
    let replay = MemoryStore::with_clock(clock.clone()).with_max_keys(capacity);
    let mut outcomes = [0, 0];
    for (at, Decided { checks, verdict }) in decided.iter().enumerate() {
        clock.set(verdict.decided_at_us());
        let again = Verdict { order: verdict.order, ..verdict_of(&replay, &rules, checks) };
        assert_eq!(again, *verdict, "decision {at}: {checks:?}");
        outcomes[usize::from(verdict.is_allowed())] += 1;
    }
    assert!(outcomes.into_iter().all(|count| count > 500), "{outcomes:?}");
}
