//! State that all services of one layer share.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use http::Request;

use super::access::AccessControl;
use super::event::OnVerdict;
use super::limits::{Limit, OnLimit, PlanResolver, Plans, RuleSets, Settings};
use super::rule_set::RuleSet;
use crate::key_resolver::{KeyBuf, KeyResolver};
use crate::refusal::ErrorFormat;
use crate::reply::Reply;
use tollgate_limiter::plan::PlanLookup;
use tollgate_limiter::store::Store;

/// Rate limiter without its inner service.
#[derive(Clone)]
pub(super) struct Limiter {
    pub(super) sets: Box<[RuleSet]>,
    pub(super) plans: Option<PlanTable>,
    pub(super) key_resolver: KeyResolver,
    pub(super) access: Option<Box<AccessControl>>,
    pub(super) store: Arc<dyn Store>,
    pub(super) unavailable: Reply,
    /// `None` if a request without a key id passes.
    pub(super) empty_key: Option<Reply>,
    /// Refusal of a request with several key ids, which never passes.
    pub(super) ambiguous_key: Reply,
    pub(super) on_limit: OnLimit,
    /// Format of refusals for clients of RPC protocols.
    pub(super) error_format: ErrorFormat,
    pub(super) would_deny_header: bool,
    pub(super) on_verdict: Option<Arc<OnVerdict>>,
}

/// Rule sets by plan.
#[derive(Clone)]
pub(super) struct PlanTable {
    resolver: PlanResolver,
    sets: HashMap<Box<str>, usize>,
    default: usize,
}

// === impl Limiter ===

impl Limiter {
    /// Creates a limiter. `route` fills the placeholder of that name in [`ErrorBody::Template`](super::ErrorBody::Template).
    pub(super) fn new(route: &Arc<str>, rules: RuleSets, settings: Settings, store: Arc<dyn Store>) -> Self {
        let access = AccessControl::new(rules.rules().map(|limit| &limit.key_resolver), &settings);
        let empty_key =
            settings.deny_empty_key.then(|| settings.error_body.refusal(settings.empty_key_status, "empty-key"));
        let mut first = 0;
        let mut prepare = |limits: Vec<_>, plan: &Arc<str>| {
            let set = RuleSet::new(limits, first, (route, plan), &settings);
            first += set.limits.len();
            set
        };
        let mut sets = vec![prepare(rules.default, &Arc::from(""))];
        let plans = rules.plans.map(|plans| PlanTable::new(plans, &mut sets, prepare));
        Self {
            sets: sets.into(),
            plans,
            unavailable: settings.error_body.limiter_unavailable(),
            key_resolver: settings.key_resolver,
            access: access.map(Box::new),
            store,
            empty_key,
            ambiguous_key: settings.error_body.refusal(settings.empty_key_status, "ambiguous-key"),
            on_limit: settings.on_limit,
            error_format: settings.error_format,
            would_deny_header: settings.would_deny_header,
            on_verdict: None,
        }
    }

    /// Omits [`LocalReply`](crate::context::LocalReply) from refusals.
    pub(super) fn omit_local_reply(&mut self) {
        let blocked = self.access.as_mut().map(|access| &mut access.blocked);
        let always = [&mut self.unavailable, &mut self.ambiguous_key].into_iter();
        let replies = always.chain(&mut self.empty_key).chain(blocked);
        replies.for_each(Reply::omit_local_reply);
        self.sets.iter_mut().for_each(RuleSet::omit_local_reply);
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits: Vec<_> = self.sets.iter().flat_map(|set| &set.limits).collect();
        f.debug_struct("Limiter").field("limits", &limits).finish_non_exhaustive()
    }
}

// === impl PlanTable ===

impl PlanTable {
    /// Adds the set of each plan to `sets`.
    fn new(plans: Plans, sets: &mut Vec<RuleSet>, mut prepare: impl FnMut(Vec<Limit>, &Arc<str>) -> RuleSet) -> Self {
        let mut by_name = HashMap::new();
        for (name, limits) in plans.sets {
            by_name.insert(Box::from(&*name), sets.len());
            sets.push(prepare(limits, &name));
        }
        let default = plans.default.and_then(|name| by_name.get(&*name).copied()).unwrap_or(0);
        Self { resolver: plans.resolver, sets: by_name, default }
    }

    /// Looks up the plan of `request`; `limiter_key` is the resolver of the limiter.
    pub(super) fn lookup<B>(&self, limiter_key: &KeyResolver, request: &Request<B>) -> PlanLookup {
        let mut buf = KeyBuf::new();
        let key = if let PlanResolver::Request(resolver) = &self.resolver { resolver } else { limiter_key };
        let Some(id) = key.resolve(request, &mut buf) else { return PlanLookup::Ready(None) };
        let text = std::str::from_utf8(id).ok();
        match &self.resolver {
            PlanResolver::Request(_) => PlanLookup::Ready(text.map(Arc::from)),
            PlanResolver::Table(table) => {
                PlanLookup::Ready(text.and_then(|id| table.get(id)).map(|name| Arc::from(name.as_str())))
            }
            PlanResolver::Source(source) => source.plan(id),
        }
    }

    /// Returns the position of the plan's rule set.
    pub(super) fn set(&self, plan: Option<&str>) -> usize {
        plan.and_then(|plan| self.sets.get(plan).copied()).unwrap_or(self.default)
    }
}
