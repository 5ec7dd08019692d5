//! Smooth weighted round robin.

use crate::upstream::balance::policy::Selectable;

/// Whose turn it is. With the weights 5, 1, 1 the turns are a a b a c a a, and not a a a a a b c: nobody's turns come in
/// one heap (nginx, `ngx_http_upstream_round_robin.c`).
///
/// Each turn every candidate earns its weight, the richest is chosen and pays what all have earned.
#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    credits: Vec<i64>,
}

impl RoundRobin {
    /// RoundRobin among `count` candidates, of whom the one at `first` comes first among equals.
    ///
    /// Gateways and their workers that all began with the same one would meet there.
    #[must_use]
    pub fn starting(count: usize, first: usize) -> Self {
        let mut credits = vec![0; count];
        if let Some(credit) = credits.get_mut(first) {
            *credit = 1;
        }
        Self { credits }
    }

    /// The place of the one whose turn it is; `None` where nobody may be chosen.
    pub fn next<C: Selectable>(&mut self, candidates: &[C], may: impl Fn(&C) -> bool) -> Option<usize> {
        self.credits.resize(candidates.len(), 0);
        let mut richest: Option<usize> = None;
        let mut earned = 0;
        for (at, candidate) in candidates.iter().enumerate() {
            let weight = i64::from(candidate.weight());
            if weight == 0 || !may(candidate) {
                continue;
            }
            earned += weight;
            self.credits[at] += weight;
            if richest.is_none_or(|richest| self.credits[at] > self.credits[richest]) {
                richest = Some(at);
            }
        }
        let richest = richest?;
        self.credits[richest] -= earned;
        Some(richest)
    }
}
