//! Rule set prepared at load.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};

use super::Limit;
use super::denial::Denial;
use super::limits::Settings;
use crate::headers::{CheckedRules, NamedRule, RateLimitHeaders};
use tollgate_limiter::verdict::Verdict;

/// Rules of one plan, with everything about them that is known at load.
#[derive(Clone)]
pub(super) struct RuleSet {
    pub(super) limits: Box<[Limit]>,
    pub(super) headers: RateLimitHeaders,
    /// Index of its first rule, see [`VerdictEvent::index`](super::VerdictEvent::index).
    pub(super) first: usize,
    /// True if costs differ between requests, or a rule paces requests.
    pub(super) varies: bool,
    /// True for one rule with a fixed cost that applies to every request.
    pub(super) is_plain: bool,
    denial: Denial,
}

impl RuleSet {
    /// Prepares the rules of `plan`, which is empty for requests without one.
    pub(super) fn new(
        limits: Vec<Limit>,
        first: usize,
        (route, plan): (&Arc<str>, &Arc<str>),
        settings: &Settings,
    ) -> Self {
        let bind = |limit: Limit| Limit { enforcement: limit.enforcement.and(settings.enforcement), ..limit };
        let limits: Box<[Limit]> = limits.into_iter().map(bind).collect();
        let rules: Vec<_> = limits
            .iter()
            .map(|limit| NamedRule { name: &limit.name, rule: &limit.rule, cost: limit.cost.tokens })
            .collect();
        let headers = RateLimitHeaders::new(settings.headers.clone(), &rules);
        let varies = limits.iter().any(|limit| limit.cost.varies() || limit.paces());
        Self {
            first,
            varies,
            is_plain: !varies && matches!(&*limits, [limit] if limit.condition.is_none()),
            denial: Denial::new(&rules, (route, plan), &settings.error_body, settings.status),
            limits,
            headers,
        }
    }

    /// Returns the response to a request that `verdict` denies.
    pub(super) fn deny<B>(
        &self,
        verdict: &Verdict,
        checked: CheckedRules<'_>,
        request: &Request<B>,
    ) -> Response<Bytes> {
        let nearest = checked.rules.get(verdict.rule).and_then(|at| self.limits.get(usize::from(*at)));
        let replaced = verdict.replaced_rule(verdict.rule);
        let nearest = nearest.map(|limit| (limit, replaced.map_or(&limit.rule, |rule| rule).capacity()));
        let mask = self.denying(verdict, checked.rules).fold(0, |mask, at| mask | 1 << at);
        self.denial.response(mask, nearest, verdict, (&self.headers, checked), request)
    }

    /// Returns the positions of the rules that deny; `checked` are those of the checks.
    pub(super) fn denying<'v>(&self, verdict: &'v Verdict, checked: &'v [u8]) -> impl Iterator<Item = usize> + use<'v> {
        let denying = checked.iter().enumerate().filter(|(position, _)| verdict.denies(*position));
        denying.map(|(_, at)| usize::from(*at))
    }

    /// Omits [`LocalReply`](crate::context::LocalReply) from denials.
    pub(super) fn omit_local_reply(&mut self) {
        self.denial.omit_local_reply();
    }
}
