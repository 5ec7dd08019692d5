#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;

fn named(port: u16, epoch: u64) -> NamedPrimary {
    NamedPrimary { server: HostPort { host: "h".into(), port }, epoch }
}

fn ports(replies: &[(u16, u64)], current: Option<(u16, u64)>) -> Vec<u16> {
    let replies: Vec<NamedPrimary> = replies.iter().map(|&(port, epoch)| named(port, epoch)).collect();
    let current = current.map(|(port, epoch)| named(port, epoch));
    candidates(&replies, 3, current.as_ref()).into_iter().map(|candidate| candidate.server.port).collect()
}

#[test]
fn the_latest_epoch_ranks_first_and_then_the_most_votes() {
    assert_eq!(ports(&[(1, 4), (1, 4), (2, 5)], None), [2, 1]);
    assert_eq!(ports(&[(1, 4), (2, 4), (2, 4)], None), [2, 1]);
    assert_eq!(ports(&[(1, 4), (2, 5), (2, 4)], None), [2, 1], "each server once");
}

#[test]
fn a_minority_cannot_lead_back_to_an_older_epoch() {
    assert_eq!(ports(&[(1, 4)], Some((2, 5))), [2]);
    assert_eq!(ports(&[(1, 5)], Some((2, 5))), [1, 2]);
    assert_eq!(ports(&[(3, 6)], Some((2, 5))), [3, 2]);
    assert_eq!(ports(&[(1, 0), (1, 0)], Some((2, 5))), [1], "a majority can: the Sentinels were set up anew");
}

#[test]
fn without_sentinels_the_current_primary_stays() {
    assert_eq!(ports(&[], Some((2, 5))), [2]);
    assert!(ports(&[], None).is_empty());
}

#[test]
fn the_best_candidate_does_not_depend_on_the_order_of_replies() {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let replies = proptest::collection::vec((1..4u16, 0..4u64), 0..5);
    TestRunner::new(config)
        .run(&(replies, proptest::option::of((1..4u16, 0..4u64))), |(replies, current)| {
            let ranked = ports(&replies, current);
            let newest = replies.iter().map(|&(_, epoch)| epoch).max();
            let is_majority = replies.len() * 2 > 3;
            let expected = if is_majority { newest } else { newest.max(current.map(|(_, epoch)| epoch)) };
            let of_newest = |&(port, epoch): &(u16, u64)| Some(epoch) == expected && ranked.first() == Some(&port);
            prop_assert_eq!(ranked.is_empty(), expected.is_none());
            prop_assert!(expected.is_none() || replies.iter().chain(&current).any(of_newest));
            Ok(())
        })
        .unwrap();
}
