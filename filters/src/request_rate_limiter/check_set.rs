//! Checks of a request: the rules of its rule set that apply, and their costs.

use http::Request;

use super::Limit;
use super::limiter::Limiter;
use super::rule_set::RuleSet;
use crate::headers::CheckedRules;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::store::{Check, MAX_CHECKS};

/// Rules of one stage that were checked, in the order of the checks.
#[derive(Default)]
pub(super) struct CheckSet {
    /// Position of the rule set in the limiter.
    pub(super) set: u16,
    pub(super) count: u8,
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
#[derive(Default)]
pub(super) struct Stages {
    pub(super) enforced: CheckSet,
    pub(super) observed: CheckSet,
}

impl Limiter {
    /// Returns the rule set of `check_set`.
    #[inline]
    pub(super) fn rules_of(&self, check_set: &CheckSet) -> &RuleSet {
        &self.sets[usize::from(check_set.set)]
    }
}

impl Stages {
    pub(super) fn of(set: u16) -> Self {
        let empty = || CheckSet { set, ..CheckSet::default() };
        Self { enforced: empty(), observed: empty() }
    }
}

impl CheckSet {
    /// Adds the rule at `index`, and returns its check for the key `id`.
    pub(super) fn push<'c, B>(
        &mut self,
        index: u8,
        limit: &'c Limit,
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
