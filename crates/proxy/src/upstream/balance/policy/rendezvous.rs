//! Rendezvous hashing: each candidate gets a score for a key, and the highest score wins.
//!
//! If a candidate leaves, its keys spread over the others and no other key moves. When it returns, it gets the same keys
//! again. Shares follow the weights exactly (Schindelhauer and Schomaker, "Weighted Distributed Hash Tables", 2005: the
//! score is `-weight / ln u` for a uniform `u` between 0 and 1). Unlike a ring (Karger, 1997) or Maglev's table (Eisenbud,
//! 2016), nothing is built when an endpoint is added or removed. The price is one score for each candidate: about 4 ns, or
//! 11 ns if the weights differ.

use crate::upstream::balance::policy::Selectable;

/// Returns the index of the candidate for `key`; `None` if none is allowed.
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
#[must_use]
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
