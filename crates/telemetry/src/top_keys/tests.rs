#![allow(clippy::unwrap_used)]
use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn name() -> RuleName {
    RuleName { route: "orders".into(), rule: "daily".into(), plan: None }
}

fn query(limit: usize) -> Query {
    Query { verdicts: &[CountedVerdict::Denied], route: None, rule: None, limit }
}

/// Checks the promises of `sketch` for a stream with these exact counts.
fn check(sketch: &Sketch, exact: &HashMap<Vec<u8>, u64>, entries: usize) {
    let total: u64 = exact.values().sum();
    assert_eq!(sketch.total(), total);
    let bound = total / entries as u64;
    let (top, others) = sketch.top(usize::MAX);
    assert!(top.len() <= entries && top.is_sorted_by(|a, b| a.count >= b.count));
    let sum: u64 = top.iter().map(|key| key.count).sum();
    assert_eq!(sum, total, "the counts of all entries add up to the events");
    for KeyCount { key, count, error, .. } in &top {
        let exact = exact[&**key];
        assert!(*count >= exact && count - error <= exact, "{count} - {error} for {exact}");
        assert!(*error <= bound, "an error of {error} above {bound}");
    }
    assert!(others <= bound);
    for (key, exact) in exact {
        let is_listed = top.iter().any(|listed| *listed.key == **key);
        assert!(is_listed || *exact <= others, "{exact} events without an entry, above {others}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn counts_stay_within_the_bound_of_an_exact_count(
        entries in 1_usize..20,
        stream in proptest::collection::vec((0_u8..4, 0_u16..60), 0..600),
    ) {
        let mut sketch = Sketch::new(entries);
        let mut exact: HashMap<Vec<u8>, u64> = HashMap::new();
        for (spread, key) in stream {
            // A few frequent keys among many rare ones.
            let key = (key >> spread).to_string().into_bytes();
            sketch.observe(&key);
            *exact.entry(key).or_default() += 1;
        }
        check(&sketch, &exact, entries);
    }

    #[test]
    fn merged_counts_bound_the_exact_sum(
        entries in 1_usize..20,
        streams in proptest::collection::vec(proptest::collection::vec(0_u16..40, 0..200), 1..4),
    ) {
        let mut exact: HashMap<Vec<u8>, u64> = HashMap::new();
        let answers: Vec<WorkerTop> = streams.iter().map(|stream| {
            let mut sketch = Sketch::new(entries);
            for key in stream {
                // Each key is half as frequent as the one before.
                let key = key.trailing_ones().to_string().into_bytes();
                sketch.observe(&key);
                *exact.entry(key).or_default() += 1;
            }
            let (keys, others) = sketch.top(entries.min(8));
            let sketches = vec![SketchTop { name: name(), total: sketch.total(), keys, others }];
            WorkerTop { covered: WINDOW, sketches }
        }).collect();
        let top = merge::merge(answers, streams.len(), 100);
        prop_assert_eq!(top.rules[0].total, exact.values().sum::<u64>());
        for KeyCount { key, count, error, .. } in &top.rules[0].keys {
            let exact = exact[&**key];
            prop_assert!(*count >= exact && count - error <= exact, "{count} - {error} for {exact}");
        }
    }
}

#[test]
fn five_hot_keys_among_a_million_are_counted_within_one_percent() {
    let mut sketch = Sketch::new(MAX_ENTRIES);
    let hot = ["hot-0", "hot-1", "hot-2", "hot-3", "hot-4"];
    for rare in 0..1_000_000_u32 {
        sketch.observe(format!("rotating-{rare}").as_bytes());
        // The hot keys start late, when the others have filled the sketch.
        if rare >= 10_000 && rare % 10 < 5 {
            sketch.observe(hot[rare as usize % 5].as_bytes());
        }
    }
    let (top, _) = sketch.top(5);
    for key in &top {
        assert!(key.key.starts_with(b"hot-"), "{:?}", String::from_utf8_lossy(&key.key));
        assert!((99_000..=99_990).contains(&key.count), "{} of 99,000", key.count);
        assert!(key.count.abs_diff(99_000) <= 990, "{} of 99,000", key.count);
    }
    assert_eq!(top.len(), 5);
}

#[test]
fn long_keys_are_cut_and_told_apart() {
    let mut sketch = Sketch::new(4);
    let long = |end: &str| format!("{}{end}", "k".repeat(500));
    for key in [long("a"), long("a"), long("b"), "short".to_owned()] {
        sketch.observe(key.as_bytes());
    }
    let (top, others) = sketch.top(10);
    let shown: Vec<_> = top.iter().map(|key| (key.key.len(), key.is_cut, key.count)).collect();
    assert_eq!(shown[0], (128, true, 2));
    assert!(shown.contains(&(128, true, 1)) && shown.contains(&(5, false, 1)), "{shown:?}");
    assert_eq!(others, 0, "the sketch has room");
}

#[test]
fn an_answer_covers_the_current_window_and_the_one_before() {
    let start = Instant::now();
    let mut keys = WorkerKeys::new(start);
    let rule = keys.register(name());
    assert_eq!(keys.register(name()).slot, rule.slot, "a reload keeps the counts");
    let counted = |keys: &WorkerKeys, secs: u64| {
        let read = keys.read(&query(10), start + Duration::from_secs(secs));
        (read.sketches.iter().map(|sketch| sketch.total).sum::<u64>(), read.covered.as_secs())
    };
    keys.observe(&rule, CountedVerdict::Denied, b"a");
    keys.observe(&rule, CountedVerdict::Allowed, b"a");
    keys.tick(start + Duration::from_secs(59));
    assert_eq!(counted(&keys, 59), (1, 59));
    keys.tick(start + Duration::from_secs(60));
    keys.observe(&rule, CountedVerdict::Denied, b"b");
    assert_eq!(counted(&keys, 61), (2, 61));
    keys.tick(start + Duration::from_secs(120));
    assert_eq!(counted(&keys, 121), (1, 61));
    keys.tick(start + Duration::from_secs(180));
    assert_eq!(counted(&keys, 181), (0, 61));
}

#[test]
fn all_sketches_of_a_worker_share_its_entries() {
    for (rules, entries) in [(1, 1024), (5, 1024), (50, 109), (1_000, 64)] {
        let mut sketch = new_sketch(rules);
        (0..5_000_u32).for_each(|key| sketch.observe(&key.to_le_bytes()));
        assert_eq!(sketch.top(usize::MAX).0.len(), entries, "{rules} rules");
    }
}

#[test]
fn cut_keys_with_one_beginning_stay_apart_in_a_merge() {
    let long = |end: &str| format!("{}{end}", "k".repeat(500)).into_bytes();
    let answer = |counts: &[(&str, u32)]| {
        let mut sketch = Sketch::new(2);
        counts.iter().for_each(|(end, count)| (0..*count).for_each(|_| sketch.observe(&long(end))));
        let (keys, others) = sketch.top(usize::MAX);
        WorkerTop { covered: WINDOW, sketches: vec![SketchTop { name: name(), total: sketch.total(), keys, others }] }
    };
    // Both sketches are full, so that either may have missed a key of the other.
    let answers = vec![answer(&[("a", 5), ("b", 3)]), answer(&[("a", 4), ("c", 2)])];
    let top = merge::merge(answers, 2, 10);
    let counts: Vec<_> = top.rules[0].keys.iter().map(|key| (key.is_cut, key.count, key.count - key.error)).collect();
    assert_eq!(counts, [(true, 9, 9), (true, 5, 3), (true, 5, 2)], "upper and lower bounds of a, b and c");
}

#[test]
fn rules_that_are_gone_are_dropped_after_their_windows() {
    let start = Instant::now();
    let mut keys = WorkerKeys::new(start);
    let at = |minutes: u64| start + Duration::from_secs(60 * minutes);
    for reload in 0..100_u64 {
        let renamed = RuleName { route: format!("orders-{reload}").into(), ..name() };
        let (kept, gone) = (keys.register(name()), keys.register(renamed));
        keys.observe(&kept, CountedVerdict::Denied, b"a");
        keys.observe(&gone, CountedVerdict::Denied, b"b");
        drop(gone);
        let read = keys.read(&query(10), at(reload));
        assert!(read.sketches.iter().any(|sketch| *sketch.name.route == *format!("orders-{reload}")), "still counted");
        keys.tick(at(reload + 1));
        assert!(keys.rules.len() <= 4, "{} rules", keys.rules.len());
    }
}
