//! Rules of one request whose keys are in different slots of a cluster: no one call can decide them.
//!
//! They are asked slot by slot, in the order of the slots, each slot's rules in one call: as long as all allow, the
//! request takes what it costs; the rules behind one that denies only say where they stand; and what was taken is given
//! back. So of requests that compete for the last tokens of the same rules the first to reach the first slot is
//! admitted, as it would be by one call.
//!
//! What that costs, beside a round trip for each slot within the one deadline: until a denied request has its tokens
//! given back (a round trip later, [`RedisSettings::timeout`] at most), others see them taken, and may be denied by
//! them. Giving back is tried once, so each time that it fails, or the process dies in between, a key has less by what
//! one request costs, until the rule itself has made up for it. More than the rules admit never passes.
//!
//! [`RedisSettings::timeout`]: super::RedisSettings::timeout

use std::collections::BTreeMap;

use super::call;
use super::fallback::Fallback;
use super::hash_slot::HashSlot;
use super::store::RedisStore;
use super::ticket::Ticket;
use crate::key::BucketKey;
use crate::rule::Rule;
use crate::store::{Check, Decision, Store};
use crate::verdict::{Outcome, RuleVerdict, Source, Verdict};

/// The places of checks by the slots of their keys.
type Slots = BTreeMap<HashSlot, Vec<usize>>;

/// A check that outlives the request.
struct Kept {
    scope: Box<str>,
    id: Box<[u8]>,
    rule: Rule,
    cost: u64,
}

/// What was taken, given back when this is dropped.
struct Taken<'a> {
    store: &'a RedisStore,
    checks: &'a [Kept],
    /// Which were taken from, and when.
    at: Vec<(usize, u64)>,
}

impl RedisStore {
    /// The slots of `checks`, if there is more than one and it matters.
    pub(super) fn slots(&self, checks: &[Check<'_>]) -> Option<Slots> {
        if checks.len() < 2 || !self.client.is_cluster() {
            return None;
        }
        let mut slots = Slots::new();
        for (place, check) in checks.iter().enumerate() {
            slots.entry(self.slot(check)).or_default().push(place);
        }
        (slots.len() > 1).then_some(slots)
    }

    /// Decides `checks`, whose keys are in `slots`.
    pub(super) fn decide_apart(&self, checks: &[Check<'_>], slots: Slots, fallback: Fallback) -> Decision {
        // With one node out of reach nothing needs to be taken from the others first.
        let Ok(tickets) = self.client.tickets(slots.keys().copied()) else {
            return Decision::Ready(fallback.decide());
        };
        let tickets: Vec<(Ticket, Vec<usize>)> = tickets.into_iter().zip(slots.into_values()).collect();
        let (store, checks): (_, Vec<Kept>) = (self.clone(), checks.iter().map(Kept::of).collect());
        Decision::Pending(Box::pin(async move {
            match store.ask_apart(&checks, tickets).await {
                Some(verdict) => verdict,
                None => fallback.decide(),
            }
        }))
    }

    async fn ask_apart(&self, checks: &[Kept], tickets: Vec<(Ticket, Vec<usize>)>) -> Option<Verdict> {
        let mut answers: Vec<Option<RuleVerdict>> = vec![None; checks.len()];
        let mut taken = Taken { store: self, checks, at: Vec::new() };
        let mut admitted = true;
        for (ticket, places) in tickets {
            let some: Vec<_> = places.iter().map(|&place| checks[place].check()).collect();
            let call = if admitted { call::decide(&some, &self.style) } else { call::look(&some, &self.style) };
            let read = |reply: &_| call::answers(reply, some.len());
            let replies = ticket.run(&call.script, &call.cmd, read).await.ok()?;
            let allowed = replies.iter().all(|answer| answer.outcome == Outcome::Allowed);
            for (&place, answer) in places.iter().zip(replies) {
                if admitted && allowed {
                    taken.at.push((place, answer.counted_at_us));
                }
                answers[place] = Some(answer);
            }
            admitted &= allowed;
        }
        if admitted {
            taken.at.clear();
        }
        for &(place, _) in &taken.at {
            if let (Some(answer), check) = (&mut answers[place], &checks[place]) {
                answer.remaining = answer.remaining.saturating_add(check.cost).min(check.rule.capacity());
            }
        }
        let capacities = checks.iter().map(|check| check.rule.capacity());
        Verdict::combine(answers.into_iter().collect::<Option<_>>()?, capacities, Source::Redis)
    }
}

impl Kept {
    fn of(check: &Check<'_>) -> Self {
        let Check { key, rule, cost } = *check;
        Self { scope: key.scope.into(), id: key.id.into(), rule: rule.clone(), cost }
    }

    fn check(&self) -> Check<'_> {
        Check { key: BucketKey { scope: &self.scope, id: &self.id }, rule: &self.rule, cost: self.cost }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        for &(place, counted_at_us) in &self.at {
            let check = self.checks[place].check();
            self.store.settle(check, i64::try_from(check.cost).map_or(i64::MIN, |cost| -cost), counted_at_us);
        }
    }
}
