//! Verdicts of the limiters that a request passed.

use std::sync::Arc;

use tollgate_filters::request_rate_limiter::VerdictKind;

/// Verdicts of the limiters that a request passed.
#[derive(Debug, Default)]
pub struct LimiterFacts {
    /// Decisions of stores, in their order.
    pub decisions: Vec<StoreDecision>,
    /// Verdicts of rules and access lists, in their order.
    pub verdicts: Vec<RuleVerdict>,
}

/// Decision of a store under one or several rules.
#[derive(Debug)]
pub struct StoreDecision {
    /// Rules that were checked.
    pub checks: Vec<CheckedRule>,
    /// Position of the strictest rule among `checks`.
    pub strictest: usize,
    /// Tokens that remain under the strictest rule; `None` if the request was not counted.
    pub remaining: Option<u64>,
    /// Time of the decision in microseconds on the store's clock; 0 if the request was not counted.
    pub decided_us: u64,
    /// Position among the decisions of the same microsecond.
    pub order: u32,
}

/// Rule with the key of the request.
#[derive(Debug)]
pub struct CheckedRule {
    /// Name of the rule, as in metrics.
    pub rule: Arc<str>,
    /// Key id.
    pub key: Box<[u8]>,
}

/// Verdict of one rule, or of an access list.
#[derive(Debug)]
pub struct RuleVerdict {
    /// Id of the route.
    pub route: Arc<str>,
    /// Name of the rule, as in metrics; the scope of the limiter for an access list.
    pub rule: Arc<str>,
    /// The verdict.
    pub kind: VerdictKind,
    /// Number of decisions before this verdict. The last of them decided it, except for access lists.
    pub decisions: usize,
}

impl LimiterFacts {
    /// Adds the verdict of a rule.
    pub fn judge(&mut self, route: &Arc<str>, rule: &Arc<str>, kind: VerdictKind) {
        let (route, rule, decisions) = (Arc::clone(route), Arc::clone(rule), self.decisions.len());
        self.verdicts.push(RuleVerdict { route, rule, kind, decisions });
    }

    /// Returns the verdict on the request: the first that refused it, otherwise `exempt` or `allowed`. `None` if no
    /// limiter judged it.
    #[must_use]
    pub fn verdict(&self) -> Option<VerdictKind> {
        let has = |kind| self.verdicts.iter().any(|verdict| verdict.kind == kind);
        let refused = self.verdicts.iter().find(|verdict| is_refusal(verdict.kind)).map(|verdict| verdict.kind);
        let exempt = (has(VerdictKind::Exempt) && !has(VerdictKind::Allowed)).then_some(VerdictKind::Exempt);
        let allowed = (!self.verdicts.is_empty()).then_some(VerdictKind::Allowed);
        refused.or(exempt).or(allowed)
    }

    /// Returns the decision that refused the request, otherwise the first.
    #[must_use]
    pub fn deciding(&self) -> Option<&StoreDecision> {
        let refusing = self.verdicts.iter().find(|verdict| is_refusal(verdict.kind));
        let at = refusing.map_or(0, |verdict| verdict.decisions.saturating_sub(1));
        self.decisions.get(at)
    }

    /// Returns the names of observed rules that would have denied the request.
    pub fn observed(&self) -> impl Iterator<Item = &Arc<str>> {
        self.verdicts.iter().filter(|verdict| verdict.kind == VerdictKind::Observed).map(|verdict| &verdict.rule)
    }

    /// Returns the key that `verdict` is about; `None` for access lists.
    #[must_use]
    pub fn key_of(&self, verdict: &RuleVerdict) -> Option<&[u8]> {
        let decision = self.decisions.get(verdict.decisions.checked_sub(1)?)?;
        decision.checks.iter().find(|check| check.rule == verdict.rule).map(|check| &*check.key)
    }
}

fn is_refusal(kind: VerdictKind) -> bool {
    matches!(kind, VerdictKind::Denied | VerdictKind::Unavailable | VerdictKind::Blocked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(rule: &str, decided_us: u64) -> StoreDecision {
        let checks = vec![CheckedRule { rule: rule.into(), key: rule.as_bytes().into() }];
        StoreDecision { checks, strictest: 0, remaining: Some(0), decided_us, order: 0 }
    }

    #[test]
    fn the_refusing_decision_is_reported() {
        let mut facts = LimiterFacts::default();
        assert_eq!(facts.verdict(), None);
        let route: Arc<str> = "r".into();
        for (rule, kind) in [("a", VerdictKind::Allowed), ("b", VerdictKind::Observed), ("c", VerdictKind::Denied)] {
            facts.decisions.push(decision(rule, 1));
            facts.judge(&route, &rule.into(), kind);
        }
        assert_eq!(facts.verdict(), Some(VerdictKind::Denied));
        assert_eq!(facts.deciding().map(|decision| &*decision.checks[0].rule), Some("c"));
        assert_eq!(facts.observed().map(|rule| &**rule).collect::<Vec<_>>(), ["b"]);
        assert_eq!(facts.key_of(&facts.verdicts[1]), Some(&b"b"[..]));
    }
}
