//! Competitors: the memory store and governor under the same rule, and the loop that calls them.

use std::future::Future as _;
use std::hint::black_box;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use governor::clock::{MonotonicClock, QuantaClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{
    Align, FixedWindow, LeakyBucket, Quota as Stock, Rule, SlidingWindowCounter, SlidingWindowLog, TokenBucket,
};
use tollgate_limiter::store::memory::{Clock, MemoryStore};
use tollgate_limiter::store::{Check, Decision, Store};

/// Rate per second, with a burst that no run uses up: every check is admitted.
const RATE: u32 = 1_000;
const BURST: u32 = 4_000_000_000;

/// Decision about a key, given as text and as number.
pub(crate) type Decide = Box<dyn Fn(&str, u64) -> bool + Sync>;

/// Creates a competitor and checks each of the keys once.
pub(crate) type Make = fn(u64) -> Decide;

/// Rule of all competitors, or the closest one of an algorithm.
fn bucket() -> TokenBucket {
    TokenBucket::per_second(RATE.into(), BURST.into()).unwrap()
}

/// Interval short enough that no request is denied. Waits are ignored, since the benchmark measures decisions.
fn leaky_bucket() -> LeakyBucket {
    LeakyBucket::new(1_000_000, Duration::from_secs(1))
        .unwrap()
        .with_max_wait(HOUR)
        .unwrap()
        .with_max_queue(1_000_000_000_000)
        .unwrap()
}

const HOUR: Duration = Duration::from_secs(3_600);

/// All competitors by name. The first is the empty loop; its time is included in all others.
pub(crate) const ALL: [(&str, Make); 15] = [
    ("the loop alone", |_| Box::new(|key, number| black_box(key).len() as u64 != black_box(number) + 1_000_000_000)),
    ("token-bucket", |keys| tollgate(keys, vec![Rule::TokenBucket(bucket())])),
    ("token-bucket, quanta", |keys| {
        decided_by(
            MemoryStore::with_clock(Arc::new(QuantaTime::default())).with_max_keys(MAX_KEYS),
            keys,
            vec![Rule::TokenBucket(bucket())],
        )
    }),
    ("RateLimiter::check", rate_limiter),
    ("gcra", |keys| tollgate(keys, vec![Rule::Gcra(bucket())])),
    ("fixed-window", |keys| {
        tollgate(keys, vec![Rule::FixedWindow(FixedWindow::new(BURST.into(), HOUR, Align::First).unwrap())])
    }),
    ("sliding-window-log", |keys| {
        // A log has at most a million entries, which one key would reach in a second.
        let window = if keys < 100_000 { Duration::from_millis(50) } else { HOUR };
        tollgate(keys, vec![Rule::SlidingWindowLog(SlidingWindowLog::new(1_000_000, window).unwrap())])
    }),
    ("sliding-window-counter", |keys| {
        tollgate(keys, vec![Rule::SlidingWindowCounter(SlidingWindowCounter::new(BURST.into(), HOUR).unwrap())])
    }),
    ("leaky-bucket", |keys| tollgate(keys, vec![Rule::LeakyBucket(leaky_bucket())])),
    ("quota", |keys| tollgate(keys, vec![Rule::Quota(Stock::new(BURST.into()).unwrap())])),
    ("three gcra rules", |keys| tollgate(keys, vec![Rule::Gcra(bucket()); 3])),
    ("governor String", by_text::<QuantaClock>),
    ("governor u64", by_number::<QuantaClock>),
    ("governor String, std clock", by_text::<MonotonicClock>),
    ("governor u64, std clock", by_number::<MonotonicClock>),
];

/// The processor's time stamp counter, as governor reads it by default.
struct QuantaTime {
    clock: quanta::Clock,
    start: u64,
}

impl Default for QuantaTime {
    fn default() -> Self {
        let clock = quanta::Clock::new();
        Self { start: clock.raw(), clock }
    }
}

impl Clock for QuantaTime {
    fn now_us(&self) -> u64 {
        self.clock.delta_as_nanos(self.start, self.clock.raw()) / 1_000
    }
    fn wall_us(&self) -> u64 {
        self.now_us()
    }
    fn both_us(&self) -> (u64, u64) {
        let now_us = self.now_us();
        (now_us, now_us)
    }
}

/// The interface for users, with the future of a check.
fn rate_limiter(keys: u64) -> Decide {
    let limiter = tollgate_limiter::RateLimiter::new("orders", bucket(), MemoryStore::new(MAX_KEYS));
    let ask = move |key: &str, cost| {
        let check = std::pin::pin!(limiter.check(key, cost));
        match check.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(verdict) => verdict.is_allowed(),
            Poll::Pending => false,
        }
    };
    (0..keys).for_each(|n| assert!(with_key(n, |key| ask(key, 1_000_000))));
    Box::new(move |key, _| ask(key, 1))
}

