//! `Weight`: one route of a group is drawn for each request.
//!
//! A request brings one random number. Every group makes its own draw of it, and a route's share of the group is a range
//! of what can be drawn, so exactly one route of a group is drawn and nothing has to be remembered about a request.

use std::collections::HashMap;
use std::ops::Range;

use super::{Kind, Predicate};

#[derive(Clone, Debug)]
pub(super) struct Weight {
    group: Box<str>,
    weight: u32,
    share: Share,
}

/// What part of a group's draws is a route's.
#[derive(Clone, Debug, Default)]
struct Share {
    /// Tells the draws of one group from another's.
    salt: u64,
    /// The weights of the group together.
    total: u64,
    range: Range<u64>,
}

// === impl Weight ===

impl Weight {
    pub(super) fn new(group: &str, weight: u32) -> Self {
        let weights = u64::from(weight);
        Self { group: group.into(), weight, share: Share { salt: 0, total: weights, range: 0..weights } }
    }

    pub(super) fn group(&self) -> &str {
        &self.group
    }

    pub(super) fn weight(&self) -> u32 {
        self.weight
    }

    /// Whether the route is drawn by a request with this random number.
    pub(super) fn is_drawn(&self, chance: u64) -> bool {
        self.share.range.contains(&self.drawn(chance))
    }

    /// What is drawn, below the group's weights together, and 0 where they are 0.
    pub(super) fn drawn(&self, chance: u64) -> u64 {
        let drawn = u128::from(mixed(chance ^ self.share.salt)) * u128::from(self.share.total);
        u64::try_from(drawn >> 64).unwrap_or(0)
    }

    /// What belongs to the route of all that can be drawn.
    pub(super) fn share(&self) -> (Range<u64>, u64) {
        (self.share.range.clone(), self.share.total)
    }
}

/// SplitMix64's finaliser (Steele, Lea and Flood, 2014): every bit of the number changes half of the result's.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// What one group comes to.
#[derive(Default)]
struct Group {
    salt: u64,
    total: u64,
    /// By route; the last weight of a route in a group counts, as in Spring.
    weights: HashMap<usize, u32>,
    ranges: HashMap<usize, Range<u64>>,
}

/// Divides what each group can draw between its routes, in their order.
pub(crate) fn share_out<'p>(routes: impl Iterator<Item = &'p mut [Predicate]>) {
    let mut routes: Vec<(usize, Vec<&mut Weight>)> = routes
        .map(|predicates| {
            let mut found = Vec::new();
            predicates.iter_mut().for_each(|predicate| weights(predicate, &mut found));
            found
        })
        .enumerate()
        .filter(|(_, found)| !found.is_empty())
        .collect();
    let mut groups: HashMap<Box<str>, Group> = HashMap::new();
    for (route, found) in &routes {
        for weight in found {
            // The golden ratio's multiples differ in half of their bits.
            let salt = (groups.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let group = groups.entry(weight.group.clone()).or_insert_with(|| Group { salt, ..Group::default() });
            group.weights.insert(*route, weight.weight);
        }
    }
    for (route, found) in &mut routes {
        for weight in found {
            let Some(group) = groups.get_mut(&weight.group) else { continue };
            let own = group.weights.get(route).copied().map_or(0, u64::from);
            let range = group.ranges.entry(*route).or_insert_with(|| {
                let start = group.total;
                group.total += own;
                start..group.total
            });
            weight.share = Share { salt: group.salt, total: 0, range: range.clone() };
        }
    }
    for weight in routes.iter_mut().flat_map(|(_, found)| found) {
        weight.share.total = groups.get(&weight.group).map_or(0, |group| group.total);
    }
}

fn weights<'p>(predicate: &'p mut Predicate, into: &mut Vec<&'p mut Weight>) {
    match &mut predicate.0 {
        Kind::Weight(weight) => into.push(weight),
        Kind::Any(inner) | Kind::All(inner) => inner.iter_mut().for_each(|predicate| weights(predicate, into)),
        Kind::Not(inner) => weights(inner, into),
        _ => {}
    }
}
