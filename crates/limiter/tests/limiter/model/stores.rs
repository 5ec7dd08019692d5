//! Memory store and Redis with one clock, set by the test.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::Quota;
use tollgate_limiter::store::memory::{Clock, ManualClock, MemoryStore, Snapshot};
use tollgate_limiter::store::redis::{RedisClient, RedisStore};
use tollgate_limiter::store::{Check, Decision, OnStoreFailure, Store};
use tollgate_limiter::verdict::{Source, Verdict};

use super::number;
use super::trace::Amount;

/// Capacity of the memory store.
const MAX_KEYS: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();

/// Memory store of one trace, and a shared Redis.
pub(crate) struct Stores {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) memory: MemoryStore,
    pub(crate) redis: RedisStore,
}

/// Redis in which keys expire by the clock of the test, as early as possible.
pub(crate) struct Expiry {
    connection: redis::Connection,
    /// Last known value and expiry of each key.
    keys: HashMap<Vec<u8>, (Vec<u8>, Option<u64>)>,
}

/// Redis in which the keys of one trace do not expire. Its clock advances independently of the trace: without this, a
/// trace that takes longer than [`KEYS_LAST`](super::KEYS_LAST) loses keys that have not expired by its own clock.
pub(crate) struct Keeper {
    connection: redis::Connection,
    pattern: String,
    /// Pause after each step.
    pause: Duration,
    slowest_step: Duration,
}

/// True if only the memory store runs, for many more traces: `TOLLGATE_MEMORY_ONLY=1`.
static MEMORY_ONLY: LazyLock<bool> = LazyLock::new(|| number("TOLLGATE_MEMORY_ONLY").is_some());

/// Script that returns all keys, values and expiries in ms, and removes the expiries. It reads the clock once: both keys of
/// a bucket expire together.
const LOOK: &str = "local all, time = {}, redis.call('TIME') \
    for _, key in ipairs(redis.call('KEYS', '*')) do \
        local at = redis.call('PEXPIRETIME', key) redis.call('PERSIST', key) \
        all[#all + 1] = {key, redis.call('DUMP', key), at < 0 and at or at - time[1] * 1000 - math.floor(time[2] / 1000)} \
    end return all";

/// Script that removes the expiries of the keys that match a pattern.
const KEEP: &str = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('PERSIST', key) end";

pub(crate) async fn answer(decision: Decision) -> Verdict {
    decision.get().await
}

impl Stores {
    pub(crate) fn new(client: &Arc<RedisClient>) -> Self {
        static UNUSED_FALLBACK: LazyLock<Arc<MemoryStore>> =
            LazyLock::new(|| Arc::new(MemoryStore::new(NonZeroUsize::MIN)));
        let clock = Arc::new(ManualClock::default());
        let redis = RedisStore::new(Arc::clone(client), UNUSED_FALLBACK.clone(), OnStoreFailure::Deny)
            .with_clock(clock.clone())
            .denial_cache(false);
        Self { memory: MemoryStore::with_clock(clock.clone()).with_max_keys(MAX_KEYS), clock, redis }
    }

    /// Replaces the memory store by one that is restored from its snapshot, as a new process does.
    pub(crate) fn restart(&mut self) {
        let bytes = self.memory.snapshot();
        let snapshot = Snapshot::read(&bytes).unwrap();
        let clock = Arc::<ManualClock>::clone(&self.clock);
        let memory = MemoryStore::with_clock(clock).with_max_keys(MAX_KEYS).with_hash_key(snapshot.hash_key());
        memory.restore(&snapshot).unwrap();
        self.memory = memory;
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now_us()
    }

