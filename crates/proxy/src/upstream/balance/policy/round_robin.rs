//! Smooth weighted round robin.

use crate::upstream::balance::policy::Selectable;

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
    #[must_use]
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
