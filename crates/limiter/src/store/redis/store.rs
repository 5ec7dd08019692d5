//! The store that decides in Redis, and by `on-store-failure` when it cannot.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout_at;

use super::call;
use super::client::RedisClient;
use super::error::StoreError;
use super::fallback::Fallback;
use super::hash_slot::HashSlot;
use super::heartbeat::Gateways;
use super::hot::{Boarding, Question, Spending, Terms, is_leasable};
use super::operands::Style;
use super::place::slot_of;
use super::stats::Operation;
use crate::rule::Rule;
use crate::store::memory::{Clock, MemoryStore};
use crate::store::{Check, Decision, OnStoreFailure, Store};
use crate::verdict::{Source, Verdict};

/// Decides in Redis; clones share everything.
#[derive(Clone)]
pub struct RedisStore {
    pub(super) client: Arc<RedisClient>,
    local: Arc<MemoryStore>,
    on_store_failure: OnStoreFailure,
    pub(super) style: Style,
    gateways: Gateways,
    denial_cache: bool,
    coalesce: bool,
    lease: Option<Duration>,
}

impl RedisStore {
    /// A store that asks `client`, and `local` where `on_store_failure` says so.
    #[must_use]
    pub fn new(client: Arc<RedisClient>, local: Arc<MemoryStore>, on_store_failure: OnStoreFailure) -> Self {
        let (style, gateways) = (Style::default(), Gateways::default());
        Self { client, local, on_store_failure, style, gateways, denial_cache: true, coalesce: true, lease: None }
    }

    /// Whether key ids are secrets: then Redis gets a hash of them.
    #[must_use]
    pub fn hash_keys(mut self, hash_keys: bool) -> Self {
        self.style.hash_ids = hash_keys;
        self
    }

    /// Decides at the time that `clock` shows, and not at Redis' own: for traces of another time. The clocks of all who
    /// share keys must agree then.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.style.clock = Some(clock);
        self
    }

    /// How many gateways share a limit: while Redis cannot be asked, each admits its part of it in memory.
    #[must_use]
    pub fn gateways(mut self, gateways: impl Into<Gateways>) -> Self {
        self.gateways = gateways.into();
        self
    }

    /// Whether a denial is remembered for as long as it certainly is one, a second at most (the default). Until then the
    /// same request is denied without a call, unless something is given back to one of its keys: by this client, or by
    /// others who say so on the channel `tollgate.returned`. What remains is told as it was then.
    #[must_use]
    pub fn denial_cache(mut self, denial_cache: bool) -> Self {
        self.denial_cache = denial_cache;
        self
    }

    /// Whether requests that ask the same while one of them is being asked for go together in one call (the default).
    /// Each is told what it would have been told alone, but for the reset, which is that of all of them. Requests for
    /// turns of a leaky bucket are asked for one by one.
    #[must_use]
    pub fn coalesce(mut self, coalesce: bool) -> Self {
        self.coalesce = coalesce;
        self
    }

    /// Whether a call for a key that many ask for brings requests in advance, for as long at most (by default not): as
    /// many as came within that time lately, but no more than a quarter of what is left divided by
    /// [`gateways`](Self::gateways), and 1,000. They count as taken, so that no more is admitted than without; what did not come
    /// by then is given back. Until then others may be denied that much too early, and what remains is told as what is
    /// held here, which is the least that is left. Under token buckets, GCRA and fixed windows; under lists with other
    /// rules nothing is brought in advance. Not for costs that are settled later.
    #[must_use]
    pub fn lease(mut self, lease: Option<Duration>) -> Self {
        self.lease = lease;
        self
    }

    /// Whether requests under `rule` can be brought in advance.
    #[must_use]
    pub fn leases(rule: &Rule) -> bool {
        is_leasable(rule)
    }

    /// On which terms requests may be paid for in advance.
    fn terms(&self, checks: &[Check<'_>]) -> Option<Terms> {
        let lasts_us = u64::try_from(self.lease?.as_micros()).ok()?;
        let is_leasable = checks.iter().all(|check| is_leasable(check.rule)) && call::goes_in_batches(checks);
        is_leasable.then_some(Terms { lasts_us, gateways: self.gateways.get().get().into() })
    }

    /// Corrects as [`settle`](Store::settle) does, and says whether Redis took it.
    pub fn settled(
        &self,
        check: Check<'_>,
        more: i64,
        counted_at_us: u64,
    ) -> impl Future<Output = bool> + Send + use<> {
        let hot = Arc::clone(self.client.hot());
        let call = call::settle(&check, check.bounded(more), counted_at_us, &self.style);
        // Only what is given back can let somebody pass who was denied.
        let given = call.keys.get(0).filter(|_| more < 0).map(<[u8]>::to_vec);
        given.iter().for_each(|key| hot.returned(key));
        let ticket = self.client.ticket_for(Operation::Settle, || self.slot(&check));
        async move {
            // Lost corrections are counted with the calls that failed.
            let Ok(ticket) = ticket else { return false };
            let teller = ticket.teller();
            let taken = ticket.run(&call.script, &call.cmd, |reply| call::answers(reply, 1)).await;
            if let Some(key) = given {
                // Redis may have done it, whatever came of the answer.
                hot.returned(&key);
                if taken.is_ok() {
                    teller.returned(&key).await;
                }
            }
            taken.is_ok()
        }
    }

    /// Forgets what a key has spent under a rule: the operator's reset. Rules of one list that are kept in one string are
    /// forgotten together. What this process counted while Redis could not be asked goes too, and all gateways are told.
    ///
    /// # Errors
    /// Redis did not answer in time; it may have been forgotten.
    pub async fn forget(&self, check: Check<'_>) -> Result<(), StoreError> {
        self.local.forget(check.key, check.rule);
        let names: Vec<Vec<u8>> = call::decide(&[check], &self.style).keys().map(<[u8]>::to_vec).collect();
        let ticket = self.client.ticket_for(Operation::Settle, || self.slot(&check))?;
        let mut cmd = redis::cmd("DEL");
        names.iter().for_each(|name| {
            cmd.arg(name);
        });
        let teller = ticket.teller();
        let done = ticket.run_plain(&cmd, |_| Some(())).await;
        let Some(name) = names.first() else { return done };
        // Redis may have done it, whatever came of the answer.
        self.client.hot().returned(name);
        if done.is_ok() {
            teller.returned(name).await;
        }
        done
    }

    pub(super) fn slot(&self, check: &Check<'_>) -> HashSlot {
        slot_of(check.key, check.rule.algorithm(), &self.style)
    }
}

