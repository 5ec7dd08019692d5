//! In Redis without scripts (`atomicity: lock`): for compatible servers that forbid `EVAL`, and rules of windows.
//!
//! A decision locks the key (`SET key.lock <owner> NX PX`), reads the state and the server's time, decides here, and
//! writes and unlocks in one `MULTI`/`EXEC` that fails if the lock or the state changed meanwhile (`WATCH`): compare
//! and delete without a script. Nothing was taken then, and it tries again after a pause. Two round trips for a
//! decision instead of one, and one decision at a time for each key: where scripts are allowed, they are the better way.
//!
//! The state is that of the scripts, so gateways of both kinds may share the keys of a limiter's only rule. (Scripts
//! keep the rules of a list in one string, which is not read here.)
//!
//! All is bounded by [`RedisSettings::timeout`], the pauses too: the defaults of [`Retry`] leave a budget of 100 ms a
//! single try. When the budget or the tries are over the store's [`OnStoreFailure`] decides.

mod attempt;
mod opener;
mod retry;
mod stats;
mod window;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool::managed::{Object, Pool, PoolError, TimeoutType, Timeouts};
use deadpool_redis::Runtime;
use tokio::time::{Instant, timeout_at};

use self::attempt::{Job, Outcomes, Part, attempt};
use self::opener::Opener;
pub use self::retry::Retry;
pub use self::stats::{LockStats, LockedStatus};
use self::window::Ask;
use super::breaker::Breaker;
use super::client::RedisClient;
use super::error::StoreError;
use super::fallback::{ASK_AGAIN_AFTER, Fallback};
use super::heartbeat::Gateways;
use super::node::Node;
use super::operands::{short_name, suffixes};
use super::settings::RedisSettingsError;
use super::stats::Operation;
use crate::rule::Rule;
use crate::store::memory::MemoryStore;
use crate::store::{Check, Decision, OnStoreFailure, Store};
use crate::verdict::{Outcome, RuleVerdict, Source, Verdict};

/// With less time left than this, another try would come too late.
const LEAST_LEFT: Duration = Duration::from_millis(4);

/// How to lock.
#[derive(Clone, Debug)]
pub struct LockSettings {
    /// After how long the lock of a gateway that died is free again. More than two round trips take; the default is a
    /// second.
    pub ttl: Duration,
    /// What to do when somebody else has the lock.
    pub retry: Retry,
    /// Decisions that are made at one time: each has a connection of its own, since `WATCH` belongs to a connection.
    /// The default is 8.
    pub connections: NonZeroUsize,
}

/// Decides under a lock in Redis; clones share everything.
#[derive(Clone)]
pub struct LockedStore {
    shared: Arc<Shared>,
    gateways: Gateways,
}

struct Shared {
    client: Arc<RedisClient>,
    node: Arc<Node>,
    pool: Pool<Opener>,
    lock: LockSettings,
    local: Arc<MemoryStore>,
    on_store_failure: OnStoreFailure,
    hash_keys: bool,
    breaker: Breaker,
    /// Tells this store's locks from those of all others.
    owner: String,
    tries: AtomicU64,
    stats: Arc<LockStats>,
}

/// Why Redis did not decide.
enum Failure {
    Exhausted,
    Store(StoreError),
}

// === impl LockSettings ===

impl Default for LockSettings {
    fn default() -> Self {
        let connections = NonZeroUsize::MIN.saturating_add(7);
        Self { ttl: Duration::from_secs(1), retry: Retry::default(), connections }
    }
}

// === impl LockedStore ===

impl LockedStore {
    /// A store in the Redis of `client`, with connections of its own, or in `local` where `on_store_failure` says so.
    /// `hash_keys` hides key ids that are secrets. It connects when it is first asked.
    ///
    /// # Errors
    /// A cluster, or a pool that cannot be made.
    pub fn new(
        client: Arc<RedisClient>,
        lock: LockSettings,
        local: Arc<MemoryStore>,
        on_store_failure: OnStoreFailure,
        hash_keys: bool,
    ) -> Result<Self, RedisSettingsError> {
        let one = client.shared().topology.only().cloned();
        let node = one.ok_or_else(|| RedisSettingsError::Unusable("`atomicity: lock` needs one server".into()))?;
        let pool = Pool::builder(Opener::new(&client, Arc::clone(&node)))
            .max_size(lock.connections.get())
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| RedisSettingsError::Unusable(error.to_string()))?;
        let shared = Shared {
            client,
            node,
            pool,
            lock,
            local,
            on_store_failure,
            hash_keys,
            breaker: Breaker::default(),
            owner: random_name(),
            tries: AtomicU64::new(0),
            stats: Arc::default(),
        };
        Ok(Self { shared: Arc::new(shared), gateways: Gateways::default() })
    }

    /// Counts in `stats`, which outlive it. To be said before the first decision.
    #[must_use]
    pub fn counting(mut self, stats: Arc<LockStats>) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.stats = stats;
        }
        self
    }

    /// How many gateways share a limit: while Redis cannot be asked, each admits its part of it in memory.
    #[must_use]
    pub fn gateways(mut self, gateways: impl Into<Gateways>) -> Self {
        self.gateways = gateways.into();
        self
    }

    /// Whether a rule can be decided under a lock: fixed windows and those estimated from counters can. Others are left to
    /// `on_store_failure`.
    #[must_use]
    pub fn supports(rule: &Rule) -> bool {
        window::is_plain(rule)
    }

    /// What it counted.
    #[must_use]
    pub fn status(&self) -> LockedStatus {
        self.shared.stats.status()
    }

    /// `None` if one of the rules needs scripts.
    fn job(&self, parts: Vec<Part>) -> Option<Job> {
        let lock = [parts.first()?.key.as_slice(), b".lock"].concat();
        let lock_ms = u64::try_from(self.shared.lock.ttl.as_millis()).unwrap_or(u64::MAX).max(1);
        parts.iter().all(|part| Self::supports(&part.rule)).then_some(Job { parts, lock, lock_ms })
    }

    fn part(&self, check: &Check<'_>, ask: Ask) -> Part {
        let what = suffixes(check.rule.algorithm()).first().copied().unwrap_or_default();
        Part { key: short_name(check.key, self.shared.hash_keys, what), rule: check.rule.clone(), ask }
    }
}

