//! Connections, breaker and retries that clones of a store share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool::managed::{
    Manager, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult, TimeoutType, Timeouts,
};
use deadpool_redis::Runtime;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisError};
use tokio::time::{Instant, timeout_at};

use super::attempt::{AttemptOutcome, Transaction, attempt};
use super::retry::LockSettings;
use crate::store::redis::breaker::Breaker;
use crate::store::redis::client::RedisClient;
use crate::store::redis::connection::{ConnectionContext, check_primary, open};
use crate::store::redis::connection_settings::RedisSettingsError;
use crate::store::redis::error::StoreError;
use crate::store::redis::random::random_id;
use crate::store::redis::stats::{Counter, FailureCounts, Operation};
use crate::store::redis::topology::{AddressWatch, Node};
use crate::verdict::RuleVerdict;

/// Least time that another attempt needs.
const MIN_ATTEMPT_TIME: Duration = Duration::from_millis(4);

/// Counters of [`LockedStore`](super::LockedStore)s.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct LockStats {
    /// Attempts to decide under a lock.
    pub tries: Counter,
    /// Attempts that found the lock taken, or lost it.
    pub contended: Counter,
    /// Decisions that ran out of attempts, time or connections.
    pub exhausted: Counter,
    /// Decisions that failed otherwise.
    pub failures: FailureCounts,
}

/// State that clones of a store share.
pub(super) struct LockClient {
    pub(super) client: Arc<RedisClient>,
    node: Arc<Node>,
    pool: Pool<ConnectionFactory>,
    lock: LockSettings,
    pub(super) breaker: Breaker,
    /// Prefix of this store's lock owners.
    owner: String,
    /// Number of decisions, which tells their owners apart.
    decisions: AtomicU64,
    /// Attempts to which Redis has replied.
    replies: AtomicU64,
    pub(super) stats: Arc<LockStats>,
}

/// Reason why Redis did not decide.
pub(super) enum LockError {
    /// No attempts, time or connections time_left.
    Exhausted,
    /// Redis failed.
    Store(StoreError),
}

