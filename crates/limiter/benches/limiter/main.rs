//! The memory store compared with governor: time per decision and bytes per key.
//!
//! `cargo bench -p tollgate-limiter --bench limiter` runs criterion. `-- --rounds 9` runs nine rounds in turn, for machines
//! with varying speed, and `-- --rounds 9 String check` only the competitors with these texts in their names. `-- --test` runs each benchmark once. Results are in `benches/README.md`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs, unsafe_code)]

mod contest;
mod rounds;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use contest::{ALL, timed};
use criterion::{Criterion, Throughput};

const MILLION: u64 = 1_000_000;

/// Numbers of keys.
const SIZES: [(&str, u64); 3] = [("1 key", 1), ("10,000 keys", 10_000), ("1,000,000 keys", MILLION)];

/// Counts allocated bytes while enabled, to measure bytes per key. Counting always would slow down allocating
/// competitors.
struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is forwarded unchanged to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTS.load(Ordering::Relaxed) {
            ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        }
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if COUNTS.load(Ordering::Relaxed) {
            ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        }
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn bytes() {
    for (who, make) in ALL.iter().skip(1).filter(|(who, _)| !who.ends_with("clock")) {
        COUNTS.store(true, Ordering::Relaxed);
        let before = ALLOCATED.load(Ordering::Relaxed);
        let decide = make(MILLION);
        let taken = ALLOCATED.load(Ordering::Relaxed) - before;
        COUNTS.store(false, Ordering::Relaxed);
        drop(decide);
        println!("{who}: {:.1} bytes a key at 1,000,000 keys", taken as f64 / MILLION as f64);
    }
}

fn decisions(criterion: &mut Criterion) {
    for (size, keys) in SIZES {
        let mut group = criterion.benchmark_group(size);
        group.throughput(Throughput::Elements(1)).sample_size(10).measurement_time(Duration::from_secs(2));
        for (who, make) in ALL {
            let decide = make(keys);
            for threads in [1, 2] {
                group.bench_function(format!("{who}, threads: {threads}"), |bencher| {
                    bencher.iter_custom(|checks| timed(&vec![&decide; threads], keys, checks)[0]);
                });
            }
        }
        group.finish();
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--rounds") {
        let rounds = args.get(at + 1).and_then(|rounds| rounds.parse().ok()).unwrap_or(5);
        return rounds::run(rounds, args.get(at + 2..).unwrap_or_default());
    }
    bytes();
    let mut criterion = Criterion::default().configure_from_args();
    decisions(&mut criterion);
    criterion.final_summary();
}