    /// Decides in both stores. Fails unless the verdicts are equal.
    pub(crate) async fn decide(&self, checks: &[Check<'_>]) -> Result<Verdict, String> {
        if *MEMORY_ONLY {
            return Ok(answer(self.memory.decide(checks, &[])).await);
        }
        let redis = answer(self.redis.decide(checks, &[])).await;
        if redis.source != Source::Redis {
            return Err(format!("redis did not decide: {redis:?}"));
        }
        let memory = answer(self.memory.decide(checks, &[])).await;
        let redis = Verdict { source: Source::Memory, order: memory.order, ..redis };
        if memory != redis { Err(format!("memory: {memory:?}\n redis: {redis:?}")) } else { Ok(memory) }
    }

    /// Decides enforced and observed checks in one step, in both stores. Fails unless the verdicts are equal.
    pub(crate) async fn decide_staged(
        &self,
        enforced: &[Check<'_>],
        observed: &[Check<'_>],
    ) -> Result<Verdict, String> {
        let memory = self.memory.decide(enforced, observed).get().await;
        if *MEMORY_ONLY {
            return Ok(memory);
        }
        let redis = self.redis.decide(enforced, observed).get().await;
        let from_redis = |verdict: &Verdict| Verdict { source: Source::Redis, order: 0, ..verdict.clone() };
        let observed = memory.observed.as_deref().map(|observed| Box::new(from_redis(observed)));
        let expected = Verdict { observed, ..from_redis(&memory) };
        if expected != redis { Err(format!("memory: {memory:?}\n redis: {redis:?}")) } else { Ok(memory) }
    }

    pub(crate) async fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) -> Result<(), String> {
        self.memory.settle(check, more, counted_at_us);
        if *MEMORY_ONLY {
            return Ok(());
        }
        let is_taken = self.redis.settle_confirmed(check, more, counted_at_us).await.is_ok();
        if is_taken { Ok(()) } else { Err("redis refused a correction".to_owned()) }
    }
}

impl Stores {
    /// Applies an operation to a quota in both stores. Returns the remaining tokens; fails unless they are equal.
    pub(crate) async fn grant(&self, key: BucketKey<'_>, rule: &Quota, amount: Amount) -> Result<u64, String> {
        let memory = match amount {
            Amount::Add(more) => self.memory.grant_quota(key, rule, more),
            Amount::Leave(left) => self.memory.set_quota(key, rule, left),
        };
        if *MEMORY_ONLY {
            return Ok(memory);
        }
        let redis = match amount {
            Amount::Add(more) => self.redis.grant_quota(key, rule, more).await,
            Amount::Leave(left) => self.redis.set_quota(key, rule, left).await,
        };
        match redis {
            Ok(redis) if redis == memory => Ok(memory),
            other => Err(format!("memory: {memory} remain\n redis: {other:?}")),
        }
    }

    /// Deletes the state of a key in both stores.
    pub(crate) async fn forget(&self, check: Check<'_>) -> Result<(), String> {
        self.memory.forget(check.key, check.rule);
        if *MEMORY_ONLY {
            return Ok(());
        }
        self.redis.forget(check).await.map_err(|error| error.to_string())
    }
}

impl Keeper {
    pub(crate) fn new(connection: redis::Connection, seed: u64) -> Self {
        // The dot behind the seed is encoded in most names.
        let pattern = format!("*t{seed}[.%]*");
        Self { connection, pattern, pause: Duration::ZERO, slowest_step: Duration::ZERO }
    }

    /// Pauses after each step, as on an overloaded machine.
    pub(crate) fn with_pause(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// Removes the expiries of the keys that a step wrote. `start`: when the step began.
    pub(crate) async fn keep(&mut self, start: Instant) {
        redis::cmd("EVAL").arg(KEEP).arg(0).arg(&self.pattern).exec(&mut self.connection).unwrap();
        self.slowest_step = self.slowest_step.max(start.elapsed());
        if !self.pause.is_zero() {
            tokio::time::sleep(self.pause).await;
        }
    }

    /// Returns the time of the slowest step without its pause. Keys are lost in steps longer than their expiry only.
    pub(crate) fn slowest_step(&self) -> Duration {
        self.slowest_step
    }
}

impl Expiry {
    pub(crate) fn new(connection: redis::Connection) -> Self {
        Self { connection, keys: HashMap::new() }
    }

    /// Deletes keys that have expired by `now`.
    pub(crate) fn expire(&mut self, now: u64) {
        let is_due = |_: &Vec<u8>, (_, due): &mut (Vec<u8>, Option<u64>)| due.is_some_and(|due| due <= now);
        let due: Vec<_> = self.keys.extract_if(is_due).map(|(key, _)| key).collect();
        if !due.is_empty() {
            redis::cmd("DEL").arg(due).exec(&mut self.connection).unwrap();
        }
    }

    /// Records the expiries of keys written since `since`, at `now` by the clock of the test.
    pub(crate) fn note(&mut self, now: u64, since: Instant) {
        let all: Vec<(Vec<u8>, Vec<u8>, i64)> =
            redis::cmd("EVAL").arg(LOOK).arg(0).query(&mut self.connection).unwrap();
        let latest_write = now + since.elapsed().as_micros() as u64;
        for (key, holds, ttl_ms) in all {
            let due = u64::try_from(ttl_ms).map(|ttl| latest_write + ttl * 1_000).ok();
            let known = self.keys.get(&key).filter(|(held, _)| *held == holds);
            let due = due.or(known.and_then(|(_, due)| *due));
            self.keys.insert(key, (holds, due));
        }
    }

    pub(crate) fn clear(&mut self) {
        redis::cmd("FLUSHALL").exec(&mut self.connection).unwrap();
        self.keys.clear();
    }
}
