#![allow(clippy::unwrap_used, clippy::cast_precision_loss, clippy::cast_possible_truncation)]

use fastrand::Rng;
use proptest::prelude::*;

use crate::upstream::balance::policy::*;

#[derive(Clone, Copy, Debug)]
struct Server {
    id: u64,
    weight: u32,
    busy: u32,
}

impl Selectable for Server {
    fn weight(&self) -> u32 {
        self.weight
    }

    fn in_flight(&self) -> u32 {
        self.busy
    }

    fn identity(&self) -> u64 {
        hash(&self.id.to_be_bytes())
    }
}

fn servers(weights: &[u32]) -> Vec<Server> {
    weights.iter().zip(0..).map(|(weight, id)| Server { id, weight: *weight, busy: 0 }).collect()
}

fn all(_: &Server) -> bool {
    true
}

/// How often each was chosen in `count` choices.
fn shares(count: usize, of: usize, mut choose: impl FnMut(usize) -> Option<usize>) -> Vec<usize> {
    let mut shares = vec![0; of];
    for n in 0..count {
        shares[choose(n).unwrap()] += 1;
    }
    shares
}

#[test]
fn turns_are_spread_and_not_in_heaps() {
    let servers = servers(&[5, 1, 1]);
    let mut turns = RoundRobin::default();
    let order: Vec<usize> = (0..7).map(|_| turns.next(&servers, all).unwrap()).collect();
    assert_eq!(order, [0, 0, 1, 0, 2, 0, 0]);
}

#[test]
fn turns_begin_where_they_are_told_to() {
    let servers = servers(&[1, 1, 1]);
    let mut turns = RoundRobin::starting(3, 2);
    let order: Vec<usize> = (0..6).map(|_| turns.next(&servers, all).unwrap()).collect();
    assert_eq!(order, [2, 0, 1, 2, 0, 1]);
}

#[test]
fn the_busier_of_two_is_left_alone_in_proportion_to_weights() {
    let mut rng = Rng::with_seed(1);
    let pair = |weights: [u32; 2], busy: [u32; 2]| {
        let mut pair = servers(&weights);
        pair.iter_mut().zip(busy).for_each(|(server, busy)| server.busy = busy);
        pair
    };
    for (weights, busy, chosen) in [([1, 1], [4, 3], 1), ([3, 1], [4, 2], 0), ([3, 1], [4, 1], 1), ([1, 9], [0, 1], 0)]
    {
        let pair = pair(weights, busy);
        assert!((0..50).all(|_| least_request(&pair, all, &mut rng) == Some(chosen)), "{weights:?} {busy:?}");
    }
}

#[test]
fn two_choices_keep_the_highest_load_near_the_average() {
    let mut rng = Rng::with_seed(7);
    let spread = |rng: &mut Rng, choose: &dyn Fn(&[Server], &mut Rng) -> usize| {
        let mut servers = servers(&[1; 50]);
        for _ in 0..5000 {
            let chosen = choose(&servers, rng);
            servers[chosen].busy += 1;
        }
        servers.iter().map(|server| server.busy).max().unwrap()
    };
    let two = spread(&mut rng, &|servers, rng| least_request(servers, all, rng).unwrap());
    let one = spread(&mut rng, &|servers, rng| random(servers, all, rng).unwrap());
    assert!(two <= 104, "{two} of 100 on average");
    assert!(one > 112, "{one}: by lot alone it is worse, or the test shows nothing");
}

