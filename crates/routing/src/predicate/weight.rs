//! `Weight`: each request selects one route of a group.
//!
//! A request has one random number. Each group derives a draw from it: a number from 0 to the sum of the group's weights,
//! exclusive. Each route of a group owns a range of these numbers, so a request selects exactly one route of a group, and
//! nothing is stored per request.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use super::condition::Condition;
use crate::decision::Decision;
use crate::request::{RequestPart, RequestView};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Weight {
    group: Box<str>,
    weight: u32,
    share: Share,
}

/// The draws of a group that select one route.
#[derive(Clone, Debug, Default, PartialEq)]
struct Share {
    /// Makes the draws of groups independent of each other.
    salt: u64,
    /// Sum of the group's weights.
    total: u64,
    /// The draws that select the route.
    range: Range<u64>,
}

// === impl Weight ===

impl Weight {
    pub(super) fn new(group: &str, weight: u32) -> Self {
        let total = u64::from(weight);
        Self { group: group.into(), weight, share: Share { salt: 0, total, range: 0..total } }
    }

    pub(super) fn group(&self) -> &str {
        &self.group
    }

    pub(super) fn weight(&self) -> u32 {
        self.weight
    }

    /// Returns the group's draw for a request, less than the sum of the group's weights; 0 if that sum is 0.
    fn draw(&self, random: u64) -> u64 {
        let scaled = u128::from(mix(random ^ self.share.salt)) * u128::from(self.share.total);
        u64::try_from(scaled >> 64).unwrap_or(0)
    }
}

impl Condition for Weight {
    fn decide(&self, request: &RequestView<'_>) -> Decision {
        self.share.range.contains(&self.draw(request.random)).into()
    }

    fn observe(&self, request: &RequestView<'_>) -> String {
        let Share { total, range, .. } = &self.share;
        if range.is_empty() {
            return "the route's weight is 0".to_owned();
        }
        let draw = self.draw(request.random);
        let (group, last, first_of_route, last_of_route) = (&self.group, total - 1, range.start, range.end - 1);
        format!("group `{group}` drew {draw} of 0 to {last}, the route has {first_of_route} to {last_of_route}")
    }

    fn reads(&self) -> Vec<RequestPart<'_>> {
        vec![RequestPart::Random]
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Weight: {} {}", self.group, self.weight)
    }
}

/// SplitMix64's finalizer (Steele, Lea and Flood, 2014): each bit of the input changes half of the result's bits.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

#[derive(Default)]
struct Group {
    salt: u64,
    total: u64,
    /// Weights by route. If a route has several for the group, the last one counts, as in Spring.
    weights: HashMap<usize, u32>,
    ranges: HashMap<usize, Range<u64>>,
}

/// Divides the draws of each group between its routes, in their order. Each item of `routes` has the weights of one route.
pub(crate) fn assign_shares<'p>(routes: impl Iterator<Item = Vec<&'p mut Weight>>) {
    let mut routes: Vec<(usize, Vec<&mut Weight>)> =
        routes.enumerate().filter(|(_, weights)| !weights.is_empty()).collect();
    let mut groups: HashMap<Box<str>, Group> = HashMap::new();
    for (route, weights) in &routes {
        for weight in weights {
            // Multiples of the golden ratio differ in half of their bits.
            let salt = (groups.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let group = groups.entry(weight.group.clone()).or_insert_with(|| Group { salt, ..Group::default() });
            group.weights.insert(*route, weight.weight);
        }
    }
    for (route, weights) in &mut routes {
        for weight in weights {
            let Some(group) = groups.get_mut(&weight.group) else { continue };
            let weight_of_route = group.weights.get(route).copied().map_or(0, u64::from);
            let range = group.ranges.entry(*route).or_insert_with(|| {
                let start = group.total;
                group.total += weight_of_route;
                start..group.total
            });
            weight.share = Share { salt: group.salt, total: 0, range: range.clone() };
        }
    }
    for weight in routes.iter_mut().flat_map(|(_, weights)| weights) {
        weight.share.total = groups.get(&weight.group).map_or(0, |group| group.total);
    }
}
