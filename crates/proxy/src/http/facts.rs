//! Facts that layers learn about a request while they handle it, for the access log.
//!
//! A worker handles all its requests on one thread, and the layers of a request run only while its future is polled. The
//! facts of that request are therefore in a thread-local slot, and layers need no reference to the record of the request.
//! Without an access log in JSON the slot is empty, and a report costs one comparison.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use tokio::time::Instant;

use tollgate_filters::request_rate_limiter::VerdictKind;

/// Facts about one request.
#[derive(Debug, Default)]
pub struct RequestFacts {
    /// Attempts to forward the request.
    pub upstream: UpstreamFacts,
    /// Verdicts of limiters.
    pub limiter: LimiterFacts,
}

impl RequestFacts {
    /// Removes the facts, and keeps the memory for those of another request.
    pub fn clear(&mut self) {
        self.upstream = UpstreamFacts::default();
        self.limiter.decisions.clear();
        self.limiter.verdicts.clear();
    }
}

/// Attempts to forward a request.
#[derive(Debug, Default)]
pub struct UpstreamFacts {
    /// Endpoint of the last attempt, in the form of `Host`.
    pub endpoint: Option<HeaderValue>,
    /// Time that the last attempt took to connect; `None` on a pooled connection.
    pub connect: Option<Duration>,
    /// Time from sending the request of the last attempt to its response head.
    pub response: Option<Duration>,
    /// Number of attempts.
    pub attempts: u32,
}

thread_local! {
    static CURRENT: Cell<Option<Box<RequestFacts>>> = const { Cell::new(None) };
}

/// Collects the facts that layers report until the result is dropped, after a panic too; `None` if there are none to collect. Not
/// a scope with a closure, which would move the request twice.
#[inline]
#[must_use]
pub fn collect(facts: &mut Option<Box<RequestFacts>>) -> Option<Collection<'_>> {
    let outer = CURRENT.replace(Some(facts.take()?));
    Some(Collection { facts, outer })
}

/// Facts that are being collected. They are put back when this is dropped.
#[derive(Debug)]
pub struct Collection<'f> {
    facts: &'f mut Option<Box<RequestFacts>>,
    outer: Option<Box<RequestFacts>>,
}

impl Drop for Collection<'_> {
    fn drop(&mut self) {
        *self.facts = CURRENT.replace(self.outer.take());
    }
}

/// Calls `add` with the facts of the request that is polled, if they are collected.
#[inline]
pub fn report(add: impl FnOnce(&mut RequestFacts)) {
    if let Some(mut facts) = CURRENT.take() {
        add(&mut facts);
        CURRENT.set(Some(facts));
    }
}

/// Reports an attempt at `endpoint`.
#[inline]
pub fn report_attempt(endpoint: &HeaderValue) {
    report(|facts| {
        let attempts = facts.upstream.attempts.saturating_add(1);
        facts.upstream = UpstreamFacts { endpoint: Some(endpoint.clone()), attempts, ..UpstreamFacts::default() };
    });
}

/// Time of a step of an attempt, for the metrics and for the facts of the request.
#[derive(Clone, Copy, Debug)]
pub struct Timer(Instant);

impl Timer {
    /// Starts a timer.
    #[inline]
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Returns the time of the start.
    #[inline]
    #[must_use]
    pub fn started(self) -> Instant {
        self.0
    }

    /// Reports the time since the start as the time of connecting, and returns it.
    pub fn connected(self) -> Duration {
        let elapsed = self.0.elapsed();
        report(|facts| facts.upstream.connect = Some(elapsed));
        elapsed
    }

    /// Reports the time since the start as the time of the response head, and returns it.
    pub fn responded(self) -> Duration {
        let elapsed = self.0.elapsed();
        report(|facts| facts.upstream.response = Some(elapsed));
        elapsed
    }
}

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

/// Route, rule and plan of a limiter. The configuration names the plans, so they are few.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimiterLabels {
    /// Id of the route.
    pub route: Arc<str>,
    /// Name of the rule.
    pub rule: Arc<str>,
    /// Plan of the rule; `None` for requests without one.
    pub plan: Option<Arc<str>>,
}

/// Verdict of one rule, or of an access list.
#[derive(Debug)]
pub struct RuleVerdict {
    /// Route, rule and plan as in metrics; the rule of an access list is the scope of its limiter.
    pub labels: LimiterLabels,
    /// The verdict.
    pub kind: VerdictKind,
    /// Number of decisions before this verdict. The last of them decided it, except for access lists.
    pub decisions: usize,
}

impl LimiterFacts {
    /// Adds the verdict of a rule.
    pub fn judge(&mut self, labels: &LimiterLabels, kind: VerdictKind) {
        self.verdicts.push(RuleVerdict { labels: labels.clone(), kind, decisions: self.decisions.len() });
    }

    /// Returns the plan of the verdict that refused the request, otherwise that of the first verdict with a plan.
    #[must_use]
    pub fn plan(&self) -> Option<&str> {
        let refusing = self.verdicts.iter().find(|verdict| is_refusal(verdict.kind));
        let first = || self.verdicts.iter().find(|verdict| verdict.labels.plan.is_some());
        refusing.or_else(first)?.labels.plan.as_deref()
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
        self.verdicts.iter().filter(|verdict| verdict.kind == VerdictKind::Observed).map(|verdict| &verdict.labels.rule)
    }

    /// Returns the key that `verdict` is about; `None` for access lists.
    #[must_use]
    pub fn key_of(&self, verdict: &RuleVerdict) -> Option<&[u8]> {
        let decision = self.decisions.get(verdict.decisions.checked_sub(1)?)?;
        decision.checks.iter().find(|check| check.rule == verdict.labels.rule).map(|check| &*check.key)
    }
}

fn is_refusal(kind: VerdictKind) -> bool {
    matches!(kind, VerdictKind::Denied | VerdictKind::Unavailable | VerdictKind::Blocked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_belong_to_the_request_that_is_polled() {
        let (mut outer, mut inner, mut off) = (Some(Box::default()), Some(Box::default()), None);
        let endpoint = HeaderValue::from_static("orders:8080");
        report_attempt(&endpoint);
        let collection = collect(&mut outer);
        report_attempt(&endpoint);
        Timer::start().connected();
        for facts in [&mut inner, &mut off] {
            let _collection = collect(facts);
            report_attempt(&endpoint);
        }
        report_attempt(&endpoint);
        drop(collection);
        let attempts = |facts: &Option<Box<RequestFacts>>| facts.as_ref().map(|facts| facts.upstream.attempts);
        assert_eq!((attempts(&outer), attempts(&inner), attempts(&off)), (Some(3), Some(1), None));
        assert_eq!(outer.and_then(|facts| facts.upstream.connect), None, "the last attempt did not connect");
    }

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
            facts.judge(&LimiterLabels { route: Arc::clone(&route), rule: rule.into(), plan: Some(rule.into()) }, kind);
        }
        assert_eq!(facts.verdict(), Some(VerdictKind::Denied));
        assert_eq!(facts.plan(), Some("c"));
        assert_eq!(facts.deciding().map(|decision| &*decision.checks[0].rule), Some("c"));
        assert_eq!(facts.observed().map(|rule| &**rule).collect::<Vec<_>>(), ["b"]);
        assert_eq!(facts.key_of(&facts.verdicts[1]), Some(&b"b"[..]));
    }
}
