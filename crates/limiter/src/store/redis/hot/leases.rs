//! Leases by question: spending, asking for more, giving back.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::super::ticket::Ticket;
use super::Hot;
use super::heat::Heat;
use super::lease::Lease;
use super::question::Question;
use crate::verdict::RuleVerdict;

/// Questions whose requests are counted at most: those beyond are asked one by one.
const MOST: usize = 10_000;

/// The least time between two such looks.
const SWEEP_AGAIN_AFTER_US: u64 = 100_000;

/// How spare requests are held.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Terms {
    /// For how long at most.
    pub(in super::super) lasts_us: u64,
    /// Gateways that share what there is.
    pub(in super::super) gateways: u64,
}

/// What is known of one question.
#[derive(Default)]
struct Held {
    heat: Heat,
    lasts_us: u64,
    /// Requests for which there was room in Redis when it was asked last.
    room: u64,
    lease: Option<Lease>,
    owner: Option<Owner>,
    /// Whether a task waits for the end of the lease.
    is_kept: bool,
}

/// Who gives back what is not spent.
#[derive(Clone)]
struct Owner {
    question: Arc<Question>,
    ticket: Ticket,
}

#[derive(Default)]
pub(super) struct Leases {
    held: Mutex<HashMap<u128, Held>>,
    /// When a full map may be looked through again for what nobody asks any more: a flood of keys must not pay for one
    /// look each.
    sweep_at_us: AtomicU64,
}

/// What becomes of a request.
pub(in super::super) enum Spending {
    /// It was paid for.
    Paid(Vec<RuleVerdict>),
    /// Redis must be asked, and it may be worth while to ask for more.
    Ask {
        /// Whether many ask the same.
        is_hot: bool,
    },
}

impl Leases {
    /// Counts a request and pays for it, if it can.
    pub(super) fn spend(&self, identity: u128, terms: Terms, now_us: u64) -> Spending {
        let mut all = self.held.lock();
        if all.len() >= MOST && !all.contains_key(&identity) {
            if now_us < self.sweep_at_us.load(Ordering::Relaxed) {
                return Spending::Ask { is_hot: false };
            }
            self.sweep_at_us.store(now_us.saturating_add(terms.lasts_us.max(SWEEP_AGAIN_AFTER_US)), Ordering::Relaxed);
            all.retain(|_, held| held.is_kept || held.heat.is_warm(now_us, held.lasts_us));
            if all.len() >= MOST {
                return Spending::Ask { is_hot: false };
            }
        }
        let held = all.entry(identity).or_default();
        held.lasts_us = terms.lasts_us;
        held.heat.count(now_us, terms.lasts_us);
        match held.lease.as_mut().and_then(|lease| lease.spend(now_us)) {
            Some(answers) => Spending::Paid(answers),
            None => Spending::Ask { is_hot: held.heat.is_hot() },
        }
    }

    /// How many requests to ask for in advance.
    pub(super) fn wants(&self, identity: u128, terms: Terms) -> u64 {
        self.held.lock().get(&identity).map_or(0, |held| held.heat.wants(held.room, terms.gateways))
    }

    /// Redis answered `question`: there is room for so many more requests, and `lease` is what it brought in advance.
    pub(super) fn answered(
        &self,
        hot: &Arc<Hot>,
        question: &Arc<Question>,
        room: u64,
        brought: Option<(Lease, Ticket)>,
    ) {
        let identity = question.identity.question;
        let mut all = self.held.lock();
        let Some(held) = all.get_mut(&identity) else { return };
        held.room = room;
        let Some((lease, ticket)) = brought else { return };
        let ended = held.end(hot.now_us(&question.style));
        held.lease = Some(lease);
        held.owner = Some(Owner { question: Arc::clone(question), ticket });
        let Ok(runtime) = Handle::try_current() else { return };
        if !held.is_kept {
            held.is_kept = true;
            runtime.spawn(keep(Arc::clone(hot), identity, Arc::clone(question)));
        }
        if let Some(ended) = ended {
            let hot = Arc::clone(hot);
            runtime.spawn(async move { ended.give_back(&hot).await });
        }
    }