impl Store for RedisStore {
    fn decide(&self, checks: &[Check<'_>]) -> Decision {
        let fallback = || Fallback::new(self.on_store_failure, &self.local, checks, self.gateways.get());
        let Some(first) = checks.first() else { return Decision::Ready(fallback().decide()) };
        if let Some(slots) = self.slots(checks) {
            return self.decide_apart(checks, slots, fallback());
        }
        let hot = self.client.hot();
        let (identity, sent_us) = (hot.identify(checks, &self.style), hot.now_us(&self.style));
        let (terms, mut along) = (self.terms(checks), false);
        if let Some(terms) = terms {
            match hot.spend(identity, terms, sent_us) {
                Spending::Paid(answers) => {
                    let capacities = checks.iter().map(|check| check.rule.capacity());
                    if let Some(verdict) = Verdict::combine(answers, capacities, Source::Redis) {
                        return Decision::Ready(verdict);
                    }
                }
                Spending::Ask { is_hot } => along = is_hot,
            }
        }
        if self.denial_cache
            && let Some(verdict) = hot.known_denial(identity, checks, sent_us)
        {
            return Decision::Ready(verdict);
        }
        let fallback = fallback();
        let Ok(ticket) = self.client.ticket(|| self.slot(first)) else { return Decision::Ready(fallback.decide()) };
        let (ticket, alone) = if along || self.coalesce && call::goes_in_batches(checks) {
            let question = || Question::new(identity, checks, &self.style, self.denial_cache, terms);
            match hot.board(identity, ticket, along, question) {
                Boarding::Alone(ticket, alone) => (ticket, alone),
                Boarding::Along(answer, deadline) => {
                    return Decision::Pending(Box::pin(async move {
                        match timeout_at(deadline, answer).await {
                            Ok(Ok(Ok(verdict))) => verdict,
                            // Late, failed, or given up: whoever asked for all has counted it.
                            _ => fallback.decide(),
                        }
                    }));
                }
            }
        } else {
            (ticket, None)
        };
        hot.called_for(1);
        let call = call::decide(checks, &self.style);
        let capacities: Vec<u64> = checks.iter().map(|check| check.rule.capacity()).collect();
        let noted = self.denial_cache.then(|| {
            let costs: Vec<u64> = checks.iter().map(|check| check.cost).collect();
            (Arc::clone(hot), self.style.clone(), costs, hot.look(call.keys()))
        });
        Decision::Pending(Box::pin(async move {
            let read = |reply: &_| {
                let answers = call::answers(reply, capacities.len())?;
                Verdict::combine(answers, capacities.iter().copied(), Source::Redis)
            };
            let verdict = ticket.decide(call, read).await;
            drop(alone);
            let Ok(verdict) = verdict else { return fallback.decide() };
            if let Some((hot, style, costs, seen)) = noted {
                hot.note(identity, &verdict, &costs, seen, [sent_us, hot.now_us(&style)]);
            }
            verdict
        }))
    }

    /// A correction that Redis does not take in time is lost.
    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(self.settled(check, more, counted_at_us));
        }
    }
}
