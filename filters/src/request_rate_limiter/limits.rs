//! Rules of a limiter by plan, and the settings that they share.

use std::collections::HashMap;
use std::sync::Arc;

use http::StatusCode;

use super::access::AccessList;
use super::cost::Cost;
use super::enforcement::Enforcement;
use crate::context::Condition;
use crate::headers::HeaderNames;
use crate::key_resolver::KeyResolver;
use crate::refusal::ErrorFormat;
use crate::reply::ErrorBody;
use tollgate_limiter::plan::PlanSource;
use tollgate_limiter::rule::Rule;

/// Settings of a limiter. `Default` is Spring's, with a problem body.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The key resolver of rules without one of their own.
    pub key_resolver: KeyResolver,
    /// The status of denials (`status-code`).
    pub status: StatusCode,
    /// Refuses requests without a key id (`deny-empty-key`). Otherwise rules without a key id for a request are skipped.
    pub deny_empty_key: bool,
    /// The status of that refusal (`empty-key-status`).
    pub empty_key_status: StatusCode,
    /// The cost of a request under rules that [`Builder::rules`](super::Builder::rules) sets.
    pub cost: Cost,
    /// The rate limit headers.
    pub headers: HeaderNames,
    /// The body of refusals.
    pub error_body: ErrorBody,
    /// The format of refusals for clients of RPC protocols.
    pub error_format: ErrorFormat,
    /// Upper bound of the enforcement of every rule.
    pub enforcement: Enforcement,
    /// Sends `X-RateLimit-Would-Deny` for requests that an observed rule would have denied.
    pub would_deny_header: bool,
    /// Clients that are neither counted nor limited.
    pub exempt: AccessList,
    /// Clients that are refused without being counted, even if they are exempt.
    pub block: AccessList,
    /// The status of that refusal.
    pub block_status: StatusCode,
    /// Handling of denied requests.
    pub on_limit: OnLimit,
}

/// Handling of denied requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OnLimit {
    /// Refuses the request.
    #[default]
    Refuse,
    /// Reroutes the request to this path, through the overflow service. A request that was rerouted already is refused.
    Forward(Box<str>),
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            key_resolver: KeyResolver::default(),
            status: StatusCode::TOO_MANY_REQUESTS,
            deny_empty_key: true,
            empty_key_status: StatusCode::FORBIDDEN,
            cost: Cost::default(),
            headers: HeaderNames::default(),
            error_body: ErrorBody::default(),
            error_format: ErrorFormat::default(),
            enforcement: Enforcement::FULL,
            would_deny_header: false,
            exempt: AccessList::default(),
            block: AccessList::default(),
            block_status: StatusCode::FORBIDDEN,
            on_limit: OnLimit::default(),
        }
    }
}

/// Rule of a limiter.
#[derive(Clone, Debug)]
pub struct Limit {
    /// The name in problem bodies, in `RateLimit` and in `X-RateLimit-Would-Deny`.
    pub name: Arc<str>,
    /// Namespace of its buckets in the store. Rules of equal scope and algorithm share buckets.
    pub scope: Arc<str>,
    /// The algorithm and its parameters.
    pub rule: Rule,
    /// The key resolver.
    pub key_resolver: KeyResolver,
    /// The cost of a request.
    pub cost: Cost,
    /// The keys that it denies; others are observed.
    pub enforcement: Enforcement,
    /// The condition under which it applies; `None` for every request. A rule that does not apply neither counts nor denies,
    /// and needs no key.
    pub condition: Option<Condition>,
}

/// Rule sets of a limiter, each with at most [`MAX_CHECKS`](tollgate_limiter::store::MAX_CHECKS) rules. An empty set
/// limits nothing; at least one has a rule.
#[derive(Clone, Debug, Default)]
pub struct RuleSets {
    /// The set for requests without a plan.
    pub default: Vec<Limit>,
    /// The sets for requests with a plan.
    pub plans: Option<Plans>,
}

/// Rule sets by plan.
#[derive(Clone, Debug)]
pub struct Plans {
    /// Resolver of a request's plan.
    pub resolver: PlanResolver,
    /// The sets. A client that changes its plan keeps the usage of rules with the same scope in both sets.
    pub sets: Vec<(Arc<str>, Vec<Limit>)>,
    /// The plan of requests without a known plan; `None` for [`RuleSets::default`].
    pub default: Option<Arc<str>>,
}

/// Resolver of a request's plan.
#[derive(Clone)]
pub enum PlanResolver {
    /// The name in the request, such as in a header that clients cannot set.
    Request(KeyResolver),
    /// By the limiter's key id.
    Table(HashMap<String, String>),
    /// By the limiter's key id, from an external source.
    Source(Arc<dyn PlanSource>),
}

impl RuleSets {
    /// Returns one set with one rule.
    #[must_use]
    pub fn single(limit: Limit) -> Self {
        Self { default: vec![limit], plans: None }
    }

    /// Returns the number of rules of the longest set.
    pub(super) fn longest(&self) -> usize {
        let plans = self.plans.iter().flat_map(|plans| &plans.sets).map(|(_, limits)| limits.len());
        plans.fold(self.default.len(), usize::max)
    }

    /// Returns a scope that two rules of one set have, with one algorithm.
    pub(super) fn shared_scope(&self) -> Option<&str> {
        let bucket = |limit: &Limit| (Arc::clone(&limit.scope), limit.rule.algorithm());
        let plans = self.plans.iter().flat_map(|plans| &plans.sets).map(|(_, limits)| limits);
        plans.chain([&self.default]).find_map(|limits| {
            let shares = |at: &usize| limits[..*at].iter().any(|other| bucket(other) == bucket(&limits[*at]));
            (0..limits.len()).find(shares).map(|at| &*limits[at].scope)
        })
    }

    /// Returns the key resolvers of the rules, and that of plans.
    pub(super) fn key_resolvers(&self) -> Vec<&KeyResolver> {
        let of_plans = match self.plans.as_ref().map(|plans| &plans.resolver) {
            Some(PlanResolver::Request(key)) => Some(key),
            Some(PlanResolver::Table(_) | PlanResolver::Source(_)) | None => None,
        };
        self.rules().map(|limit| &limit.key_resolver).chain(of_plans).collect()
    }

    /// Returns every rule: those of the default set, then those of the plans in their order.
    ///
    /// The position of a rule here is its index in [`VerdictEvent::index`](super::VerdictEvent::index).
    pub fn rules(&self) -> impl Iterator<Item = &Limit> {
        let plans = self.plans.iter().flat_map(|plans| &plans.sets).flat_map(|(_, limits)| limits);
        self.default.iter().chain(plans)
    }
}

impl Limit {
    /// Returns true if the rule applies to `request`.
    pub(super) fn applies<B>(&self, request: &http::Request<B>) -> bool {
        self.condition.is_none_or(|condition| condition.holds(request))
    }

    /// Returns true if the rule delays requests until their slot.
    pub(super) fn paces(&self) -> bool {
        self.rule.paces()
    }
}

impl std::fmt::Debug for PlanResolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Request(resolver) => f.debug_tuple("Request").field(resolver).finish(),
            Self::Table(table) => f.debug_tuple("Table").field(table).finish(),
            Self::Source(_) => f.write_str("Source"),
        }
    }
}
