#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::algorithm::token_bucket::Bucket;

fn bucket(full_at_us: u64) -> Bucket {
    Bucket { full_at_us, flow: 0, rem: 0 }
}

fn hash(hash: u64) -> KeyHash {
    KeyHash(hash)
}

#[test]
fn forget_deletes_one_key_and_keeps_the_others() {
    let mut table = Table::default();
    // All at one home, so that each stands in the way of the next.
    (1..=12).for_each(|n| table.set(hash(n), bucket(n), Moment::at(0)));
    let mut forget = |n| table.forget(hash(n)).is_some();
    assert!(forget(4) && !forget(4) && !forget(99));
    assert_eq!((table.used, table.get(hash(4)).is_none()), (11, true));
    assert!((1..=12).filter(|n| *n != 4).all(|n| table.get(hash(n)).is_some_and(|b| b.full_at_us == n)));
}

#[test]
fn a_slot_takes_24_bytes() {
    assert_eq!(size_of::<Slot<Bucket>>(), 24);
}

#[test]
fn an_empty_table_owns_no_memory_and_finds_nothing() {
    let table = Table::default();
    assert_eq!((table.allocated_bytes(), table.get(hash(1))), (0, None::<&Bucket>));
}

#[test]
fn keys_that_probe_from_one_slot_are_all_found() {
    let mut table = Table::default();
    let crowd: Vec<u64> = (0..1_000).map(|i| u64::MAX - i).collect();
    crowd.iter().for_each(|&fp| table.set(hash(fp), bucket(fp), Moment::at(0)));
    assert!(crowd.iter().all(|&fp| table.get(hash(fp)) == Some(&bucket(fp))));
    assert_eq!(table.get(hash(7)), None);
}

#[test]
fn an_entry_takes_at_most_40_bytes_from_a_few_dozen_on() {
    let mut table = Table::default();
    for n in 1..20_000u64 {
        table.set(hash(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)), bucket(1), Moment::at(0));
        assert!(n < 40 || table.allocated_bytes() <= 40 * n as usize, "{n} keys take {}", table.allocated_bytes());
    }
}

#[test]
fn an_expired_state_yields_its_slot_to_a_new_key() {
    let mut table = Table::default();
    table.set(hash(5), bucket(10), Moment::at(0));
    assert_eq!(table.expired_slot(hash(6), Moment::at(9)), None);
    let (index, owner) = table.expired_slot(hash(6), Moment::at(10)).unwrap();
    table.replace(index, hash(6), bucket(20), owner);
    assert_eq!((table.get(hash(5)), table.get(hash(6))), (None, Some(&bucket(20))));
}

#[test]
fn sweeping_all_states_releases_the_memory() {
    let mut table = Table::default();
    (1..100).for_each(|fp| table.set(hash(fp << 56), bucket(9), Moment::at(0)));
    let mut sweep = |now_us| {
        let mut released = Released::default();
        table.sweep(Moment::at(now_us), &mut released);
        released.total()
    };
    assert_eq!((sweep(8), sweep(9)), (0, 99));
    assert_eq!(table.allocated_bytes(), 0);
    table.set(hash(1), bucket(12), Moment::at(10));
    assert_eq!(table.get(hash(1)), Some(&bucket(12)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_a_map_that_may_drop_expired_states(
        steps in prop::collection::vec((0u64..60, 1u64..100, 0u64..3, 0u8..20), 1..300)
    ) {
        let (mut table, mut map, mut now_us) = (Table::default(), HashMap::new(), 0);
        for (key, fills_in, gap, action) in steps {
            now_us += gap;
            let key = key.wrapping_mul(if key % 2 == 0 { 1 } else { 0x9E37_79B9_7F4A_7C15 });
            if action == 0 {
                table.sweep(Moment::at(now_us), &mut Released::default());
            } else {
                table.set(hash(key), bucket(now_us + fills_in), Moment::at(now_us));
                map.insert(key, bucket(now_us + fills_in));
            }
            for (&key, &expected) in &map {
                let found = table.get(hash(key));
                prop_assert!(found == Some(&expected) || (found.is_none() && expected.full_at_us <= now_us));
            }
            prop_assert!(table.used <= map.len() && table.used * 5 <= table.slots.len() * 4);
        }
    }
}
