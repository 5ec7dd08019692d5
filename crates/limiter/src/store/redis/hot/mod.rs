//! Keys that many ask for at one time, in one worker: what need not be asked of Redis, or not one by one.
//!
//! A denial is remembered for as long as it certainly is one ([`denials`]), unless something is given back meanwhile
//! ([`returns`]). Requests that ask the same while one of them is being asked for go together ([`flights`]). Where
//! a limiter wants it, a call also brings requests in advance that are likely to come ([`leases`]).

mod denials;
mod flight;
mod flights;
mod heat;
mod identity;
mod lease;
mod leases;
mod question;
mod returns;
mod sizes;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use self::denials::{Denials, Note};
pub(super) use self::flights::Boarding;
use self::flights::Flights;
pub(super) use self::identity::Identity;
use self::identity::Seeds;
pub(super) use self::lease::is_leasable;
use self::leases::Leases;
pub(super) use self::leases::{Spending, Terms};
pub(super) use self::question::Question;
use self::returns::Returns;
pub(super) use self::returns::{CHANNEL, Seen};
pub use self::sizes::CallSizes;
pub(super) use self::sizes::Sizes;
use super::operands::Style;
use super::stats::RedisStats;
use super::ticket::Ticket;
use crate::store::Check;
use crate::store::memory::MonotonicClock;
use crate::verdict::Verdict;

/// What the stores of one client share.
#[derive(Default)]
pub(super) struct Hot {
    seeds: Seeds,
    denials: Mutex<Denials>,
    returns: Returns,
    clock: MonotonicClock,
    flights: Flights,
    leases: Leases,
    stats: Arc<RedisStats>,
}

impl Hot {
    /// One that counts in `stats`.
    pub(super) fn counting(stats: Arc<RedisStats>) -> Self {
        Self { stats, ..Self::default() }
    }

    /// What tells `checks` from others.
    pub(super) fn identify(&self, checks: &[Check<'_>], style: &Style) -> Identity {
        self.seeds.identify(checks, style)
    }

    /// The time that notes are kept by.
    pub(super) fn now_us(&self, style: &Style) -> u64 {
        style.now_us(&self.clock)
    }

    /// The denial that `checks` are known to be answered with at `now_us`.
    pub(super) fn known_denial(&self, identity: Identity, checks: &[Check<'_>], now_us: u64) -> Option<Verdict> {
        let verdict = {
            let denials = self.denials.lock();
            let (note, verdict) = denials.find(identity, checks, now_us)?;
            self.returns.are_none_since(&note.seen).then_some(verdict)
        };
        self.stats.denied_from_memory.fetch_add(u64::from(verdict.is_some()), Ordering::Relaxed);
        verdict
    }

    /// What is known of the keys of a question that is about to be sent.
    pub(super) fn look<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Seen {
        self.returns.look(keys)
    }

    /// Notes `verdict`, if it is a denial, asked for at `sent_us` with what was `seen` then.
    pub(super) fn note(
        &self,
        identity: Identity,
        verdict: &Verdict,
        costs: &[u64],
        seen: Seen,
        [sent_us, now_us]: [u64; 2],
    ) {
        if let Some(note) = Note::of(verdict, costs, seen, sent_us, now_us)
            && self.returns.are_none_since(&note.seen)
        {
            self.denials.lock().insert(identity, note);
        }
    }

    /// Asks with `ticket`: alone, or along with others who ask the same; with `along` there may be none yet.
    pub(super) fn board(
        self: &Arc<Self>,
        identity: Identity,
        ticket: Ticket,
        along: bool,
        question: impl FnOnce() -> Question,
    ) -> Boarding {
        self.flights.board(self, identity.question, ticket, along, question)
    }

    /// Counts a request that may be paid for in advance, and pays for it, if it can.
    pub(super) fn spend(&self, identity: Identity, terms: Terms, now_us: u64) -> Spending {
        let spending = self.leases.spend(identity.question, terms, now_us);
        self.stats.paid_in_advance.fetch_add(u64::from(matches!(spending, Spending::Paid(_))), Ordering::Relaxed);
        spending
    }

    /// Counts a call for so many requests.
    pub(super) fn called_for(&self, requests: usize) {
        self.stats.call_sizes.count(requests);
    }

    /// Something was, or may have been, given back to `key`, a name in Redis.
    pub(super) fn returned(&self, key: &[u8]) {
        self.returns.note(key);
    }

    /// Nobody tells any more what is given back.
    pub(super) fn forget(&self) {
        self.returns.note_all();
        self.denials.lock().clear();
    }
}