const MAX_KEYS: NonZeroUsize = NonZeroUsize::new(4_000_000).unwrap();

fn tollgate(keys: u64, rules: Vec<Rule>) -> Decide {
    decided_by(MemoryStore::new(MAX_KEYS), keys, rules)
}

fn decided_by(store: MemoryStore, keys: u64, rules: Vec<Rule>) -> Decide {
    const SCOPES: [&str; 3] = ["orders", "orders#minute", "orders#hour"];
    // Enough tokens for a quarter of an hour: a full bucket would yield its slot to the next new key.
    let first = match rules[0] {
        Rule::TokenBucket(_) | Rule::Gcra(_) => 1_000_000,
        Rule::LeakyBucket(_) => 900_000_000,
        _ => 1,
    };
    let ask = move |key: &str, cost| {
        let check = |n: usize| Check { key: BucketKey { scope: SCOPES[n], id: key.as_bytes() }, rule: &rules[n], cost };
        let decision = if rules.len() == 1 {
            store.decide(&[check(0)], &[])
        } else {
            store.decide(&(0..rules.len()).map(check).collect::<Vec<_>>(), &[])
        };
        match decision {
            Decision::Ready(verdict) => verdict.is_allowed(),
            Decision::Pending(_) => false,
        }
    };
    (0..keys).for_each(|n| assert!(with_key(n, |key| ask(key, first))));
    Box::new(move |key, _| ask(key, 1))
}

fn quota() -> Quota {
    Quota::per_second(NonZeroU32::new(RATE).unwrap()).allow_burst(NonZeroU32::new(BURST).unwrap())
}

fn by_text<C: governor::clock::Clock + Default + Sync + 'static>(keys: u64) -> Decide
where
    C::Instant: Sync,
{
    let limiter: RateLimiter<String, DashMapStateStore<String>, C, NoOpMiddleware<C::Instant>> =
        RateLimiter::new(quota(), DashMapStateStore::default(), C::default());
    // The lookup needs an owned key.
    let ask = move |key: &str, _| limiter.check_key(&key.to_owned()).is_ok();
    (0..keys).for_each(|n| assert!(with_key(n, |key| ask(key, n))));
    Box::new(ask)
}

fn by_number<C: governor::clock::Clock + Default + Sync + 'static>(keys: u64) -> Decide
where
    C::Instant: Sync,
{
    let limiter: RateLimiter<u64, DashMapStateStore<u64>, C, NoOpMiddleware<C::Instant>> =
        RateLimiter::new(quota(), DashMapStateStore::default(), C::default());
    let ask = move |_: &str, number| limiter.check_key(&number).is_ok();
    (0..keys).for_each(|n| assert!(ask("", n)));
    Box::new(ask)
}

/// Calls `f` with key `n`: 21 bytes on the stack, as in a gateway that has just read them. An array of all keys would add
/// its own cache misses.
#[inline]
pub(crate) fn with_key<T>(n: u64, f: impl FnOnce(&str) -> T) -> T {
    let mut key = *b"client-10.10.10.0:...";
    for (place, byte) in key[18..].iter_mut().enumerate() {
        *byte = (n >> (7 * place)) as u8 & 0x7F;
    }
    f(str::from_utf8(&key).unwrap())
}

/// Returns the mean time of `checks` of random keys per thread, and the processor time, which excludes other processes and
/// sleeping.
pub(crate) fn timed(deciders: &[&Decide], keys: u64, checks: u64) -> [Duration; 2] {
    let barrier = Barrier::new(deciders.len());
    let run = |decide: &Decide, seed: u64| {
        let mut random = seed * 0x9E37_79B9_7F4A_7C15 + 1;
        barrier.wait();
        let (start, start_on_cpu) = (Instant::now(), on_cpu());
        for _ in 0..checks {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let n = random % keys;
            assert!(black_box(with_key(n, |key| decide(key, n))));
        }
        [start.elapsed(), on_cpu() - start_on_cpu]
    };
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> =
            (1..).zip(deciders).map(|(seed, decide)| scope.spawn(move || run(decide, seed))).collect();
        let times: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        [0, 1].map(|n| times.iter().map(|both| both[n]).sum::<Duration>() / times.len() as u32)
    })
}

/// Returns the processor time of this thread: proc_pid_schedstat(5).
fn on_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or_default())
}
