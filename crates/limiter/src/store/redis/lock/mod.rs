//! Store that decides in Redis without scripts (`atomicity: lock`), for compatible servers that forbid `EVAL`, and for
//! window algorithms.
//!
//! A decision locks the key (`SET key.lock <owner> NX PX`), reads the state and the server's time and decides here. Then
//! it writes and unlocks in one `MULTI`/`EXEC`, which fails if the lock or the state changed meanwhile (`WATCH`): this
//! is compare-and-delete without a script. After a failure nothing was taken, and the decision is retried after a pause.
//! It costs two round trips instead of one and serializes the decisions of a key, so scripts are better where allowed.
//!
//! The state is that of the scripts, so gateways of both kinds may share the keys of a limiter's only rule. Scripts keep
//! the rules of a list in one string, which this store does not read.
//!
//! [`RedisSettings::timeout`] bounds everything, pauses included: with the defaults of [`Retry`], a timeout of 100 ms
//! leaves time for a single attempt. A request that gets no lock in that time is refused with
//! the source [`Redis`](Source::Redis). If Redis fails, the store's
//! [`OnStoreFailure`] decides.
//!
//! [`RedisSettings::timeout`]: super::RedisSettings::timeout

mod attempt;
mod client;
mod plain_log;
mod plain_state;
mod retry;

use std::sync::Arc;

use self::attempt::{LockedRule, Transaction};
pub use self::client::LockStats;
use self::client::{LockClient, LockError};
use self::plain_state::Operation;
pub use self::retry::{LockSettings, Retry};
use super::client::RedisClient;
use super::command::short_name;
use super::connection_settings::RedisSettingsError;
use super::error::StoreError;
use super::gateways::Gateways;
use crate::rule::Rule;
use crate::store::fallback::{Fallback, RETRY_AFTER};
use crate::store::memory::MemoryStore;
use crate::store::{Check, Decision, OnStoreFailure, Store};
use crate::verdict::{Outcome, Source, Verdict};

/// Store that decides under a lock in Redis; clones share everything.
#[derive(Clone)]
pub struct LockedStore {
    client: Arc<LockClient>,
    local: Arc<MemoryStore>,
    on_store_failure: OnStoreFailure,
    hash_keys: bool,
    gateways: Gateways,
}

impl std::fmt::Debug for LockedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockedStore").field("on_store_failure", &self.on_store_failure).finish_non_exhaustive()
    }
}

impl LockedStore {
    /// Creates a store in the Redis of `client`, with connections of its own, and in `local` where `on_store_failure` says
    /// so. `hash_keys` sends hashes of key ids, for ids that are secrets. Connects on the first decision.
    ///
    /// # Errors
    /// The client is connected to a cluster, or the pool cannot be created.
    pub fn new(
        client: Arc<RedisClient>,
        lock: LockSettings,
        local: Arc<MemoryStore>,
        on_store_failure: OnStoreFailure,
        hash_keys: bool,
    ) -> Result<Self, RedisSettingsError> {
        let client = Arc::new(LockClient::new(client, lock)?);
        Ok(Self { client, local, on_store_failure, hash_keys, gateways: Gateways::default() })
    }

    /// Counts in `stats`, which outlive the store. Must be called before the first decision.
    #[must_use]
    pub fn counting(mut self, stats: Arc<LockStats>) -> Self {
        if let Some(client) = Arc::get_mut(&mut self.client) {
            client.stats = stats;
        }
        self
    }

    /// Sets the number of gateways that share a limit. While Redis is unreachable, each admits its share in memory.
    #[must_use]
    pub fn gateways(mut self, gateways: impl Into<Gateways>) -> Self {
        self.gateways = gateways.into();
        self
    }

    /// Returns true if the algorithm of `rule` can be decided under a lock. `on_store_failure` decides under other
    /// rules.
    #[must_use]
    pub fn supports(rule: &Rule) -> bool {
        rule.algorithm().spec().lockable
    }

    /// Counters of the store.
    #[must_use]
    pub fn stats(&self) -> &LockStats {
        &self.client.stats
    }

    /// Transaction for `rules`; `None` if one of them needs scripts.
    fn transaction(&self, rules: Vec<LockedRule>) -> Option<Transaction> {
        let lock = [rules.first()?.key.as_slice(), b".lock"].concat();
        let lock_ms = self.client.lock_ms();
        rules.iter().all(|rule| Self::supports(&rule.rule)).then_some(Transaction { rules, lock, lock_ms })
    }

    fn locked_rule(&self, check: &Check<'_>, operation: Operation) -> LockedRule {
        let name = short_name(check.key, check.rule.algorithm(), self.hash_keys);
        let key = [self.client.client.key_prefix().as_bytes(), &name].concat();
        LockedRule { key, rule: check.rule.clone(), operation }
    }

    fn decide_list(&self, checks: &[Check<'_>]) -> Decision {
        let fallback = Fallback::new(self.on_store_failure, &self.local, checks, self.gateways.get());
        let rules = checks.iter().map(|check| self.locked_rule(check, Operation::Decide { cost: check.cost }));
        let Some(transaction) = self.transaction(rules.collect()) else { return Decision::Ready(fallback.decide()) };
        if !self.client.breaker.admits() {
            self.client.count(&LockError::Store(StoreError::BreakerOpen));
            return Decision::Ready(fallback.decide());
        }
        let client = Arc::clone(&self.client);
        Decision::Pending(Box::pin(async move {
            let rule_verdicts = match client.run(&transaction).await {
                Ok(rule_verdicts) => rule_verdicts,
                // Redis decides for other requests: any fallback would admit more than the limit.
                Err(LockError::Exhausted) => return contended(),
                Err(_) => return fallback.decide(),
            };
            let capacities = transaction.rules.iter().map(|rule| rule.rule.capacity());
            let verdict = Verdict::combine(rule_verdicts, capacities, Source::Redis);
            verdict.unwrap_or_else(|| fallback.decide())
        }))
    }
}

impl Store for LockedStore {
    fn decide(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Decision {
        self.decide_list(enforced).then_observed(self, observed)
    }

    /// A correction that finds no lock in time is lost.
    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        let operation = Operation::Settle { more, counted_at_us };
        let Some(transaction) = self.transaction(vec![self.locked_rule(&check, operation)]) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.client.breaker.admits() {
            let client = Arc::clone(&self.client);
            runtime.spawn(async move {
                // Lost corrections are counted with the failed decisions.
                let _ = client.run(&transaction).await;
            });
        }
    }
}

/// Returns the refusal of a request that got no lock in time. It is no fallback: Redis replied.
fn contended() -> Verdict {
    let outcome = Outcome::StoreUnavailable { retry_after: RETRY_AFTER };
    Verdict { source: Source::Redis, ..Verdict::uncounted(outcome) }
}
