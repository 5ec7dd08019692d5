use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::verdict::Source;

#[derive(Clone, Debug)]
struct Step {
    gap_us: u64,
    key: u8,
    cost: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![Just(0), 1u64..1_000, 1u64..2_000_000, 1u64..100_000_000];
    let step = (gap, 0u8..4, 1u64..5).prop_map(|(gap_us, key, cost)| Step { gap_us, key, cost });
    prop::collection::vec(step, 1..100)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decides_like_one_bucket_per_key_despite_sweeps(
        rate in 1u64..1_000, burst in 0u64..20, steps in steps(), sweep_every in 1usize..20
    ) {
        let (store, clock) = store(1_000);
        let mut model: [Option<Bucket>; 4] = [None; 4];
        for (n, step) in steps.iter().enumerate() {
            clock.advance(Duration::from_micros(step.gap_us));
            let rule = bucket(rate, burst);
            let state = &mut model[usize::from(step.key)];
            let (expected, new) = rule.decide(state.as_ref(), Moment::at(clock.now_us()), step.cost);
            *state = new.or(*state);
            let check = Check { key: BucketKey { scope: "r", id: &[step.key] }, rule: &Rule::Gcra(rule), cost: step.cost };
            let verdict = Verdict { order: 0, ..decide_all(&store, &[check]) };
            prop_assert_eq!(verdict, expected.into_verdict(Source::Memory));
            if n % sweep_every == 0 {
                store.sweep_shard(n);
            }
        }
    }

    #[test]
    fn no_key_exceeds_its_bound_when_the_store_is_too_small(max_keys in 1usize..4, steps in steps()) {
        let (store, clock) = store(max_keys);
        let (rate, burst) = (2u64, 3u64);
        let mut admitted: [Vec<u64>; 4] = Default::default();
        for (n, step) in steps.iter().enumerate() {
            clock.advance(Duration::from_micros(step.gap_us));
            let verdict = decide(&store, "r", &[step.key], &rule(rate, burst));
            let of_key = &mut admitted[usize::from(step.key)];
            if verdict.outcome == Outcome::Allowed {
                of_key.push(clock.now_us());
                for (from, &at) in of_key.iter().enumerate() {
                    let tokens = (of_key.len() - from) as u64;
                    prop_assert!(tokens * 1_000_000 <= burst * 1_000_000 + rate * (clock.now_us() - at));
                }
            }
            if n % 7 == 0 {
                store.sweep();
            }
        }
    }
}
