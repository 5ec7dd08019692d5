//! The memory store beside governor: time a decision, and bytes a key.
//!
//! `cargo bench -p tollgate-filters --bench limiter`; with `-- --test` each runs once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs, unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use governor::{Quota, RateLimiter};
use tollgate_filters::limiter::key::BucketKey;
use tollgate_filters::limiter::rule::TokenBucket;
use tollgate_filters::limiter::store::memory::MemoryStore;
use tollgate_filters::limiter::store::{Decision, Store};

const MILLION: usize = 1_000_000;

/// Counts what is allocated, for the bytes a key takes.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// 21 bytes, like an address and a port.
fn text_key(n: u64) -> String {
    format!("client-{n:014}")
}

/// The next number of a cheap sequence without order.
fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

/// A decision on a key, by name and by number.
type Decide<'a> = &'a (dyn Fn(&str, u64) -> bool + Sync);

/// Time that `iterations` random decisions take each of `threads`, the slowest counting.
fn timed(decide: Decide<'_>, keys: &[String], threads: u64, iterations: u64) -> Duration {
    let run = |seed: u64| {
        let mut random = seed * 0x9E37_79B9_7F4A_7C15 + 1;
        let start = Instant::now();
        for _ in 0..iterations {
            let n = next(&mut random) % keys.len() as u64;
            black_box(decide(&keys[n as usize], n));
        }
        start.elapsed()
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (1..=threads).map(|seed| scope.spawn(move || run(seed))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).max().unwrap()
    })
}

fn decisions(criterion: &mut Criterion) {
    let ample = NonZeroU32::new(1_000_000).unwrap();
    let rule = TokenBucket::new(ample.get(), ample.get(), 1).unwrap();
    let quota = Quota::per_second(ample);
    let all_keys: Vec<String> = (0..MILLION as u64).map(text_key).collect();

    for (name, count) in [("1 key", 1), ("10,000 keys", 10_000), ("1,000,000 keys", MILLION)] {
        let store = MemoryStore::new(NonZeroUsize::new(2 * MILLION).unwrap());
        let by_text = RateLimiter::<String, _, _>::dashmap(quota);
        let by_number = RateLimiter::<u64, _, _>::dashmap(quota);
        let ours = |key: &str, _| {
            let Decision::Ready(verdict) = store.decide(BucketKey { scope: "orders", id: key.as_bytes() }, &rule)
            else {
                return false;
            };
            verdict.is_allowed()
        };
        // It wants an owned key to look up.
        let text = |key: &str, _| by_text.check_key(&key.to_owned()).is_ok();
        let number = |_: &str, n: u64| by_number.check_key(&n).is_ok();
        let keys = &all_keys[..count];
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(1)).sample_size(10).measurement_time(Duration::from_secs(2));
        for (who, decide) in [("tollgate", &ours as Decide<'_>), ("governor String", &text), ("governor u64", &number)]
        {
            keys.iter().enumerate().for_each(|(n, key)| {
                black_box(decide(key, n as u64));
            });
            for threads in [1, 2] {
                group.bench_function(format!("{who}, threads: {threads}"), |bencher| {
                    bencher.iter_custom(|iterations| timed(decide, keys, threads, iterations));
                });
            }
        }
        group.finish();
    }
}

fn bytes(_: &mut Criterion) {
    let one = NonZeroU32::MIN;
    let rule = TokenBucket::new(1, 1_000, 1).unwrap();
    let quota = Quota::per_second(one).allow_burst(NonZeroU32::new(1_000).unwrap());
    let store = MemoryStore::new(NonZeroUsize::new(2 * MILLION).unwrap());
    let by_text = RateLimiter::<String, _, _>::dashmap(quota);
    let by_number = RateLimiter::<u64, _, _>::dashmap(quota);
    let ours = |key: &str, _| {
        matches!(store.decide(BucketKey { scope: "orders", id: key.as_bytes() }, &rule), Decision::Ready(_))
    };
    let text = |key: &str, _| by_text.check_key(&key.to_owned()).is_ok();
    let number = |_: &str, n: u64| by_number.check_key(&n).is_ok();
    for (who, decide) in [("tollgate", &ours as Decide<'_>), ("governor String", &text), ("governor u64", &number)] {
        let before = ALLOCATED.load(Ordering::Relaxed);
        (0..MILLION as u64).for_each(|n| {
            black_box(decide(&text_key(n), n));
        });
        let taken = ALLOCATED.load(Ordering::Relaxed) - before;
        println!("{who}: {:.1} bytes a key at 1,000,000 keys", taken as f64 / MILLION as f64);
    }
}

criterion_group!(benches, bytes, decisions);
criterion_main!(benches);
