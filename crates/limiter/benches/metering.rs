//! Cost of counting a request: the name and the cell in the ledger, without Redis and HTTP.
//! `cargo bench -p tollgate-limiter --bench metering`

#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use tollgate_limiter::metering::{Counts, Dimensions, Ledger, Meter, MeterSettings, Period};

fn meter() -> Meter {
    let settings = MeterSettings {
        scope: "orders".into(),
        route: "orders".into(),
        dimensions: Dimensions::default(),
        period: Period::Day,
        ttl: Duration::from_secs(35 * 86_400),
        hash_ids: false,
    };
    Meter::new(Arc::new(Ledger::new(100_000)), &settings)
}

fn count(meter: &Meter, id: &[u8]) {
    meter.count(meter.name(black_box(id)), "GET", 200, &Counts { requests: 1, bytes_in: 0, bytes_out: 512 });
}

fn metering(c: &mut Criterion) {
    for keys in [1_usize, 10_000] {
        let ids: Vec<String> = (0..keys).map(|n| format!("10.{}.{}.7", n / 250, n % 250)).collect();
        let (meter, mut turn) = (meter(), ids.iter().cycle());
        c.bench_function(&format!("count, {keys} keys"), |b| {
            b.iter(|| count(&meter, turn.next().unwrap().as_bytes()));
        });
    }
    // Two workers on one key: as fast as one if they do not contend.
    let meter = meter();
    c.bench_function("count, 1 key, 2 threads", |b| {
        b.iter_custom(|times| {
            let start = Instant::now();
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| (0..times).for_each(|_| count(&meter, b"10.0.0.1")));
                }
            });
            start.elapsed()
        });
    });
}

criterion_group!(benches, metering);
criterion_main!(benches);
