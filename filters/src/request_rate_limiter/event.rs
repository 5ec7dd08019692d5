//! Events of a limiter, for metrics.

use http::Request;

use super::check_set::{CheckSet, Stages};
use super::enforcement::Stage;
use super::limiter::Limiter;
use super::limits::Limit;
use crate::key_resolver::KeyBuf;
use tollgate_limiter::store::Check;
use tollgate_limiter::verdict::{Outcome, Source, Verdict};

/// Verdict of one rule, or of the whole limiter, on one request. A rule for which the request has no key id causes no
/// event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerdictEvent<'a> {
    /// Name of the rule; `None` if no rule was checked.
    pub rule: Option<&'a str>,
    /// Index of the rule in [`RuleSets::rules`](super::RuleSets::rules).
    pub index: Option<usize>,
    /// Key id that the rule counts.
    pub key: Option<&'a [u8]>,
    /// The verdict.
    pub kind: VerdictKind,
    /// The verdict's source; `None` if no store was called.
    pub source: Option<Source>,
}

tollgate_limiter::labelled! {
    /// Verdict as metrics report it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum VerdictKind {
        /// This rule allowed the request, and so did all rules that were decided together with it.
        Allowed = "allowed",
        /// This rule denied the request.
        Denied = "denied",
        /// The store was unavailable. An enforced rule then refuses the request, an observed one forwards it.
        Unavailable = "unavailable",
        /// An observed rule, or the block list of a limiter that only observes, would have refused the request.
        Observed = "observed",
        /// The client is exempt from limits.
        Exempt = "exempt",
        /// The client is blocked, and the request was refused.
        Blocked = "blocked",
    }
}

/// Hook for events, called before the request is forwarded.
pub(super) type OnVerdict = dyn Fn(&VerdictEvent<'_>) + Send + Sync;

/// Verdict on a rule, as [`VerdictEvent`] without the key.
struct RuleEvent<'a> {
    /// The rule, and its index in all sets.
    limit: (&'a Limit, usize),
    kind: VerdictKind,
    source: Source,
}

impl<'a> RuleEvent<'a> {
    fn with_key(self, key: Option<&'a [u8]>) -> VerdictEvent<'a> {
        let Self { limit: (limit, index), kind, source } = self;
        VerdictEvent { rule: Some(&limit.name), index: Some(index), key, kind, source: Some(source) }
    }
}

impl Limiter {
    /// Notifies the hook of a verdict that was ready at once; `checks` are those of both stages.
    #[inline]
    pub(super) fn notify_ready(&self, stages: &Stages, verdict: &Verdict, checks: [&[Check<'_>]; 2]) {
        let Some(hook) = &self.on_verdict else { return };
        self.for_each_event(stages, verdict, |stage, position, event| {
            let [enforced, observed] = checks;
            let checks = if stage == Stage::Enforced { enforced } else { observed };
            hook(&event.with_key(checks.get(position).map(|check| check.key.id)));
        });
    }

    /// Notifies the hook of an awaited verdict. The keys are resolved again, since a waiting request keeps none.
    pub(super) fn notify_awaited<B>(&self, stages: &Stages, verdict: &Verdict, request: &Request<B>) {
        let Some(hook) = &self.on_verdict else { return };
        self.for_each_event(stages, verdict, |_, _, event| {
            let mut buf = KeyBuf::new();
            let key = event.limit.0.key_resolver.resolve(request, &mut buf);
            hook(&event.with_key(key));
        });
    }

    /// Calls `notify` with the event of each check, and with its stage and position.
    #[inline]
    fn for_each_event(&self, stages: &Stages, verdict: &Verdict, notify: impl Fn(Stage, usize, RuleEvent<'_>)) {
        let Stages { enforced, observed } = stages;
        if enforced.rules().is_empty() {
            return self.for_each_event_of(observed, Stage::Observed, verdict, notify);
        }
        self.for_each_event_of(enforced, Stage::Enforced, verdict, &notify);
        if let Some(verdict) = &verdict.observed {
            self.for_each_event_of(observed, Stage::Observed, verdict, notify);
        }
    }

    /// A denied request has events of the rules that deny it only.
    #[inline]
    fn for_each_event_of(
        &self,
        check_set: &CheckSet,
        stage: Stage,
        verdict: &Verdict,
        notify: impl Fn(Stage, usize, RuleEvent<'_>),
    ) {
        let kind = match (verdict.outcome, stage) {
            (Outcome::Allowed, _) => VerdictKind::Allowed,
            (Outcome::StoreUnavailable { .. }, _) => VerdictKind::Unavailable,
            (Outcome::Denied { .. } | Outcome::NeverAdmitted, Stage::Enforced) => VerdictKind::Denied,
            (Outcome::Denied { .. } | Outcome::NeverAdmitted, Stage::Observed) => VerdictKind::Observed,
        };
        let is_denial = matches!(kind, VerdictKind::Denied | VerdictKind::Observed);
        let rules = self.rules_of(check_set);
        for (position, limit) in check_set.rules().iter().enumerate() {
            if !is_denial || verdict.denies(position) {
                let at = usize::from(*limit);
                let limit = (&rules.limits[at], rules.first + at);
                notify(stage, position, RuleEvent { limit, kind, source: verdict.source });
            }
        }
    }
}
