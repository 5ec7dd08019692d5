//! Ranking of servers that Sentinels name as the primary.

use crate::store::redis::connection_settings::HostPort;

/// Server that a Sentinel names as the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedPrimary {
    pub(super) server: HostPort,
    /// Configuration epoch, which grows with every failover (Sentinel documentation, "Configuration epochs").
    pub(super) epoch: u64,
}

/// Servers that may be the primary, best first: by latest epoch, then by the number of Sentinels that name them.
///
/// A failover needs the votes of a majority of Sentinels. If a majority replied, one of them knows the last failover, and
/// an epoch behind `current`, the current primary, means that the Sentinels were set up anew. A minority may be cut off
/// together with an old primary, so its reply counts only if its epoch is not older; the current primary stays a
/// candidate then.
pub(super) fn candidates(
    replies: &[NamedPrimary],
    sentinels: usize,
    current: Option<&NamedPrimary>,
) -> Vec<NamedPrimary> {
    let is_majority = replies.len() * 2 > sentinels;
    let least_epoch = current.filter(|_| !is_majority).map_or(0, |current| current.epoch);
    let mut counted: Vec<(&NamedPrimary, usize)> = Vec::new();
    for vote in replies.iter().filter(|vote| vote.epoch >= least_epoch) {
        match counted.iter_mut().find(|(other, _)| *other == vote) {
            Some((_, votes)) => *votes += 1,
            None => counted.push((vote, 1)),
        }
    }
    if !is_majority && let Some(current) = current {
        counted.push((current, 0));
    }
    counted.sort_by_key(|(candidate, votes)| std::cmp::Reverse((candidate.epoch, *votes)));
    let mut ranked: Vec<NamedPrimary> = Vec::new();
    for (candidate, _) in counted {
        if ranked.iter().all(|other| other.server != candidate.server) {
            ranked.push(candidate.clone());
        }
    }
    ranked
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;

    use super::*;

    fn named(port: u16, epoch: u64) -> NamedPrimary {
        NamedPrimary { server: HostPort { host: "h".into(), port }, epoch }
    }

    fn ports(replies: &[(u16, u64)], known: Option<(u16, u64)>) -> Vec<u16> {
        let replies: Vec<NamedPrimary> = replies.iter().map(|&(port, epoch)| named(port, epoch)).collect();
        let known = known.map(|(port, epoch)| named(port, epoch));
        candidates(&replies, 3, known.as_ref()).into_iter().map(|named| named.server.port).collect()
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
            .run(&(replies, proptest::option::of((1..4u16, 0..4u64))), |(replies, known)| {
                let found = ports(&replies, known);
                let newest = replies.iter().map(|&(_, epoch)| epoch).max();
                let is_majority = replies.len() * 2 > 3;
                let expected = if is_majority { newest } else { newest.max(known.map(|(_, epoch)| epoch)) };
                let of_newest = |&(port, epoch): &(u16, u64)| Some(epoch) == expected && found.first() == Some(&port);
                prop_assert_eq!(found.is_empty(), expected.is_none());
                prop_assert!(expected.is_none() || replies.iter().chain(&known).any(of_newest));
                Ok(())
            })
            .unwrap();
    }
}
