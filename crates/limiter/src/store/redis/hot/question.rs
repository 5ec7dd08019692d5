//! A question that outlives the request that asked it.

use super::super::call::{self, Call};
use super::super::operands::{Batch, Style};
use super::identity::Identity;
use super::lease::Lease;
use super::leases::Terms;
use crate::key::BucketKey;
use crate::rule::{MAX_SAFE_INTEGER, Rule};
use crate::store::Check;
use crate::verdict::{RuleVerdict, Source, Verdict};

/// What many requests ask alike.
pub(in super::super) struct Question {
    pub(super) identity: Identity,
    pub(super) style: Style,
    checks: Box<[Owned]>,
    /// Whether its denials are noted.
    pub(super) denial_cache: bool,
    /// How much may be held in advance; `None`: nothing.
    pub(super) lease: Option<Terms>,
}

/// A [`Check`] of one's own.
struct Owned {
    scope: Box<str>,
    id: Box<[u8]>,
    rule: Rule,
    cost: u64,
}

impl Question {
    pub(in super::super) fn new(
        identity: Identity,
        checks: &[Check<'_>],
        style: &Style,
        denial_cache: bool,
        lease: Option<Terms>,
    ) -> Self {
        let own = |check: &Check<'_>| Owned {
            scope: check.key.scope.into(),
            id: check.key.id.into(),
            rule: check.rule.clone(),
            cost: check.cost,
        };
        Self { identity, style: style.clone(), checks: checks.iter().map(own).collect(), denial_cache, lease }
    }

    /// Costs of one request.
    pub(super) fn costs(&self) -> Vec<u64> {
        self.checks.iter().map(|check| check.cost).collect()
    }

    /// How many rules it is about.
    pub(super) fn len(&self) -> usize {
        self.checks.len()
    }

    /// As many requests as one call can count, `most` at most.
    pub(super) fn countable(&self, most: usize) -> usize {
        let dearest = self.checks.iter().map(|check| check.cost).max().unwrap_or(1);
        most.min(usize::try_from(MAX_SAFE_INTEGER / dearest.max(1)).unwrap_or(most)).max(1)
    }

    /// The call that asks for many.
    pub(super) fn call(&self, batch: Batch) -> Call {
        let checks: Vec<Check<'_>> = self.checks.iter().map(Owned::check).collect();
        call::decide_batch(&checks, batch, &self.style)
    }

    /// How many requests there is room for.
    pub(super) fn room(&self, answers: &[RuleVerdict]) -> u64 {
        let room = |(check, answer): (&Owned, &RuleVerdict)| answer.remaining / check.cost.max(1);
        self.checks.iter().zip(answers).map(room).min().unwrap_or(0)
    }

    /// `spare` requests in advance, as `answers` say to a call that was sent then.
    pub(super) fn lease(&self, terms: Terms, answers: &[RuleVerdict], spare: u64, sent_us: u64) -> Lease {
        let rules = self.checks.iter().map(|check| (&check.rule, check.cost));
        Lease::new(rules, answers, spare, sent_us, terms.lasts_us)
    }

    /// The calls that give back so many requests, and which key each gives to.
    pub(super) fn give_back(&self, requests: u64, counted_at_us: &[u64]) -> Vec<(Call, Vec<u8>)> {
        let call = |(check, counted_at_us): (&Owned, &u64)| {
            let more = i64::try_from(requests.saturating_mul(check.cost)).unwrap_or(i64::MAX);
            let call = call::settle(&check.check(), -more, *counted_at_us, &self.style);
            let key = call.keys.get(0)?.to_vec();
            Some((call, key))
        };
        self.checks.iter().zip(counted_at_us).filter_map(call).collect()
    }

    /// What a request is told behind whom `others` were admitted by the same call: what they took was still there.
    pub(super) fn verdict(&self, answers: &[RuleVerdict], others: u64) -> Option<Verdict> {
        let answer = |(answer, check): (&RuleVerdict, &Owned)| RuleVerdict {
            remaining: answer.remaining.saturating_add(others.saturating_mul(check.cost)),
            ..*answer
        };
        let answers = answers.iter().zip(&self.checks).map(answer).collect();
        Verdict::combine(answers, self.checks.iter().map(|check| check.rule.capacity()), Source::Redis)
    }
}

impl Owned {
    fn check(&self) -> Check<'_> {
        Check { key: BucketKey { scope: &self.scope, id: &self.id }, rule: &self.rule, cost: self.cost }
    }
}
