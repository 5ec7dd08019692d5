//! The store that decides in Redis, and by `on-store-failure` when it cannot.

use std::sync::Arc;

use super::call;
use super::client::RedisClient;
use super::fallback::Fallback;
use super::hash_slot::HashSlot;
use super::heartbeat::Gateways;
use super::operands::Style;
use super::stats::Operation;
use crate::limiter::store::memory::{Clock, MemoryStore};
use crate::limiter::store::{Check, Decision, OnStoreFailure, Store};
use crate::limiter::verdict::{Source, Verdict};

/// Decides in Redis; clones share everything.
#[derive(Clone)]
pub struct RedisStore {
    pub(super) client: Arc<RedisClient>,
    local: Arc<MemoryStore>,
    on_store_failure: OnStoreFailure,
    pub(super) style: Style,
    gateways: Gateways,
}

impl RedisStore {
    /// A store that asks `client`, and `local` where `on_store_failure` says so.
    #[must_use]
    pub fn new(client: Arc<RedisClient>, local: Arc<MemoryStore>, on_store_failure: OnStoreFailure) -> Self {
        Self { client, local, on_store_failure, style: Style::default(), gateways: Gateways::default() }
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

    /// Corrects as [`settle`](Store::settle) does, and says whether Redis took it.
    pub fn settled(
        &self,
        check: Check<'_>,
        more: i64,
        counted_at_us: u64,
    ) -> impl Future<Output = bool> + Send + use<> {
        let call = |ticket| (ticket, call::settle(&check, check.bounded(more), counted_at_us, &self.style));
        let call = self.client.ticket_for(Operation::Settle, || self.slot(&check)).map(call);
        async move {
            // Lost corrections are counted with the calls that failed.
            let Ok((ticket, call)) = call else { return false };
            ticket.run(&call.script, &call.cmd, |reply| call::answers(reply, 1)).await.is_ok()
        }
    }

    pub(super) fn slot(&self, check: &Check<'_>) -> HashSlot {
        call::slot_of(check.key, check.rule.algorithm(), &self.style)
    }
}

impl Store for RedisStore {
    fn decide(&self, checks: &[Check<'_>]) -> Decision {
        let fallback = Fallback::new(self.on_store_failure, &self.local, checks, self.gateways.get());
        let Some(first) = checks.first() else { return Decision::Ready(fallback.decide()) };
        if let Some(slots) = self.slots(checks) {
            return self.decide_apart(checks, slots, fallback);
        }
        let Ok(ticket) = self.client.ticket(|| self.slot(first)) else { return Decision::Ready(fallback.decide()) };
        let call = call::decide(checks, &self.style);
        let capacities: Vec<u64> = checks.iter().map(|check| check.rule.capacity()).collect();
        Decision::Pending(Box::pin(async move {
            let read = |reply: &_| {
                let answers = call::answers(reply, capacities.len())?;
                Verdict::of_all(answers, capacities.iter().copied(), Source::Redis)
            };
            match ticket.decide(call, read).await {
                Ok(verdict) => verdict,
                Err(_) => fallback.decide(),
            }
        }))
    }

    /// A correction that Redis does not take in time is lost.
    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(self.settled(check, more, counted_at_us));
        }
    }
}
