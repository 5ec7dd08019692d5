#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;

fn scope(number: u64) -> KeyHash {
    KeyHash(number)
}

fn declare(shares: &mut Shares, scopes: std::ops::Range<u64>) {
    shares.declare(&scopes.map(|number| (scope(number), number.to_string().into())).collect::<Vec<_>>());
}

fn fill(shares: &mut Shares, limiter: u64) -> usize {
    std::iter::from_fn(|| shares.take(scope(limiter), None, Demand::IfFree)).count()
}

#[test]
fn half_of_the_room_is_shared_equally_and_the_rest_is_for_any_limiter() {
    let mut shares = Shares::new(100);
    declare(&mut shares, 0..5);
    assert_eq!((0..5).map(|limiter| fill(&mut shares, limiter)).collect::<Vec<_>>(), [60, 10, 10, 10, 10]);
    assert_eq!(shares.len(), 100);
    shares.take(scope(3), None, Demand::Always).unwrap();
    assert_eq!(shares.len(), 101, "an operator's key");
}

#[test]
fn a_gateway_with_many_reloads_reuses_the_numbers_of_limiters_that_are_gone() {
    let mut shares = Shares::new(1_000_000);
    for reload in 0..100 {
        declare(&mut shares, reload * 200..(reload + 1) * 200);
    }
    assert!(shares.limiters.len() <= 400, "{}", shares.limiters.len());
    assert_eq!(shares.numbers.len(), 200);
}

#[test]
fn limiters_beyond_the_largest_number_use_the_pool() {
    let mut shares = Shares::new(1_000_000);
    declare(&mut shares, 0..70_000);
    declare(&mut shares, 0..70_000);
    assert_eq!(shares.numbers.len(), usize::from(u16::MAX));
    assert_eq!(shares.take(scope(69_999), None, Demand::IfFree), Some(Owner::POOL));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn entries_stay_within_the_room_and_no_limiter_takes_the_share_of_another(
        max_keys in 1usize..60,
        steps in prop::collection::vec((0u64..4, 0usize..100, 0u8..4), 1..300),
    ) {
        let mut shares = Shares::new(max_keys);
        declare(&mut shares, 0..4);
        let mut entries: Vec<Owner> = Vec::new();
        for (limiter, position, action) in steps {
            let existing = (!entries.is_empty()).then(|| position % entries.len().max(1));
            match (action, existing) {
                (0, Some(index)) => shares.release_one(entries.swap_remove(index)),
                (1, Some(index)) => {
                    if let Some(owner) = shares.take(scope(limiter), Some(entries[index]), Demand::IfFree) {
                        entries[index] = owner;
                    }
                }
                _ => entries.extend(shares.take(scope(limiter), None, Demand::IfFree)),
            }
            prop_assert_eq!(shares.len(), entries.len());
            prop_assert!(entries.len() <= max_keys);
            for number in 1..=4 {
                let used = entries.iter().filter(|owner| owner.0 == number).count();
                prop_assert!(used <= max_keys / 2 / 4);
            }
            let pooled = entries.iter().filter(|owner| **owner == Owner::POOL).count();
            prop_assert!(pooled <= max_keys - max_keys / 2 / 4 * 4);
        }
    }
}
