//! Checks of a request: the rules that the store decides, and their decision.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use http::{Request, Response};

use super::enforcement::{Enforcement, Stage};
use super::limiter::Limiter;
use super::rule_set::{BoundLimit, RuleSet};
use crate::headers::CheckedRules;
use crate::key_resolver::KeyBuf;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::store::{Check, Decision, MAX_CHECKS};
use tollgate_limiter::verdict::Verdict;

/// Rules of one set that were checked, in the order of the checks.
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

/// Check that may need a correction: its cost is not known yet, or the request waits for a slot that it may give back.
pub(super) struct AdjustableCheck {
    /// Position among the checks.
    pub(super) position: usize,
    /// Position in the rule set.
    pub(super) limit: u8,
    pub(super) key_id: Box<[u8]>,
    pub(super) reserved: u64,
    /// True if the cost is known only later.
    pub(super) settles: bool,
    /// True if the rule paces requests.
    pub(super) paces: bool,
}

pub(super) type VerdictFuture = Pin<Box<dyn Future<Output = Verdict> + Send>>;

/// Decision of the store on a request.
pub(super) enum CheckResult<R> {
    /// The request lacks a required key id.
    MissingKey(Response<R>),
    /// No rule applies.
    NoChecks,
    Ready(CheckSet, Verdict),
    Pending(CheckSet, VerdictFuture),
}

impl Limiter {
    /// Checks the rules of the set that belong to `stage`. The store takes tokens under all of them or none.
    pub(super) fn check<B, R: From<Bytes>>(&self, set: usize, stage: Stage, request: &Request<B>) -> CheckResult<R> {
        let rules = &self.sets[set];
        let set = u16::try_from(set).unwrap_or_default();
        match (&*rules.limits, rules.varies) {
            ([limit], false) => {
                let mut buf = KeyBuf::new();
                if limit.enforcement == Enforcement::Off {
                    return CheckResult::NoChecks;
                }
                let Some(id) = limit.key_resolver.resolve(request, &mut buf) else {
                    let refusal = self.missing_key_refusal(limit, request);
                    return refusal.map_or(CheckResult::NoChecks, CheckResult::MissingKey);
                };
                if limit.enforcement.stage_for(id) != Some(stage) {
                    return CheckResult::NoChecks;
                }
                let key = BucketKey { scope: &limit.scope, id };
                let checks = [Check { key, rule: &limit.rule, cost: limit.cost.tokens }];
                let check_set = CheckSet { set, count: 1, rules: [0; MAX_CHECKS], varying: None };
                self.decide(check_set, stage, &checks)
            }
            _ => self.check_several(rules, set, stage, request),
        }
    }

    fn check_several<B, R: From<Bytes>>(
        &self,
        rules: &RuleSet,
        set: u16,
        stage: Stage,
        request: &Request<B>,
    ) -> CheckResult<R> {
        let mut bufs: [KeyBuf; MAX_CHECKS] = std::array::from_fn(|_| KeyBuf::new());
        let mut check_set = CheckSet { set, count: 0, rules: [0; MAX_CHECKS], varying: None };
        let mut checks = Vec::with_capacity(rules.limits.len());
        for ((index, limit), buf) in (0_u8..).zip(&rules.limits).zip(&mut bufs) {
            if limit.enforcement == Enforcement::Off {
                continue;
            }
            let Some(id) = limit.key_resolver.resolve(request, buf) else {
                match self.missing_key_refusal(limit, request) {
                    Some(response) => return CheckResult::MissingKey(response),
                    None => continue,
                }
            };
            if limit.enforcement.stage_for(id) != Some(stage) {
                continue;
            }
            let reserved = limit.cost.reserve(request);
            if rules.varies {
                let varying = check_set.varying.get_or_insert_default();
                varying.costs.push(reserved.tokens);
                let (settles, paces) = (reserved.settles, limit.paces());
                if settles || paces {
                    let (position, key_id, reserved) = (checks.len(), id.into(), reserved.tokens);
                    let check = AdjustableCheck { position, limit: index, key_id, reserved, settles, paces };
                    varying.adjustable.push(check);
                }
            }
            check_set.rules[checks.len()] = index;
            check_set.count += 1;
            let key = BucketKey { scope: &limit.scope, id };
            checks.push(Check { key, rule: &limit.rule, cost: reserved.tokens });
        }
        if checks.is_empty() { CheckResult::NoChecks } else { self.decide(check_set, stage, &checks) }
    }

    /// Asks the store. A verdict that is ready at once is notified here, where the keys are at hand.
    #[inline]
    fn decide<R>(&self, check_set: CheckSet, stage: Stage, checks: &[Check<'_>]) -> CheckResult<R> {
        match self.store.decide(checks) {
            Decision::Ready(verdict) => {
                self.notify_ready(&check_set, stage, &verdict, checks);
                CheckResult::Ready(check_set, verdict)
            }
            Decision::Pending(verdict) => CheckResult::Pending(check_set, verdict),
        }
    }

    /// Returns the refusal of a request that lacks a rule's key id, or `None` if the rule lets it pass.
    fn missing_key_refusal<B, R: From<Bytes>>(&self, limit: &BoundLimit, request: &Request<B>) -> Option<Response<R>> {
        if !limit.enforcement.is_full() {
            return None;
        }
        let is_ambiguous = limit.key_resolver.is_ambiguous(request);
        let reply = if is_ambiguous { &self.ambiguous_key } else { self.empty_key.as_ref()? };
        Some(reply.to_response(request))
    }
}

impl CheckSet {
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