impl Store for LockedStore {
    fn decide(&self, checks: &[Check<'_>]) -> Decision {
        let fallback = Fallback::new(self.shared.on_store_failure, &self.shared.local, checks, self.gateways.get());
        let parts = checks.iter().map(|check| self.part(check, Ask::Decide { cost: check.cost }));
        let Some(job) = self.job(parts.collect()) else { return Decision::Ready(fallback.decide()) };
        if !self.shared.breaker.admits() {
            self.shared.count(&Failure::Store(StoreError::BreakerOpen));
            return Decision::Ready(fallback.decide());
        }
        let shared = Arc::clone(&self.shared);
        Decision::Pending(Box::pin(async move {
            let answers = match shared.run(&job).await {
                Ok(answers) => answers,
                // Redis counts, and others were faster: to count here as well would admit more than the limit.
                Err(Failure::Exhausted) if shared.on_store_failure == OnStoreFailure::Local => {
                    return Verdict::uncounted(Outcome::StoreUnavailable { retry_after: ASK_AGAIN_AFTER });
                }
                Err(_) => return fallback.decide(),
            };
            let capacities = job.parts.iter().map(|part| part.rule.capacity());
            let verdict = Verdict::combine(answers, capacities, Source::Redis);
            verdict.unwrap_or_else(|| fallback.decide())
        }))
    }

    /// A correction that finds no lock in time is lost.
    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        let ask = Ask::Settle { more, counted_at_us };
        let Some(job) = self.job(vec![self.part(&check, ask)]) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.shared.breaker.admits() {
            let shared = Arc::clone(&self.shared);
            runtime.spawn(async move {
                // Lost corrections are counted with the decisions that failed.
                let _ = shared.run(&job).await;
            });
        }
    }
}

// === impl Shared ===

impl Shared {
    async fn run(&self, job: &Job) -> Result<Vec<RuleVerdict>, Failure> {
        let result = self.tries(job, self.client.deadline()).await;
        match &result {
            // Redis answers: that others are faster is not its fault.
            Ok(_) | Err(Failure::Exhausted) => self.breaker.succeeded(),
            Err(Failure::Store(kind)) => self.breaker.failed(*kind),
        }
        result.inspect_err(|failure| self.count(failure))
    }

    /// Tries until it is decided, the tries are used up, or the next one would come too late.
    async fn tries(&self, job: &Job, deadline: Instant) -> Result<Vec<RuleVerdict>, Failure> {
        for n in 0.. {
            let number = self.tries.fetch_add(1, Ordering::Relaxed);
            self.stats.tries.fetch_add(1, Ordering::Relaxed);
            let owner = format!("{}-{number}", self.owner);
            // Handed back before the pause, for those who want other keys.
            let mut held = self.connection(deadline).await?;
            match timeout_at(deadline, attempt(&mut held.connection, job, &owner)).await {
                Ok(Ok(Outcomes::Decided(answers))) => return Ok(answers),
                Ok(Ok(Outcomes::Contended)) => self.stats.contended.fetch_add(1, Ordering::Relaxed),
                Ok(Ok(Outcomes::Nonsense)) => return Err(Failure::Store(StoreError::Other)),
                Ok(Err(error)) => {
                    let kind = StoreError::of(&error);
                    if matches!(kind, StoreError::Disconnected | StoreError::ReadOnly) {
                        drop(Object::take(held));
                        self.node.doubt();
                    }
                    return Err(Failure::Store(kind));
                }
                // It may have been decided: never tried again.
                Err(_) => return Err(Failure::Store(StoreError::Timeout)),
            };
            drop(held);
            // A pause takes at most half of the time that is left, so that the budget is used and not waited away.
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lock.retry.pause(n) {
                Some(pause) if left > LEAST_LEFT => tokio::time::sleep(pause.min(left / 2)).await,
                _ => break,
            }
        }
        Err(Failure::Exhausted)
    }

    async fn connection(&self, deadline: Instant) -> Result<Object<Opener>, Failure> {
        let left = Some(deadline.saturating_duration_since(Instant::now()));
        match self.pool.timeout_get(&Timeouts { wait: left, create: left, recycle: left }).await {
            Ok(connection) => Ok(connection),
            // All are in use.
            Err(PoolError::Timeout(TimeoutType::Wait)) => Err(Failure::Exhausted),
            Err(PoolError::Timeout(_)) => Err(Failure::Store(StoreError::Timeout)),
            Err(PoolError::Backend(error)) => Err(Failure::Store(StoreError::of(&error))),
            Err(_) => Err(Failure::Store(StoreError::Disconnected)),
        }
    }

    fn count(&self, failure: &Failure) {
        let counter = match failure {
            Failure::Exhausted => &self.stats.exhausted,
            Failure::Store(kind) => {
                self.client.shared().degraded(Operation::Decide, &self.node.name, *kind);
                self.stats.failures(*kind)
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// 128 random bits, from the operating system's generator by way of the standard library.
pub(super) fn random_name() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};

    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}
