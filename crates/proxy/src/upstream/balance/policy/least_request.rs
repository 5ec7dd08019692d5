//! Random selection and the least-request policy.

use fastrand::Rng;

use crate::upstream::balance::policy::Selectable;

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
