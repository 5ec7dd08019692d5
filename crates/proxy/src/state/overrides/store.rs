//! Store that decides by overrides.

use std::sync::Arc;
use std::time::Duration;

use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::{Check, Decision, Store};
use tollgate_limiter::verdict::{Outcome, ReplacedRules, RuleVerdict, Source, Verdict};

use crate::state::overrides::Overrides;
use crate::state::overrides::table::{EffectiveOverrides, EffectiveRule};

/// Time of a decision that took no tokens, so that nothing is settled later.
const NOT_COUNTED: u64 = u64::MAX;

/// Store of one limiter, under temporary overrides of its rules.
///
/// Without overrides, a decision costs one atomic load. An overridden rule has the algorithm of the configured one, so
/// both share the bucket of a key: its debt stays when an override begins or ends.
pub(super) struct OverriddenStore {
    pub(super) store: Arc<dyn Store>,
    pub(super) overrides: Arc<Overrides>,
}

impl Store for OverriddenStore {
    #[inline]
    fn decide(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Decision {
        if self.overrides.has_any() {
            self.decide_by(&self.overrides.table(), enforced, observed)
        } else {
            self.store.decide(enforced, observed)
        }
    }

    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        if counted_at_us == NOT_COUNTED {
            return;
        }
        // The check has the rule of its decision.
        self.store.settle(check, more, counted_at_us);
    }
}

impl OverriddenStore {
    #[inline(never)]
    fn decide_by(&self, table: &EffectiveOverrides, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Decision {
        match (OverriddenChecks::of(enforced, table), OverriddenChecks::of(observed, table)) {
            (OverriddenChecks::Decided(verdict), _) if !verdict.is_allowed() || observed.is_empty() => {
                Decision::Ready(verdict)
            }
            (OverriddenChecks::Decided(enforced), OverriddenChecks::Decided(observed)) => {
                Decision::Ready(enforced.with_observed(observed))
            }
            (OverriddenChecks::Decided(verdict), OverriddenChecks::Changed(checks, marks)) => {
                self.store.decide(&checks, &[]).map(|observed| verdict.with_observed(marks.mark(observed)))
            }
            (OverriddenChecks::Changed(checks, marks), OverriddenChecks::Decided(observed)) => {
                self.store.decide(&checks, &[]).map(|verdict| match verdict.is_allowed() {
                    true => marks.mark(verdict).with_observed(observed),
                    false => marks.mark(verdict),
                })
            }
            (OverriddenChecks::Changed(enforced, marks), OverriddenChecks::Changed(observed, observed_marks)) => {
                self.store.decide(&enforced, &observed).map(|mut verdict| {
                    let observed = verdict.observed.take().map(|verdict| Box::new(observed_marks.mark(*verdict)));
                    Verdict { observed, ..marks.mark(verdict) }
                })
            }
        }
    }
}

/// Checks of one list under overrides.
enum OverriddenChecks<'c> {
    /// The overrides decide alone.
    Decided(Verdict),
    /// The store decides these checks.
    Changed(Vec<Check<'c>>, Marks),
}

impl<'c> OverriddenChecks<'c> {
    fn of(checks: &[Check<'c>], table: &'c EffectiveOverrides) -> Self {
        let effective: Vec<_> = checks.iter().map(|check| table.effective_rule(check.key, check.rule)).collect();
        let blocked = effective.iter().enumerate().find_map(|(position, effective)| match effective {
            Some((EffectiveRule::Blocked, left)) => Some((position, *left)),
            _ => None,
        });
        if let Some((position, left)) = blocked {
            return Self::Decided(blocked_verdict(position, left));
        }
        let is_unlimited =
            |effective: &Option<(&EffectiveRule, Duration)>| matches!(effective, Some((EffectiveRule::Unlimited, _)));
        if !checks.is_empty() && effective.iter().all(is_unlimited) {
            return Self::Decided(unlimited_verdict(checks));
        }
        let changed = checks.iter().zip(&effective).map(|(check, effective)| match effective {
            Some((EffectiveRule::Rule(rule), _)) => Check { rule, ..*check },
            // A cost of 0, because all rules of a list are decided in one call.
            Some((EffectiveRule::Unlimited, _)) => Check { cost: 0, ..*check },
            Some((EffectiveRule::Blocked, _)) | None => *check,
        });
        let replacing = |effective: &Option<(&EffectiveRule, Duration)>| match effective {
            Some((EffectiveRule::Rule(rule), _)) => Some(Arc::clone(rule)),
            Some((EffectiveRule::Unlimited | EffectiveRule::Blocked, _)) | None => None,
        };
        let marks = Marks {
            uncounted: effective.iter().map(is_unlimited).collect(),
            rules: effective.iter().map(replacing).collect(),
        };
        Self::Changed(changed.collect(), marks)
    }
}

/// Overrides of the checks of a decision, for its verdict.
struct Marks {
    /// True for the checks that took no tokens.
    uncounted: Vec<bool>,
    rules: Vec<Option<Arc<Rule>>>,
}

impl Marks {
    /// Adds the rules in effect to a verdict, and marks those that took no tokens.
    fn mark(self, mut verdict: Verdict) -> Verdict {
        for (rule_verdict, is_uncounted) in verdict.per_rule.iter_mut().zip(self.uncounted) {
            if is_uncounted {
                rule_verdict.counted_at_us = NOT_COUNTED;
            }
        }
        if self.rules.iter().any(Option::is_some) {
            verdict.replaced = Some(Box::new(ReplacedRules(self.rules)));
        }
        verdict
    }
}

/// Denies a request until the override at `position` ends.
fn blocked_verdict(position: usize, left: Duration) -> Verdict {
    let verdict = RuleVerdict {
        outcome: Outcome::Denied { retry_after: left },
        remaining: 0,
        reset_after: left,
        delay: Duration::ZERO,
        counted_at_us: NOT_COUNTED,
    };
    Verdict { rule: position, ..verdict.into_verdict(Source::Memory) }
}

/// Allows a request without a call of the store.
fn unlimited_verdict(checks: &[Check<'_>]) -> Verdict {
    let verdict = |check: &Check<'_>| RuleVerdict {
        outcome: Outcome::Allowed,
        remaining: check.rule.capacity(),
        reset_after: Duration::ZERO,
        delay: Duration::ZERO,
        counted_at_us: NOT_COUNTED,
    };
    let capacities = checks.iter().map(|check| check.rule.capacity());
    let combined = Verdict::combine(checks.iter().map(verdict).collect(), capacities, Source::Memory);
    combined.unwrap_or_else(|| Verdict::uncounted(Outcome::Allowed))
}
