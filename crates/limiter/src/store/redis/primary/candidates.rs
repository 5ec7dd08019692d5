//! Whom to believe.

use crate::store::redis::settings::HostPort;

/// A server that was called the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) server: HostPort,
    /// Grows with every failover (Sentinel documentation, "Configuration epochs").
    pub(super) epoch: u64,
}

/// The servers that may be the primary, those to be tried first in front: of the latest epoch, and among those whom
/// most Sentinels name.
///
/// A failover takes the votes of most Sentinels. So if most have answered, one of them knows of the last one, and an
/// epoch that is behind `known`, the primary in use, means that they were set up anew. If fewer have, they may be cut
/// off with an old primary, and what they say counts only if it is no step back; the one in use may be right as well.
pub(super) fn candidates(answers: &[Named], sentinels: usize, known: Option<&Named>) -> Vec<Named> {
    let most_answered = answers.len() * 2 > sentinels;
    let least = known.filter(|_| !most_answered).map_or(0, |known| known.epoch);
    let mut counted: Vec<(&Named, usize)> = Vec::new();
    for named in answers.iter().filter(|named| named.epoch >= least) {
        match counted.iter_mut().find(|(other, _)| *other == named) {
            Some((_, votes)) => *votes += 1,
            None => counted.push((named, 1)),
        }
    }
    if !most_answered && let Some(known) = known {
        counted.push((known, 0));
    }
    counted.sort_by_key(|(named, votes)| std::cmp::Reverse((named.epoch, *votes)));
    let mut ranked: Vec<Named> = Vec::new();
    for (named, _) in counted {
        if ranked.iter().all(|other| other.server != named.server) {
            ranked.push(named.clone());
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

    fn named(port: u16, epoch: u64) -> Named {
        Named { server: HostPort { host: "h".into(), port }, epoch }
    }

    fn ports(answers: &[(u16, u64)], known: Option<(u16, u64)>) -> Vec<u16> {
        let answers: Vec<Named> = answers.iter().map(|&(port, epoch)| named(port, epoch)).collect();
        let known = known.map(|(port, epoch)| named(port, epoch));
        candidates(&answers, 3, known.as_ref()).into_iter().map(|named| named.server.port).collect()
    }

    #[test]
    fn the_latest_epoch_goes_first_and_then_the_most_votes() {
        assert_eq!(ports(&[(1, 4), (1, 4), (2, 5)], None), [2, 1]);
        assert_eq!(ports(&[(1, 4), (2, 4), (2, 4)], None), [2, 1]);
        assert_eq!(ports(&[(1, 4), (2, 5), (2, 4)], None), [2, 1], "each server once");
    }

    #[test]
    fn a_minority_cannot_lead_back() {
        assert_eq!(ports(&[(1, 4)], Some((2, 5))), [2]);
        assert_eq!(ports(&[(1, 5)], Some((2, 5))), [1, 2]);
        assert_eq!(ports(&[(3, 6)], Some((2, 5))), [3, 2]);
        assert_eq!(ports(&[(1, 0), (1, 0)], Some((2, 5))), [1], "but most of them can: they were set up anew");
    }

    #[test]
    fn without_sentinels_the_one_in_use_stays() {
        assert_eq!(ports(&[], Some((2, 5))), [2]);
        assert!(ports(&[], None).is_empty());
    }

    #[test]
    fn no_order_of_answers_makes_a_difference_to_who_is_best() {
        let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
        let answers = proptest::collection::vec((1..4u16, 0..4u64), 0..5);
        TestRunner::new(config)
            .run(&(answers, proptest::option::of((1..4u16, 0..4u64))), |(answers, known)| {
                let found = ports(&answers, known);
                let newest = answers.iter().map(|&(_, epoch)| epoch).max();
                let most = answers.len() * 2 > 3;
                let expected = if most { newest } else { newest.max(known.map(|(_, epoch)| epoch)) };
                let of_newest = |&(port, epoch): &(u16, u64)| Some(epoch) == expected && found.first() == Some(&port);
                prop_assert_eq!(found.is_empty(), expected.is_none());
                prop_assert!(expected.is_none() || answers.iter().chain(&known).any(of_newest));
                Ok(())
            })
            .unwrap();
    }
}
