//! Conditions of rules: the bits that limiters read, and the rules that do not apply.

use tollgate_config::{Filter, Route};
use tollgate_routing::{RequestView, Undecided};

use crate::explain::DryRunSettings;
use crate::explain::model::SkippedRule;

/// Conditions of the rules of a route, decided for one request.
pub(super) struct DecidedConditions {
    /// A bit for each condition that holds.
    pub(super) bits: u64,
    /// The rules of each filter that do not apply.
    pub(super) skipped: Vec<Vec<SkippedRule>>,
}

impl DecidedConditions {
    /// Decides the conditions of `route` for `request`.
    pub(super) fn of(
        route: &Route,
        request: &RequestView<'_>,
        settings: DryRunSettings<'_>,
    ) -> Result<Self, Undecided> {
        let bits = route.conditions().decide(request)?;
        let mut limiters = route.rate_limiters();
        let skipped = route.filters.iter().map(|filter| match filter {
            Filter::RequestRateLimiter(_) => {
                let rules = limiters.next().into_iter().flat_map(|naming| naming.all());
                let skipped = rules.filter_map(|rule| {
                    let (predicate, seen) = rule.limit.when.as_ref()?.mismatch(request, settings.audience)?;
                    let (predicate, plan) = (settings.secrets.mask(predicate), rule.plan.map(str::to_owned));
                    Some(SkippedRule { rule: rule.label.to_string(), plan, predicate, seen })
                });
                skipped.collect()
            }
            _ => Vec::new(),
        });
        Ok(Self { bits, skipped: skipped.collect() })
    }
}
