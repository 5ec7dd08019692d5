use std::sync::Arc;
use std::time::Duration;

use super::{Counts, Dimensions, Ledger, Meter, MeterSettings, Period, Usage};

fn meter(ledger: &Arc<Ledger>) -> Meter {
    let settings = MeterSettings {
        scope: "r".into(),
        route: "r".into(),
        dimensions: Dimensions { route: false, method: true, status: false },
        period: Period::Day,
        ttl: Duration::from_secs(2 * 86_400),
        hash_ids: false,
    };
    Meter::new(Arc::clone(ledger), &settings)
}

fn count(meter: &Meter, id: &str) {
    let counts = Counts { requests: 1, bytes_in: 2, bytes_out: 0 };
    meter.count_at(meter.name(id.as_bytes()), "GET", 200, &counts, 1_000);
}

#[test]
fn counts_of_all_threads_are_summed() {
    let ledger = Arc::new(Ledger::new(1_000));
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| (0..250).for_each(|_| count(&meter(&ledger), "a")));
        }
    });
    let fields = [("GET.bytes_in".to_owned(), 20_000), ("GET.requests".to_owned(), 10_000)];
    let name = "request_counter.{r.a}.1970-01-01".to_owned();
    assert_eq!(ledger.usage(), [Usage { name, fields: fields.into() }]);
    assert_eq!(ledger.status().counted, 10_000);
}

#[test]
fn beyond_the_bound_only_attribution_is_lost() {
    let ledger = Arc::new(Ledger::new(10));
    let meter = meter(&ledger);
    (0..1_000).for_each(|id| count(&meter, &id.to_string()));
    (0..10).for_each(|id| count(&meter, &id.to_string()));
    let status = ledger.status();
    assert_eq!((status.counted, status.overflowed, status.cells), (1_010, 990, 11));
    let usage = ledger.usage();
    let requests: u64 = usage.iter().map(|usage| usage.fields[1].1).sum();
    assert_eq!((usage.len(), requests), (11, 1_010));
    assert_eq!(usage[0].name, "request_counter.{r.#}.1970-01-01");
    assert_eq!(usage[1].fields[1], ("GET.requests".to_owned(), 2), "a known name keeps counting");
}

#[test]
fn counts_without_a_flusher_are_kept_until_they_expire() {
    let ledger = Arc::new(Ledger::new(1));
    count(&meter(&ledger), "a");
    ledger.sweep_at(1_000 + 2 * 86_400 - 1);
    assert_eq!(ledger.status().cells, 1);
    ledger.sweep_at(1_000 + 2 * 86_400);
    assert_eq!((ledger.status().cells, ledger.usage()), (0, vec![]));
    count(&meter(&ledger), "b");
    assert_eq!(ledger.status().overflowed, 0, "the ledger has room again");
}
