//! State that all services of one layer share.

use std::collections::HashMap;
use std::sync::Arc;

use super::access::AccessList;
use super::cost::Cost;
use super::event::{OnVerdict, VerdictEvent};
use super::limit::{self, PlanResolver, RuleSets};
use super::rule_set::{BoundLimit, RuleSet};
use super::settings::{OnLimit, Settings};
use super::settlement::Reservation;
use crate::key_resolver::KeyResolver;
use crate::reply::Reply;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::store::{Check, Store};

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
    pub(super) would_deny_header: bool,
    pub(super) on_verdict: Option<OnVerdict>,
}

/// Rule sets by plan.
#[derive(Clone)]
pub(super) struct PlanTable {
    pub(super) resolver: PlanResolver,
    sets: HashMap<Box<str>, usize>,
    default: usize,
}

/// Lists of exempt and blocked clients.
#[derive(Clone)]
pub(super) struct AccessControl {
    pub(super) exempt: AccessList,
    pub(super) block: AccessList,
    pub(super) blocked: Reply,
    /// False if the limiter only observes, and blocked requests pass.
    pub(super) enforced: bool,
    /// Every resolver of the limiter, its default first.
    pub(super) resolvers: Vec<KeyResolver>,
}

/// Position of a rule: its set, and its place in the set.
#[derive(Clone, Copy)]
pub(super) struct LimitIndex {
    pub(super) set: u16,
    pub(super) limit: u8,
}

// === impl Limiter ===

impl Limiter {
    pub(super) fn new(route: &Arc<str>, rules: RuleSets, settings: Settings, store: Arc<dyn Store>) -> Self {
        let access = AccessControl::new(rules.rules().filter_map(|limit| limit.key_resolver.as_ref()), &settings);
        let empty_key =
            settings.deny_empty_key.then(|| settings.error_body.refusal(settings.empty_key_status, "empty-key"));
        let mut first = 0;
        let mut prepare = |limits: Vec<_>| {
            let set = RuleSet::new(limits, first, route, &settings);
            first += set.limits.len();
            set
        };
        let mut sets = vec![prepare(rules.default)];
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
            would_deny_header: settings.would_deny_header,
            on_verdict: None,
        }
    }

    /// Adjusts the tokens that a request took under one rule.
    pub(super) fn settle(&self, reservation: &Reservation, adjustment: i64) {
        let limit = self.limit(reservation.at);
        let key = BucketKey { scope: &limit.scope, id: &reservation.key_id };
        let rule = reservation.rule.as_deref().unwrap_or(&limit.rule);
        self.store.settle(Check { key, rule, cost: reservation.reserved }, adjustment, reservation.counted_at_us);
    }

    pub(super) fn cost(&self, at: LimitIndex) -> &Cost {
        &self.limit(at).cost
    }

    fn limit(&self, at: LimitIndex) -> &BoundLimit {
        &self.sets[usize::from(at.set)].limits[usize::from(at.limit)]
    }

    pub(super) fn notify(&self, event: VerdictEvent) {
        if let Some(hook) = &self.on_verdict {
            hook(event, None);
        }
    }

    /// Omits [`LocalReply`](crate::context::LocalReply) from refusals.
    pub(super) fn omit_local_reply(&mut self) {
        let blocked = self.access.as_mut().map(|access| &mut access.blocked);
        let own = [&mut self.unavailable, &mut self.ambiguous_key].into_iter();
        let replies = own.chain(&mut self.empty_key).chain(blocked);
        replies.for_each(Reply::omit_local_reply);
        self.sets.iter_mut().for_each(RuleSet::omit_local_reply);
    }
}

// === impl PlanTable ===

impl PlanTable {
    /// Adds the set of each plan to `sets`.
    fn new(
        plans: limit::Plans,
        sets: &mut Vec<RuleSet>,
        mut prepare: impl FnMut(Vec<limit::Limit>) -> RuleSet,
    ) -> Self {
        let mut by_name = HashMap::new();
        for (name, limits) in plans.sets {
            by_name.insert(Box::from(&*name), sets.len());
            sets.push(prepare(limits));
        }
        let default = plans.default.and_then(|name| by_name.get(&*name).copied()).unwrap_or(0);
        Self { resolver: plans.resolver, sets: by_name, default }
    }

    /// Returns the position of the plan's rule set.
    pub(super) fn set(&self, plan: Option<&str>) -> usize {
        plan.and_then(|plan| self.sets.get(plan).copied()).unwrap_or(self.default)
    }
}

// === impl AccessControl ===

impl AccessControl {
    /// Creates the lists of `settings`; `None` if both are empty. `own` are the resolvers that rules have instead of the
    /// limiter's.
    pub(super) fn new<'r>(own: impl Iterator<Item = &'r KeyResolver>, settings: &Settings) -> Option<Self> {
        if settings.exempt.is_empty() && settings.block.is_empty() {
            return None;
        }
        let mut resolvers = vec![settings.key_resolver.clone()];
        for resolver in own {
            if !resolvers.contains(resolver) {
                resolvers.push(resolver.clone());
            }
        }
        Some(Self {
            exempt: settings.exempt.clone(),
            block: settings.block.clone(),
            blocked: settings.error_body.refusal(settings.block_status, "blocked"),
            enforced: settings.enforcement.denies_any(),
            resolvers,
        })
    }
}
