//! Selection policies: pure functions over the candidates, with the random number generator as an argument.
//!
//! | Policy | Selects | Source |
//! |---|---|---|
//! | [`RoundRobin`] | each in turn, in proportion to its weight | nginx's smooth weighted round robin |
//! | [`random`] | at random, in proportion to the weights | |
//! | [`least_request`] | the less loaded of two random candidates | Mitzenmacher, "The Power of Two Choices", 2001 |
//! | [`highest`] | the same candidate for the same key | Thaler and Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", 1998 |
//!
//! Every policy takes a filter of the allowed candidates: a request that is sent again excludes the endpoints it has
//! tried. Candidates of weight 0 are never selected.

#[cfg(test)]
mod tests;

use fastrand::Rng;

/// Candidate of a selection policy.
pub trait Selectable {
    /// Returns its share, in proportion to the other candidates.
    fn weight(&self) -> u32;
    /// Returns the number of its requests in flight.
    fn in_flight(&self) -> u32;
    /// Returns its unique id, the same in every gateway and after every start.
    fn identity(&self) -> u64;
}

/// Smooth weighted round robin. With the weights 5, 1, 1 the order is a a b a c a a, and not a a a a a b c: the turns of
/// one candidate are spread (nginx, `ngx_http_upstream_round_robin.c`).
///
/// At each turn every candidate gains its weight in credits. The candidate with the most credits is selected and pays the
/// sum of all gains.
#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    credits: Vec<i64>,
}

impl RoundRobin {
    /// Starts with the candidate at index `first`, out of `count`.
    ///
    /// If all gateways and workers started with the same candidate, their first requests would all go there.
    pub fn starting_at(count: usize, first: usize) -> Self {
        let mut credits = vec![0; count];
        if let Some(credit) = credits.get_mut(first) {
            *credit = 1;
        }
        Self { credits }
    }

    /// Returns the index of the next candidate; `None` if none is allowed.
    pub fn next<C: Selectable>(&mut self, candidates: &[C], allowed: impl Fn(&C) -> bool) -> Option<usize> {
        self.credits.resize(candidates.len(), 0);
        let mut richest: Option<usize> = None;
        let mut gained = 0;
        for (index, candidate) in candidates.iter().enumerate() {
            let weight = i64::from(candidate.weight());
            if weight == 0 || !allowed(candidate) {
                continue;
            }
            gained += weight;
            self.credits[index] += weight;
            if richest.is_none_or(|richest| self.credits[index] > self.credits[richest]) {
                richest = Some(index);
            }
        }
        let richest = richest?;
        self.credits[richest] -= gained;
        Some(richest)
    }
}

/// Returns the index of a random candidate, in proportion to the weights; `None` if none is allowed.
pub fn random<C: Selectable>(candidates: &[C], allowed: impl Fn(&C) -> bool, rng: &mut Rng) -> Option<usize> {
    let odds = |candidate: &C| if allowed(candidate) { u64::from(candidate.weight()) } else { 0 };
    let sum: u64 = candidates.iter().map(odds).sum();
    if sum == 0 {
        return None;
    }
    let mut drawn = rng.u64(..sum);
    candidates.iter().position(|candidate| {
        let odds = odds(candidate);
        let hit = drawn < odds;
        drawn = drawn.saturating_sub(odds);
        hit
    })
}

/// Returns the index of the less loaded of two random candidates. The load is the number of requests in flight, divided
/// by the weight. If the loads are equal, the first one is selected, so that idle endpoints get requests in proportion to
/// their weights.
///
/// Two choices keep the highest load close to the average. Comparing all candidates would cost more, and would make all
/// workers select the same one at a time. Envoy uses this policy for equal weights, and for others a round robin with
/// weights divided by the load.
pub fn least_request<C: Selectable>(candidates: &[C], allowed: impl Fn(&C) -> bool, rng: &mut Rng) -> Option<usize> {
    let first = random(candidates, &allowed, rng)?;
    let is_other = |candidate: &C| allowed(candidate) && !std::ptr::eq(candidate, &candidates[first]);
    let Some(second) = random(candidates, is_other, rng) else { return Some(first) };
    // a / v < b / w without the division: the weights of drawn candidates are above 0.
    let load = |of: usize, by: usize| u64::from(candidates[of].in_flight()) * u64::from(candidates[by].weight());
    Some(if load(second, first) < load(first, second) { second } else { first })
}

/// Returns the index of the candidate for `key`; `None` if none is allowed: rendezvous hashing. Each candidate gets a score
/// for a key, and the highest score wins.
///
/// If a candidate leaves, its keys spread over the others and no other key moves. When it returns, it gets the same keys
/// again. Shares follow the weights exactly (Schindelhauer and Schomaker, "Weighted Distributed Hash Tables", 2005: the
/// score is `-weight / ln u` for a uniform `u` between 0 and 1). Unlike a ring (Karger, 1997) or Maglev's table (Eisenbud,
/// 2016), nothing is built when an endpoint is added or removed. The price is one score for each candidate: about 4 ns, or
/// 11 ns if the weights differ.
pub fn highest<C: Selectable>(key: u64, candidates: &[C], allowed: impl Fn(&C) -> bool) -> Option<usize> {
    let is_open = |candidate: &C| candidate.weight() > 0 && allowed(candidate);
    let weight = candidates.first()?.weight();
    // With equal weights the logarithm does not change the order.
    let even = candidates.iter().all(|candidate| candidate.weight() == weight);
    let mut best: Option<(usize, f64)> = None;
    for (at, candidate) in candidates.iter().enumerate().filter(|(_, candidate)| is_open(candidate)) {
        let drawn = fraction(mix(key ^ candidate.identity()));
        let score = if even { drawn } else { -f64::from(candidate.weight()) / drawn.ln() };
        if best.is_none_or(|(_, highest)| score > highest) {
            best = Some((at, score));
        }
    }
    best.map(|(at, _)| at)
}

/// Maps the upper 53 bits of `number` to a fraction between 0 and 1, exclusive.
#[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
fn fraction(number: u64) -> f64 {
    ((number >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// Hashes `bytes`, with the same result in every gateway: FNV-1a (Fowler, Noll and Vo) with mixed bits.
pub fn hash(bytes: &[u8]) -> u64 {
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, fnv))
}

/// Mixes the bits: each bit of the result depends on every bit of `x` (the last step of SplitMix64; Steele, Lea and
/// Flood, 2014).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
