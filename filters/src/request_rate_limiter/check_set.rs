//! Checks of a request: the rules of its rule set that apply, with their keys and costs.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};

use super::enforcement::Stage;
use super::evaluate::{Action, Step};
use super::limiter::Limiter;
use super::rule_set::{BoundLimit, RuleSet};
use crate::headers::CheckedRules;
use crate::key_resolver::KeyBuf;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::store::{Check, MAX_CHECKS};

/// Rules of one stage that were checked, in the order of the checks.
#[derive(Default)]
pub(super) struct CheckSet {
    /// Position of the rule set in the limiter.
    pub(super) set: u16,
    count: u8,
    rules: [u8; MAX_CHECKS],
    varying: Option<Box<VaryingCosts>>,
}

/// Costs that differ from one request to another.
#[derive(Default)]
struct VaryingCosts {
    costs: Vec<u64>,
    adjustable: Vec<AdjustableCheck>,
}

/// Check that may need a correction in the store: its cost is not known yet, or its request waits for a slot of a leaky
/// bucket, which it gives back if the client disconnects.
pub(super) struct AdjustableCheck {
    /// Position among the checks.
    pub(super) position: usize,
    pub(super) key_id: Box<[u8]>,
    pub(super) reserved: u64,
    /// True if the cost is known only later.
    pub(super) settles: bool,
    /// True if the rule paces requests.
    pub(super) paces: bool,
}

/// Checks of a request by stage.
pub(super) struct Stages {
    pub(super) enforced: CheckSet,
    pub(super) observed: CheckSet,
}

impl Limiter {
    /// Checks the rules of a set. A request without the key id of an enforced rule is refused.
    #[inline]
    pub(super) fn check<B>(self: &Arc<Self>, position: usize, request: &Request<B>) -> Step {
        let rules = &self.sets[position];
        let set = u16::try_from(position).unwrap_or_default();
        let mut stages = Stages::of(set);
        let ([limit], false) = (&*rules.limits, rules.varies) else {
            return self.check_several(rules, stages, request);
        };
        let mut buf = KeyBuf::new();
        let Some(id) = limit.key_resolver.resolve(request, &mut buf) else {
            let refusal = self.missing_key_refusal(limit, request);
            return Step::Act(refusal.map_or(Action::Forward(None), Action::Refuse));
        };
        let key = BucketKey { scope: &limit.scope, id };
        let check = [Check { key, rule: &limit.rule, cost: limit.cost.tokens }];
        match limit.enforcement.stage_for(id) {
            Some(Stage::Enforced) => {
                stages.enforced.count = 1;
                self.decide(stages, &check, &[], request)
            }
            Some(Stage::Observed) => {
                stages.observed.count = 1;
                self.decide(stages, &[], &check, request)
            }
            None => Step::Act(Action::Forward(None)),
        }
    }

    fn check_several<B>(self: &Arc<Self>, rules: &RuleSet, mut stages: Stages, request: &Request<B>) -> Step {
        let mut bufs: [KeyBuf; MAX_CHECKS] = std::array::from_fn(|_| KeyBuf::new());
        let [mut enforced, mut observed] = [Vec::new(), Vec::new()];
        for ((index, limit), buf) in (0_u8..).zip(&rules.limits).zip(&mut bufs) {
            let Some(id) = limit.key_resolver.resolve(request, buf) else {
                match self.missing_key_refusal(limit, request) {
                    Some(response) => return Step::Act(Action::Refuse(response)),
                    None => continue,
                }
            };
            let (check_set, checks) = match limit.enforcement.stage_for(id) {
                Some(Stage::Enforced) => (&mut stages.enforced, &mut enforced),
                Some(Stage::Observed) => (&mut stages.observed, &mut observed),
                None => continue,
            };
            if checks.is_empty() {
                checks.reserve_exact(rules.limits.len());
            }
            checks.push(check_set.push(index, limit, rules.varies, id, request));
        }
        self.decide(stages, &enforced, &observed, request)
    }

    /// Returns the refusal of a request that lacks a rule's key id, or `None` if the rule lets it pass.
    fn missing_key_refusal<B>(&self, limit: &BoundLimit, request: &Request<B>) -> Option<Response<Bytes>> {
        if !limit.enforcement.denies_any() {
            return None;
        }
        let is_ambiguous = limit.key_resolver.is_ambiguous(request);
        let reply = if is_ambiguous { &self.ambiguous_key } else { self.empty_key.as_ref()? };
        Some(reply.to_response(request))
    }
}

impl Stages {
    fn of(set: u16) -> Self {
        let empty = || CheckSet { set, ..CheckSet::default() };
        Self { enforced: empty(), observed: empty() }
    }
}

impl CheckSet {
    /// Adds the rule at `index`, and returns its check for the key `id`.
    fn push<'c, B>(
        &mut self,
        index: u8,
        limit: &'c BoundLimit,
        varies: bool,
        id: &'c [u8],
        request: &Request<B>,
    ) -> Check<'c> {
        let position = usize::from(self.count);
        let reserved = limit.cost.reserve(request);
        if varies {
            let varying = self.varying.get_or_insert_default();
            varying.costs.push(reserved.tokens);
            let (settles, paces) = (reserved.settles, limit.paces());
            if settles || paces {
                let (key_id, reserved) = (id.into(), reserved.tokens);
                varying.adjustable.push(AdjustableCheck { position, key_id, reserved, settles, paces });
            }
        }
        self.rules[position] = index;
        self.count += 1;
        Check { key: BucketKey { scope: &limit.scope, id }, rule: &limit.rule, cost: reserved.tokens }
    }

    /// Returns the positions of the rules in their set, in the order of the checks.
    pub(super) fn rules(&self) -> &[u8] {
        &self.rules[..usize::from(self.count)]
    }

    pub(super) fn checked_rules(&self) -> CheckedRules<'_> {
        CheckedRules { rules: self.rules(), costs: self.varying.as_ref().map(|varying| varying.costs.as_slice()) }
    }

    pub(super) fn adjustable(&self) -> &[AdjustableCheck] {
        self.varying.as_ref().map_or(&[], |varying| &varying.adjustable)
    }
}
