//! Choices by lot.

use fastrand::Rng;

use crate::upstream::balance::policy::Selectable;

/// One drawn with the weights as the odds; `None` where nobody may be chosen.
pub fn random<C: Selectable>(candidates: &[C], may: impl Fn(&C) -> bool, rng: &mut Rng) -> Option<usize> {
    let odds = |candidate: &C| if may(candidate) { u64::from(candidate.weight()) } else { 0 };
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

/// Of two drawn by their weights, the one with fewer requests under way for its weight; the first drawn where they are
/// even, so that idle endpoints are asked in proportion to their weights.
///
/// Two choices keep the busiest endpoint's load close to the average without anybody comparing all of them, and
/// without all workers running to the same least busy one at a time. Envoy does the same where weights are equal, and
/// takes turns with weights divided by the load where they are not.
pub fn least_request<C: Selectable>(candidates: &[C], may: impl Fn(&C) -> bool, rng: &mut Rng) -> Option<usize> {
    let first = random(candidates, &may, rng)?;
    let is_other = |candidate: &C| may(candidate) && !std::ptr::eq(candidate, &candidates[first]);
    let Some(second) = random(candidates, is_other, rng) else { return Some(first) };
    // a / v < b / w, without the division: weights of drawn ones are above 0.
    let load = |of: usize, by: usize| u64::from(candidates[of].in_flight()) * u64::from(candidates[by].weight());
    Some(if load(second, first) < load(first, second) { second } else { first })
}