    /// When the lease ends; `None` without any.
    fn until_us(&self, identity: u128) -> Option<u64> {
        self.held.lock().get(&identity)?.lease.as_ref().map(Lease::until_us)
    }

    /// Ends what is over at `now_us`, and whoever keeps it is done.
    fn end(&self, identity: u128, now_us: u64) -> Ending {
        let mut all = self.held.lock();
        let Some(held) = all.get_mut(&identity) else { return Ending::Over(None) };
        if held.lease.as_ref().is_some_and(|lease| now_us < lease.until_us()) {
            return Ending::NotYet;
        }
        held.is_kept = false;
        Ending::Over(held.end(now_us))
    }

    /// The questions of which something is held.
    fn held(&self) -> Vec<u128> {
        self.held.lock().iter().filter(|(_, held)| held.lease.is_some()).map(|(identity, _)| *identity).collect()
    }

    /// Ends one before its time.
    fn end_now(&self, identity: u128, now_us: impl Fn(&Question) -> u64) -> Option<Ended> {
        let mut all = self.held.lock();
        let held = all.get_mut(&identity)?;
        let now_us = now_us(&held.owner.as_ref()?.question);
        held.end(now_us)
    }
}

/// Whether a lease is over.
enum Ending {
    NotYet,
    /// And what is to be given back.
    Over(Option<Ended>),
}

/// What is left of a lease.
struct Ended {
    owner: Owner,
    requests: u64,
    counted_at_us: Vec<u64>,
}

impl Held {
    fn end(&mut self, now_us: u64) -> Option<Ended> {
        let (mut lease, owner) = (self.lease.take()?, self.owner.take()?);
        // It is counted by then, or the answer comes too late: a call for each rule, one behind the other.
        let timeout_us = u64::try_from(owner.ticket.timeout().as_micros()).unwrap_or(u64::MAX);
        let by_us = now_us.saturating_add(timeout_us.saturating_mul(owner.question.len() as u64));
        let (requests, counted_at_us) = lease.end(by_us);
        (requests > 0).then_some(Ended { owner, requests, counted_at_us })
    }
}

impl Ended {
    async fn give_back(self, hot: &Hot) {
        let Self { owner: Owner { question, ticket }, requests, counted_at_us } = self;
        for (call, key) in question.give_back(requests, &counted_at_us) {
            hot.returned(&key);
            let ticket = ticket.again();
            let teller = ticket.teller();
            let given = ticket.run(&call.script, &call.cmd, |reply| super::super::call::answers(reply, 1)).await;
            hot.returned(&key);
            if given.is_ok() {
                teller.returned(&key).await;
            }
        }
    }
}

/// Waits until nothing is held any more, and gives back what was not spent.
async fn keep(hot: Arc<Hot>, identity: u128, question: Arc<Question>) {
    loop {
        if let Some(until_us) = hot.leases.until_us(identity) {
            let left_us = until_us.saturating_sub(hot.now_us(&question.style));
            // A timer that is early by less than it counts would be asked again and again.
            tokio::time::sleep(Duration::from_micros(left_us.max(1_000))).await;
        }
        match hot.leases.end(identity, hot.now_us(&question.style)) {
            Ending::NotYet => {}
            Ending::Over(Some(ended)) => return ended.give_back(&hot).await,
            Ending::Over(None) => return,
        }
    }
}

impl Hot {
    /// Gives back all that is held and not spent.
    pub(in super::super) async fn give_back(&self) {
        for identity in self.leases.held() {
            // Each when its turn comes: what may be given back shrinks with time.
            if let Some(ended) = self.leases.end_now(identity, |question| self.now_us(&question.style)) {
                ended.give_back(self).await;
            }
        }
    }
}
