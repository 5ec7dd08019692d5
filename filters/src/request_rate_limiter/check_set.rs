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
use tollgate_limiter::verdict::{StagedVerdict, Verdict};

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

/// Check that may need a correction in the store: its cost is not known yet, or its request waits for a slot of a leaky
/// bucket, which it gives back if the client disconnects.
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
pub(super) type StagedVerdictFuture = Pin<Box<dyn Future<Output = StagedVerdict> + Send>>;

/// Decision of the store on a request.
pub(super) enum CheckResult<R> {
    /// The request lacks a required key id.
    MissingKey(Response<R>),
    /// No rule applies.
    NoChecks,
    Ready(CheckSet, Stage, Verdict),
    Pending(CheckSet, Stage, VerdictFuture),
    /// Enforced and observed rules in one step.
    StagesReady(Box<([CheckSet; 2], StagedVerdict)>),
    StagesPending([CheckSet; 2], StagedVerdictFuture),
}

/// Checks of one stage, while they are collected.
struct Collected<'r> {
    check_set: CheckSet,
    checks: Vec<Check<'r>>,
}

impl Limiter {
    /// Checks the rules of the set: enforced and observed ones in one step, or the enforced ones first. Of each kind, the
    /// store takes tokens under all or none.
    pub(super) fn check<B, R: From<Bytes>>(&self, set: usize, request: &Request<B>) -> CheckResult<R> {
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
                let Some(stage) = limit.enforcement.stage_for(id) else { return CheckResult::NoChecks };
                let key = BucketKey { scope: &limit.scope, id };
                let checks = [Check { key, rule: &limit.rule, cost: limit.cost.tokens }];
                let check_set = CheckSet { set, count: 1, rules: [0; MAX_CHECKS], varying: None };
                self.decide(check_set, stage, &checks)
            }
            _ => self.check_several(rules, set, None, request),
        }
    }

    /// Checks the observed rules of the set, after the enforced ones have allowed the request.
    pub(super) fn check_observed<B, R: From<Bytes>>(&self, set: usize, request: &Request<B>) -> CheckResult<R> {
        let rules = &self.sets[set];
        self.check_several(rules, u16::try_from(set).unwrap_or_default(), Some(Stage::Observed), request)
    }

    /// Checks the rules of both stages, or those of `only`.
    fn check_several<B, R: From<Bytes>>(
        &self,
        rules: &RuleSet,
        set: u16,
        only: Option<Stage>,
        request: &Request<B>,
    ) -> CheckResult<R> {
        let mut bufs: [KeyBuf; MAX_CHECKS] = std::array::from_fn(|_| KeyBuf::new());
        let [mut enforced, mut observed] = [(); 2].map(|()| Collected {
            check_set: CheckSet { set, count: 0, rules: [0; MAX_CHECKS], varying: None },
            checks: Vec::new(),
        });
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
            let Collected { check_set, checks } = match limit.enforcement.stage_for(id) {
                stage @ Some(Stage::Enforced) if only.is_none() || only == stage => &mut enforced,
                stage @ Some(Stage::Observed) if only.is_none() || only == stage => &mut observed,
                _ => continue,
            };
            if checks.is_empty() {
                checks.reserve_exact(rules.limits.len());
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
        match (enforced.checks.is_empty(), observed.checks.is_empty()) {
            (true, true) => CheckResult::NoChecks,
            (false, true) => self.decide(enforced.check_set, Stage::Enforced, &enforced.checks),
            (true, false) => self.decide(observed.check_set, Stage::Observed, &observed.checks),
            (false, false) => self.decide_stages(enforced, observed),
        }
    }

    /// Calls the store for both stages, or only for the first one if the store cannot decide both in one step.
    fn decide_stages<R>(&self, enforced: Collected<'_>, observed: Collected<'_>) -> CheckResult<R> {
        match self.store.decide_staged(&enforced.checks, &observed.checks) {
            None => self.decide(enforced.check_set, Stage::Enforced, &enforced.checks),
            Some(Decision::Ready(verdict)) => {
                self.notify_ready(&enforced.check_set, Stage::Enforced, &verdict.enforced, &enforced.checks);
                if let Some(verdict) = &verdict.observed {
                    self.notify_ready(&observed.check_set, Stage::Observed, verdict, &observed.checks);
                }
                CheckResult::StagesReady(Box::new(([enforced.check_set, observed.check_set], verdict)))
            }
            Some(Decision::Pending(verdict)) => {
                CheckResult::StagesPending([enforced.check_set, observed.check_set], verdict)
            }
        }
    }

    /// Calls the store. If the verdict is ready immediately, calls the hook for events here, because the keys are still
    /// resolved.
    #[inline]
    fn decide<R>(&self, check_set: CheckSet, stage: Stage, checks: &[Check<'_>]) -> CheckResult<R> {
        match self.store.decide(checks) {
            Decision::Ready(verdict) => {
                self.notify_ready(&check_set, stage, &verdict, checks);
                CheckResult::Ready(check_set, stage, verdict)
            }
            Decision::Pending(verdict) => CheckResult::Pending(check_set, stage, verdict),
        }
    }

    /// Returns the refusal of a request that lacks a rule's key id, or `None` if the rule lets it pass.
    fn missing_key_refusal<B, R: From<Bytes>>(&self, limit: &BoundLimit, request: &Request<B>) -> Option<Response<R>> {
        if !limit.enforcement.denies_any() {
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
