//! From a request to the question that the store is asked.

use bytes::Bytes;
use http::{Request, Response};

use super::enforcement::{Enforcement, Part};
use super::limiter::{Limiter, PendingVerdict};
use super::set::Set;
use crate::headers::Asked;
use crate::key_resolver::KeyBuf;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::store::{Check, Decision, MAX_CHECKS};
use tollgate_limiter::verdict::Verdict;

/// Which rules of which set were asked about.
pub(super) struct Question {
    pub(super) set: u16,
    count: u8,
    rules: [u8; MAX_CHECKS],
    varying: Option<Box<Varying>>,
}

/// What differs from one request to another.
#[derive(Default)]
struct Varying {
    costs: Vec<u64>,
    late: Vec<Late>,
}

/// A rule under which something may have to be corrected: the request's cost is not known yet, or it waits for a turn that
/// it may give back.
pub(super) struct Late {
    /// Its place among the checks.
    pub(super) position: usize,
    /// Its place in the set.
    pub(super) limit: u8,
    pub(super) id: Box<[u8]>,
    pub(super) reserved: u64,
    /// Whether the cost comes later.
    pub(super) settles: bool,
    /// Whether the rule gives turns.
    pub(super) paces: bool,
}

/// What the store says.
pub(super) enum Asking<R> {
    /// A key is missing that must not be.
    NoKey(Response<R>),
    /// No rule had to be asked about.
    Nothing,
    Ready(Question, Verdict),
    Pending(Question, PendingVerdict),
}

impl Limiter {
    /// Asks the store about those rules of the set that `part` says; it takes tokens under all of them or none.
    pub(super) fn ask<B, R: From<Bytes>>(&self, set: usize, part: Part, request: &Request<B>) -> Asking<R> {
        let rules = &self.sets[set];
        let number = u16::try_from(set).unwrap_or_default();
        match (&*rules.limits, rules.varies) {
            ([limit], false) => {
                let mut buf = KeyBuf::new();
                if limit.enforcement == Enforcement::Off {
                    return Asking::Nothing;
                }
                let Some(id) = limit.key_resolver.resolve(request, &mut buf) else {
                    return self.without_key(limit.enforcement, request).map_or(Asking::Nothing, Asking::NoKey);
                };
                if limit.enforcement.part(id) != Some(part) {
                    return Asking::Nothing;
                }
                let key = BucketKey { scope: &limit.scope, id };
                let checks = [Check { key, rule: &limit.rule, cost: limit.cost.tokens }];
                let question = Question { set: number, count: 1, rules: [0; MAX_CHECKS], varying: None };
                self.decide(question, &checks)
            }
            _ => self.ask_list(rules, number, part, request),
        }
    }

    fn ask_list<B, R: From<Bytes>>(&self, set: &Set, number: u16, part: Part, request: &Request<B>) -> Asking<R> {
        let mut bufs: [KeyBuf; MAX_CHECKS] = std::array::from_fn(|_| KeyBuf::new());
        let mut question = Question { set: number, count: 0, rules: [0; MAX_CHECKS], varying: None };
        let mut checks = Vec::with_capacity(set.limits.len());
        for ((at, limit), buf) in (0_u8..).zip(&set.limits).zip(&mut bufs) {
            if limit.enforcement == Enforcement::Off {
                continue;
            }
            let Some(id) = limit.key_resolver.resolve(request, buf) else {
                match self.without_key(limit.enforcement, request) {
                    Some(response) => return Asking::NoKey(response),
                    None => continue,
                }
            };
            if limit.enforcement.part(id) != Some(part) {
                continue;
            }
            let reserved = limit.cost.reserve(request);
            if set.varies {
                let varying = question.varying.get_or_insert_default();
                varying.costs.push(reserved.tokens);
                let (settles, paces) = (reserved.settles, limit.paces());
                if settles || paces {
                    let (position, reserved) = (checks.len(), reserved.tokens);
                    varying.late.push(Late { position, limit: at, id: id.into(), reserved, settles, paces });
                }
            }
            question.rules[checks.len()] = at;
            question.count += 1;
            let key = BucketKey { scope: &limit.scope, id };
            checks.push(Check { key, rule: &limit.rule, cost: reserved.tokens });
        }
        if checks.is_empty() { Asking::Nothing } else { self.decide(question, &checks) }
    }

    #[inline]
    fn decide<R>(&self, question: Question, checks: &[Check<'_>]) -> Asking<R> {
        match self.store.decide(checks) {
            Decision::Ready(verdict) => Asking::Ready(question, verdict),
            Decision::Pending(verdict) => Asking::Pending(question, verdict),
        }
    }

    /// The refusal of a request that has no key id for a rule; `None` where the rule lets it pass.
    fn without_key<B, R: From<Bytes>>(&self, enforcement: Enforcement, request: &Request<B>) -> Option<Response<R>> {
        let reply = self.empty_key.as_ref().filter(|_| enforcement.is_full())?;
        Some(reply.to_response(request))
    }
}

impl Question {
    /// The places of the rules in their set, in the order asked.
    pub(super) fn rules(&self) -> &[u8] {
        &self.rules[..usize::from(self.count)]
    }

    pub(super) fn asked(&self) -> Asked<'_> {
        Asked { rules: self.rules(), costs: self.varying.as_ref().map(|varying| varying.costs.as_slice()) }
    }

    pub(super) fn late(&self) -> &[Late] {
        self.varying.as_ref().map_or(&[], |varying| &varying.late)
    }
}
