//! The store that decides in Redis, and by `on-store-failure` when it cannot.

use std::sync::Arc;
use std::time::Duration;

use super::call::{self, Style};
use super::client::RedisClient;
use crate::limiter::rule::Rule;
use crate::limiter::store::memory::{Clock, Located, MemoryStore};
use crate::limiter::store::{Check, Decision, OnStoreFailure, Store};
use crate::limiter::verdict::{Outcome, Source, Verdict};

/// When a client that was refused because of Redis should ask again: recovery takes no longer.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Decides in Redis; clones share everything.
#[derive(Clone)]
pub struct RedisStore {
    pub(super) client: Arc<RedisClient>,
    local: Arc<MemoryStore>,
    on_store_failure: OnStoreFailure,
    pub(super) style: Style,
}

/// How to decide without Redis. It remembers where the local state is instead of the key.
enum Fallback {
    Local { store: Arc<MemoryStore>, checks: Vec<(Located, Rule, u64)> },
    Allow,
    Deny,
}

impl RedisStore {
    /// A store that asks `client`, and `local` where `on_store_failure` says so.
    #[must_use]
    pub fn new(client: Arc<RedisClient>, local: Arc<MemoryStore>, on_store_failure: OnStoreFailure) -> Self {
        Self { client, local, on_store_failure, style: Style::default() }
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

    fn fallback(&self, checks: &[Check<'_>]) -> Fallback {
        match self.on_store_failure {
            OnStoreFailure::Local => {
                let located = |check: &Check<'_>| (self.local.locate(check.key), check.rule.clone(), check.cost);
                Fallback::Local { store: Arc::clone(&self.local), checks: checks.iter().map(located).collect() }
            }
            OnStoreFailure::Allow => Fallback::Allow,
            OnStoreFailure::Deny => Fallback::Deny,
        }
    }
}

impl Store for RedisStore {
    fn decide(&self, checks: &[Check<'_>]) -> Decision {
        let fallback = self.fallback(checks);
        let Ok(ticket) = self.client.ticket() else { return Decision::Ready(fallback.decide()) };
        let call = call::decide(checks, &self.style);
        let capacities: Vec<u64> = checks.iter().map(|check| check.rule.capacity()).collect();
        Decision::Pending(Box::pin(async move {
            let read = |reply: &_| {
                let answers = call::answers(reply, capacities.len())?;
                Verdict::of_all(answers, capacities.iter().copied(), Source::Redis)
            };
            match ticket.run(&call.script, &call.cmd, read).await {
                Ok(verdict) => verdict,
                Err(_) => fallback.decide(),
            }
        }))
    }

    /// A correction that Redis does not take in time is lost.
    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        let (Ok(ticket), Ok(runtime)) = (self.client.ticket(), tokio::runtime::Handle::try_current()) else { return };
        let call = call::settle(&check, check.bounded(more), counted_at_us, &self.style);
        runtime.spawn(async move {
            // Lost corrections are counted with the calls that failed.
            let _ = ticket.run(&call.script, &call.cmd, |reply| call::answers(reply, 1)).await;
        });
    }
}

impl Fallback {
    fn decide(self) -> Verdict {
        match self {
            Self::Local { store, checks } => Verdict { source: Source::Fallback, ..store.decide_located(&checks) },
            Self::Allow => Verdict::unseen(Outcome::Allowed),
            Self::Deny => Verdict::unseen(Outcome::StoreUnavailable { retry_after: ASK_AGAIN_AFTER }),
        }
    }
}