impl LockClient {
    pub(super) fn new(client: Arc<RedisClient>, lock: LockSettings) -> Result<Self, RedisSettingsError> {
        let node = client.topology().single().cloned();
        let unusable = || RedisSettingsError::Unusable("decisions under a lock do not support a cluster".into());
        let node = node.ok_or_else(unusable)?;
        let pool = Pool::builder(ConnectionFactory { context: Arc::clone(client.context()), node: Arc::clone(&node) })
            .max_size(lock.connections.get())
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| RedisSettingsError::Unusable(error.to_string()))?;
        Ok(Self {
            client,
            node,
            pool,
            lock,
            breaker: Breaker::default(),
            owner: random_id(),
            decisions: AtomicU64::new(0),
            replies: AtomicU64::new(0),
            stats: Arc::default(),
        })
    }

    /// Lifetime of a lock in milliseconds.
    pub(super) fn lock_ms(&self) -> u64 {
        u64::try_from(self.lock.ttl.as_millis()).unwrap_or(u64::MAX).max(1)
    }

    /// Runs `transaction` within the client's timeout, and counts its outcome.
    pub(super) async fn run(&self, transaction: &Transaction) -> Result<Vec<RuleVerdict>, LockError> {
        let started = Instant::now();
        let replies = self.replies.load(Ordering::Relaxed);
        let result = match self.run_attempts(transaction, self.client.deadline()).await {
            // Redis replies to others meanwhile: the time was spent on waiting for the lock or for a connection.
            Err(LockError::Store(StoreError::Timeout)) if self.replies.load(Ordering::Relaxed) != replies => {
                Err(LockError::Exhausted)
            }
            result => result,
        };
        let is_decision = transaction.rules.iter().all(|rule| rule.operation.is_decision());
        let operation = if is_decision { Operation::Decide } else { Operation::Settle };
        self.client.context().stats.record_latency(operation, started.elapsed());
        match &result {
            // Redis replies: contention is not its fault.
            Ok(_) | Err(LockError::Exhausted) => self.breaker.record_success(),
            Err(LockError::Store(kind)) => self.breaker.record_failure(*kind),
        }
        result.inspect_err(|error| self.count(error))
    }

    /// Counts a decision that failed.
    pub(super) fn count(&self, error: &LockError) {
        match error {
            LockError::Exhausted => self.stats.exhausted.increment(),
            LockError::Store(kind) => {
                self.client.context().record_failure(Operation::Decide, &self.node.name, *kind, None);
                self.stats.failures.record(*kind);
            }
        }
    }

    /// Attempts a decision until it is made, or until attempts or time run out.
    async fn run_attempts(&self, transaction: &Transaction, deadline: Instant) -> Result<Vec<RuleVerdict>, LockError> {
        let owner = format!("{}-{}", self.owner, self.decisions.fetch_add(1, Ordering::Relaxed));
        for n in 0.. {
            if let Some(rule_verdicts) = self.run_attempt(transaction, &owner, deadline).await? {
                return Ok(rule_verdicts);
            }
            // A pause takes at most half of the time left, so that the rest is used for attempts.
            let time_left = deadline.saturating_duration_since(Instant::now());
            match self.lock.retry.pause(n) {
                Some(pause) if time_left > MIN_ATTEMPT_TIME => tokio::time::sleep(pause.min(time_left / 2)).await,
                _ => break,
            }
        }
        Err(LockError::Exhausted)
    }

    /// Makes one attempt; `None` after contention. The connection returns to the pool before any pause.
    async fn run_attempt(
        &self,
        transaction: &Transaction,
        owner: &str,
        deadline: Instant,
    ) -> Result<Option<Vec<RuleVerdict>>, LockError> {
        self.stats.tries.increment();
        let mut pooled = self.connection(deadline).await?;
        let result = timeout_at(deadline, attempt(&mut pooled.connection, transaction, owner)).await;
        if matches!(result, Ok(Ok(_))) {
            self.replies.fetch_add(1, Ordering::Relaxed);
        }
        match result {
            Ok(Ok(AttemptOutcome::Decided(rule_verdicts))) => Ok(Some(rule_verdicts)),
            Ok(Ok(AttemptOutcome::Contended)) => {
                self.stats.contended.increment();
                Ok(None)
            }
            Ok(Ok(AttemptOutcome::InvalidReply)) => Err(LockError::Store(StoreError::Other)),
            Ok(Err(error)) => {
                let kind = StoreError::classify(&error);
                if matches!(kind, StoreError::Disconnected | StoreError::ReadOnly) {
                    drop(Object::take(pooled));
                    self.node.refresh_address();
                }
                Err(LockError::Store(kind))
            }
            // The decision may have been made, so it is not repeated.
            Err(_) => Err(LockError::Store(StoreError::Timeout)),
        }
    }

    async fn connection(&self, deadline: Instant) -> Result<Object<ConnectionFactory>, LockError> {
        let time_left = Some(deadline.saturating_duration_since(Instant::now()));
        match self.pool.timeout_get(&Timeouts { wait: time_left, create: time_left, recycle: time_left }).await {
            Ok(connection) => Ok(connection),
            // All connections are in use.
            Err(PoolError::Timeout(TimeoutType::Wait)) => Err(LockError::Exhausted),
            Err(PoolError::Timeout(_)) => Err(LockError::Store(StoreError::Timeout)),
            Err(PoolError::Backend(error)) => Err(LockError::Store(StoreError::classify(&error))),
            Err(_) => Err(LockError::Store(StoreError::Disconnected)),
        }
    }
}

/// Connects to the server of a client, at its current address.
struct ConnectionFactory {
    context: Arc<ConnectionContext>,
    node: Arc<Node>,
}

/// A connection, and the address that it leads to.
struct PooledConnection {
    connection: MultiplexedConnection,
    address: AddressWatch,
}

impl Manager for ConnectionFactory {
    type Type = PooledConnection;
    type Error = RedisError;

    async fn create(&self) -> Result<PooledConnection, RedisError> {
        // No timeouts: decisions have a deadline of their own.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let mut address = self.node.address.watch();
        let info = address.connection_info(&self.context.connector).await?;
        let mut connection = open(&info, config).await?;
        if address.requires_primary() {
            check_primary(&mut connection).await?;
        }
        Ok(PooledConnection { connection, address })
    }

    /// A demoted primary replies to `PING` as well, so the address is checked first.
    async fn recycle(&self, pooled: &mut PooledConnection, _: &Metrics) -> RecycleResult<RedisError> {
        if pooled.address.has_changed() {
            return Err(RecycleError::message("the primary has another address"));
        }
        redis::pipe().cmd("UNWATCH").cmd("PING").exec_async(&mut pooled.connection).await?;
        Ok(())
    }
}
