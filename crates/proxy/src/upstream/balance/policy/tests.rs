#![allow(clippy::unwrap_used, clippy::cast_precision_loss, clippy::cast_possible_truncation)]

use fastrand::Rng;
use proptest::prelude::*;

use crate::upstream::balance::policy::*;

#[derive(Clone, Copy, Debug)]
struct Server {
    id: u64,
    weight: u32,
    in_flight: u32,
}

impl Selectable for Server {
    fn weight(&self) -> u32 {
        self.weight
    }

    fn in_flight(&self) -> u32 {
        self.in_flight
    }

    fn identity(&self) -> u64 {
        hash(&self.id.to_be_bytes())
    }
}

fn servers(weights: &[u32]) -> Vec<Server> {
    weights.iter().zip(0..).map(|(weight, id)| Server { id, weight: *weight, in_flight: 0 }).collect()
}

fn all(_: &Server) -> bool {
    true
}

/// Counts the selections of each candidate.
fn shares(count: usize, of: usize, mut choose: impl FnMut(usize) -> Option<usize>) -> Vec<usize> {
    let mut shares = vec![0; of];
    for n in 0..count {
        shares[choose(n).unwrap()] += 1;
    }
    shares
}

#[test]
fn the_turns_of_one_candidate_are_spread() {
    let servers = servers(&[5, 1, 1]);
    let mut round_robin = RoundRobin::default();
    let order: Vec<usize> = (0..7).map(|_| round_robin.next(&servers, all).unwrap()).collect();
    assert_eq!(order, [0, 0, 1, 0, 2, 0, 0]);
}

#[test]
fn round_robin_starts_at_the_given_candidate() {
    let servers = servers(&[1, 1, 1]);
    let mut round_robin = RoundRobin::starting_at(3, 2);
    let order: Vec<usize> = (0..6).map(|_| round_robin.next(&servers, all).unwrap()).collect();
    assert_eq!(order, [2, 0, 1, 2, 0, 1]);
}

#[test]
fn the_less_loaded_of_two_is_selected_in_proportion_to_weights() {
    let mut rng = Rng::with_seed(1);
    let pair = |weights: [u32; 2], in_flight: [u32; 2]| {
        let mut pair = servers(&weights);
        pair.iter_mut().zip(in_flight).for_each(|(server, in_flight)| server.in_flight = in_flight);
        pair
    };
    for (weights, in_flight, chosen) in
        [([1, 1], [4, 3], 1), ([3, 1], [4, 2], 0), ([3, 1], [4, 1], 1), ([1, 9], [0, 1], 0)]
    {
        let pair = pair(weights, in_flight);
        assert!((0..50).all(|_| least_request(&pair, all, &mut rng) == Some(chosen)), "{weights:?} {in_flight:?}");
    }
}

#[test]
fn two_choices_keep_the_highest_load_near_the_average() {
    let mut rng = Rng::with_seed(7);
    let spread = |rng: &mut Rng, choose: &dyn Fn(&[Server], &mut Rng) -> usize| {
        let mut servers = servers(&[1; 50]);
        for _ in 0..5000 {
            let chosen = choose(&servers, rng);
            servers[chosen].in_flight += 1;
        }
        servers.iter().map(|server| server.in_flight).max().unwrap()
    };
    let two = spread(&mut rng, &|servers, rng| least_request(servers, all, rng).unwrap());
    let one = spread(&mut rng, &|servers, rng| random(servers, all, rng).unwrap());
    assert!(two <= 104, "{two} of 100 on average");
    assert!(one > 112, "{one}: random selection alone must be worse");
}

#[test]
fn a_key_maps_to_the_same_endpoint_in_every_gateway() {
    // Fixed values: a change would move all keys to other endpoints at an upgrade.
    assert_eq!(hash(b"10.0.0.1:9000"), 0x6fdc_231f_30af_7b3a);
    let servers = servers(&[1, 1, 1, 1]);
    let of = |key: &[u8]| highest(hash(key), &servers, all).unwrap();
    assert_eq!([of(b"ada"), of(b"bob"), of(b"cy"), of(b"dee")], [3, 2, 0, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_round_selects_each_candidate_as_often_as_its_weight(weights in proptest::collection::vec(0_u32..20, 1..8), first in 0_usize..8) {
        let sum: u32 = weights.iter().sum();
        prop_assume!(sum > 0);
        let servers = servers(&weights);
        let mut round_robin = RoundRobin::starting_at(servers.len(), first % servers.len());
        let shares = shares(sum as usize, servers.len(), |_| round_robin.next(&servers, all));
        for (share, weight) in shares.iter().zip(&weights) {
            // The starting candidate may be ahead by one.
            prop_assert!(share.abs_diff(*weight as usize) <= 1, "{shares:?} {weights:?}");
        }
    }

    #[test]
    fn only_allowed_candidates_are_selected(
        weights in proptest::collection::vec(0_u32..5, 1..8),
        excluded in proptest::collection::vec(any::<bool>(), 8),
        in_flight in proptest::collection::vec(0_u32..9, 8),
        key: u64,
        seed: u64,
    ) {
        let mut servers = servers(&weights);
        servers.iter_mut().zip(in_flight).for_each(|(server, in_flight)| server.in_flight = in_flight);
        let allowed = |server: &Server| !excluded[server.id as usize];
        let is_any_allowed = servers.iter().any(|server| server.weight > 0 && allowed(server));
        let mut rng = Rng::with_seed(seed);
        let mut round_robin = RoundRobin::starting_at(servers.len(), 0);
        for _ in 0..10 {
            for chosen in [
                round_robin.next(&servers, allowed),
                random(&servers, allowed, &mut rng),
                least_request(&servers, allowed, &mut rng),
                highest(key, &servers, allowed),
            ] {
                prop_assert_eq!(chosen.is_some(), is_any_allowed);
                let ok = chosen.is_none_or(|at| servers[at].weight > 0 && allowed(&servers[at]));
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
    fn a_removed_endpoint_moves_only_its_own_keys(weights in proptest::collection::vec(1_u32..4, 2..9), leaver: usize, seed: u64) {
        let servers = servers(&weights);
        let leaver = leaver % servers.len();
        let stays = |server: &Server| server.id != leaver as u64;
        let rest: Vec<Server> = servers.iter().copied().filter(stays).collect();
        for n in 0..300_u64 {
            let key = hash(&(seed.wrapping_add(n)).to_be_bytes());
            let before = servers[highest(key, &servers, all).unwrap()].id;
            let excluded = servers[highest(key, &servers, stays).unwrap()].id;
            prop_assert!(excluded == before || before == leaver as u64);
            // An excluded candidate and a removed one leave their keys to the same others.
            prop_assert_eq!(rest[highest(key, &rest, all).unwrap()].id, excluded);
        }
    }
}