#[test]
fn the_same_key_belongs_to_the_same_endpoint_in_every_gateway() {
    // Written down: a change of these numbers would move every key of everybody at an upgrade.
    assert_eq!(hash(b"10.0.0.1:9000"), 0x6fdc_231f_30af_7b3a);
    let servers = servers(&[1, 1, 1, 1]);
    let of = |key: &[u8]| highest(hash(key), &servers, all).unwrap();
    assert_eq!([of(b"ada"), of(b"bob"), of(b"cy"), of(b"dee")], [3, 2, 0, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_whole_round_of_turns_is_exactly_the_weights(weights in proptest::collection::vec(0_u32..20, 1..8), first in 0_usize..8) {
        let sum: u32 = weights.iter().sum();
        prop_assume!(sum > 0);
        let servers = servers(&weights);
        let mut turns = RoundRobin::starting(servers.len(), first % servers.len());
        let shares = shares(sum as usize, servers.len(), |_| turns.next(&servers, all));
        for (share, weight) in shares.iter().zip(&weights) {
            // Whoever came first among equals may be ahead by one.
            prop_assert!(share.abs_diff(*weight as usize) <= 1, "{shares:?} {weights:?}");
        }
    }

    #[test]
    fn nobody_is_chosen_who_may_not_be(
        weights in proptest::collection::vec(0_u32..5, 1..8),
        barred in proptest::collection::vec(any::<bool>(), 8),
        busy in proptest::collection::vec(0_u32..9, 8),
        key: u64,
        seed: u64,
    ) {
        let mut servers = servers(&weights);
        servers.iter_mut().zip(busy).for_each(|(server, busy)| server.busy = busy);
        let may = |server: &Server| !barred[server.id as usize];
        let is_there_one = servers.iter().any(|server| server.weight > 0 && may(server));
        let mut rng = Rng::with_seed(seed);
        let mut turns = RoundRobin::starting(servers.len(), 0);
        for _ in 0..10 {
            for chosen in [
                turns.next(&servers, may),
                random(&servers, may, &mut rng),
                least_request(&servers, may, &mut rng),
                highest(key, &servers, may),
            ] {
                prop_assert_eq!(chosen.is_some(), is_there_one);
                let ok = chosen.is_none_or(|at| servers[at].weight > 0 && may(&servers[at]));
                prop_assert!(ok, "{chosen:?}");
            }
        }
    }

    #[test]
    fn shares_follow_the_weights(weights in proptest::collection::vec(1_u32..6, 2..6), seed: u64) {
        const COUNT: usize = 20_000;
        let servers = servers(&weights);
        let sum = f64::from(weights.iter().sum::<u32>());
        let mut rng = Rng::with_seed(seed);
        let drawn = shares(COUNT, servers.len(), |_| random(&servers, all, &mut rng));
        let idle = shares(COUNT, servers.len(), |_| least_request(&servers, all, &mut rng));
        let keyed = shares(COUNT, servers.len(), |n| highest(hash(&(seed ^ n as u64).to_be_bytes()), &servers, all));
        for found in [drawn, idle, keyed] {
            for (share, weight) in found.iter().zip(&weights) {
                let expected = f64::from(*weight) / sum * COUNT as f64;
                // Six standard deviations of a binomial: 500 at most.
                let off = (*share as f64 - expected).abs();
                prop_assert!(off < 6.0 * (expected * (1.0 - expected / COUNT as f64)).sqrt(), "{found:?} {weights:?}");
            }
        }
    }

    #[test]
    fn when_an_endpoint_leaves_no_key_moves_but_its_own(weights in proptest::collection::vec(1_u32..4, 2..9), leaver: usize, seed: u64) {
        let servers = servers(&weights);
        let leaver = leaver % servers.len();
        let stays = |server: &Server| server.id != leaver as u64;
        let rest: Vec<Server> = servers.iter().copied().filter(stays).collect();
        for n in 0..300_u64 {
            let key = hash(&(seed.wrapping_add(n)).to_be_bytes());
            let before = servers[highest(key, &servers, all).unwrap()].id;
            let barred = servers[highest(key, &servers, stays).unwrap()].id;
            prop_assert!(barred == before || before == leaver as u64);
            // Whoever is ejected and whoever is gone leave their keys to the same ones.
            prop_assert_eq!(rest[highest(key, &rest, all).unwrap()].id, barred);
        }
    }
}
