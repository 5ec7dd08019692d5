//! Comparison of the verdicts of two configurations.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::report::{Comparison, RuleComparison};

/// Route and rule that refused a request.
pub(super) type Refusal = (Arc<str>, Arc<str>);

/// Finished requests by number, with the rule that refused them.
pub(super) type Finished = Vec<(u64, Option<Refusal>)>;

/// Comparison of the verdicts of two configurations.
#[derive(Default)]
pub(super) struct Comparing {
    /// Requests that only the first or the second configuration has finished.
    unmatched: [HashMap<u64, Option<Refusal>>; 2],
    totals: Comparison,
    /// Newly denied and newly allowed requests by rule.
    rules: BTreeMap<Refusal, (u64, u64)>,
}

impl Comparing {
    /// Counts the requests that both configurations have finished. Others wait. A single configuration is not compared.
    pub(super) fn add(&mut self, finished: &mut [Finished]) {
        let [first, second] = finished else { return finished.iter_mut().for_each(Vec::clear) };
        let Self { unmatched: [first_left, second_left], totals, rules } = self;
        let mut count = |first: Option<Refusal>, second: Option<Refusal>| match (first, second) {
            (Some(rule), None) => {
                totals.newly_denied += 1;
                rules.entry(rule).or_default().0 += 1;
            }
            (None, Some(rule)) => {
                totals.newly_allowed += 1;
                rules.entry(rule).or_default().1 += 1;
            }
            (Some(_), Some(_)) => totals.denied_by_both += 1,
            (None, None) => totals.allowed_by_both += 1,
        };
        first_left.extend(first.drain(..));
        second_left.extend(second.drain(..));
        let both: Vec<u64> = second_left.keys().filter(|number| first_left.contains_key(number)).copied().collect();
        for number in both {
            if let (Some(first), Some(second)) = (first_left.remove(&number), second_left.remove(&number)) {
                count(first, second);
            }
        }
    }

    /// Returns the result.
    pub(super) fn finish(self) -> Comparison {
        let rule = |((route, rule), (newly_denied, newly_allowed)): (Refusal, (u64, u64))| RuleComparison {
            route: route.to_string(),
            rule: rule.to_string(),
            newly_denied,
            newly_allowed,
        };
        Comparison { rules: self.rules.into_iter().map(rule).collect(), ..self.totals }
    }
}
