//! A million API keys: time to read their file, memory, and time of a look-up.

#![allow(missing_docs)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use tollgate_filters::api_key::{KeyTable, hash, hex};

const KEYS: usize = 1_000_000;

fn key(index: usize) -> String {
    // The length of a key of `tollgate keys new`.
    format!("{index:0>43}")
}

fn file() -> String {
    let mut text = String::with_capacity(KEYS * 130);
    for index in 0..KEYS {
        let hash = hex(&hash(key(index).as_bytes()));
        let _ = writeln!(text, "- {{id: client-{index}, sha256: {hash}, plan: gold, expires: 2099-01-01T00:00:00Z}}");
    }
    text
}

#[allow(clippy::print_stdout)]
fn keys(c: &mut Criterion) {
    let text = file();
    let started = Instant::now();
    let Ok(table) = KeyTable::parse(&text) else { return };
    println!(
        "{} keys read in {:?}, {} bytes each",
        table.len(),
        started.elapsed(),
        table.allocated_bytes() / table.len()
    );
    let mut group = c.benchmark_group("api key of a million");
    for (name, key) in [("known", key(777_777)), ("unknown", "guess".repeat(8))] {
        group.bench_function(name, |b| b.iter(|| table.find(&hash(black_box(key.as_bytes())))));
    }
    group.finish();
}

criterion_group!(benches, keys);
criterion_main!(benches);
