//! Checks that many requests have in common.

use std::sync::Arc;

use super::denials::DenialCache;
use super::fingerprint::Fingerprint;
use super::lease::Lease;
use crate::rule::MAX_SAFE_INTEGER;
use crate::store::redis::command::{self, BatchSize, CallOptions, LeaseTimes, ScriptCall};
use crate::store::{Check, OwnedCheck};
use crate::verdict::{RuleVerdict, Source, Verdict};

/// Terms under which requests are leased.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseTerms {
    /// Longest time of a lease.
    pub(crate) duration_us: u64,
    /// Gateways that share the limit.
    pub(crate) gateways: u64,
}

/// Checks of equal requests, which outlive each of them.
pub(crate) struct CheckSet {
    pub(super) fingerprint: Fingerprint,
    pub(super) options: CallOptions,
    checks: Box<[OwnedCheck]>,
    pub(super) denials: Arc<DenialCache>,
    /// Terms of leases; `None`: no leases.
    pub(super) lease_terms: Option<LeaseTerms>,
}

impl CheckSet {
    pub(crate) fn new(
        fingerprint: Fingerprint,
        checks: &[Check<'_>],
        options: &CallOptions,
        denials: &Arc<DenialCache>,
        lease_terms: Option<LeaseTerms>,
    ) -> Self {
        let checks = checks.iter().map(OwnedCheck::of).collect();
        Self { fingerprint, options: options.clone(), checks, denials: Arc::clone(denials), lease_terms }
    }

    /// Costs of one request.
    pub(super) fn costs(&self) -> impl Iterator<Item = u64> {
        self.checks.iter().map(|check| check.cost)
    }

    /// Returns the number of rules.
    pub(super) fn len(&self) -> usize {
        self.checks.len()
    }

    /// Returns the number of requests, up to `limit`, with a total cost that a script can count.
    pub(super) fn max_batch(&self, limit: usize) -> usize {
        let highest = self.checks.iter().map(|check| check.cost).max().unwrap_or(1);
        limit.min(usize::try_from(MAX_SAFE_INTEGER / highest.max(1)).unwrap_or(limit)).max(1)
    }

    /// Call that decides many requests.
    pub(super) fn call(&self, batch: BatchSize) -> ScriptCall {
        let checks: Vec<Check<'_>> = self.checks.iter().map(OwnedCheck::check).collect();
        command::decide_batch(&checks, batch, &self.options)
    }

    /// Returns the number of further requests that the rules allow.
    pub(super) fn further_requests(&self, rule_verdicts: &[RuleVerdict]) -> u64 {
        let of_rule = |(check, rule_verdict): (&OwnedCheck, &RuleVerdict)| rule_verdict.remaining / check.cost.max(1);
        self.checks.iter().zip(rule_verdicts).map(of_rule).min().unwrap_or(0)
    }

    /// Lease of `spare` requests, from the reply to a call sent at `sent_us`.
    pub(super) fn lease(&self, terms: LeaseTerms, rule_verdicts: &[RuleVerdict], spare: u64, sent_us: u64) -> Lease {
        let rules = self.checks.iter().map(|check| (&check.rule, check.cost));
        Lease::new(rules, rule_verdicts, spare, sent_us, terms.duration_us)
    }

    /// Keys of notices, each once.
    pub(super) fn notice_keys(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<_> =
            self.checks.iter().map(|check| command::notice_key(&check.check(), &self.options)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Call that returns `requests` leased requests.
    pub(super) fn return_call(&self, requests: u64, times: LeaseTimes) -> ScriptCall {
        let checks: Vec<Check<'_>> = self.checks.iter().map(OwnedCheck::check).collect();
        command::return_leased(&checks, requests, times, &self.options)
    }

    /// Verdict of a request that the call admitted before `later` others: their cost still remained then.
    pub(super) fn verdict(&self, rule_verdicts: &[RuleVerdict], later: u64) -> Option<Verdict> {
        let rule_verdict = |(rule_verdict, check): (&RuleVerdict, &OwnedCheck)| RuleVerdict {
            remaining: rule_verdict.remaining.saturating_add(later.saturating_mul(check.cost)),
            ..*rule_verdict
        };
        let rule_verdicts = rule_verdicts.iter().zip(&self.checks).map(rule_verdict).collect();
        Verdict::combine(rule_verdicts, self.checks.iter().map(|check| check.rule.capacity()), Source::Redis)
    }
}
