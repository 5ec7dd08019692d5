//! Limiter state that all workers share.

use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;
use thiserror::Error;
use tollgate_limiter::concurrency::SlotTable;
use tollgate_limiter::metering::Ledger;
use tollgate_limiter::store::memory::{MemoryStore, Snapshot, SnapshotError};
use tollgate_limiter::store::redis::{
    Breakers, GatewayCount, LockStats, OverrideTable, RedisClient, RedisStats, RedisStatus,
};

use crate::state::api_keys::ApiKeyState;
use crate::state::clock::{FromFuture, StoreClock};
use crate::state::filters::{CircuitBreakers, ResponseCaches};
use crate::state::overrides::{Override, OverrideError, OverrideTarget, Overrides};
use crate::state::redis_servers::RedisServers;
use crate::state::stores::places::Places;
use tollgate_config::{Config, Route};

/// Limiter state of the process: buckets and slots in memory, usage counts, cached responses, and the state of Redis.
#[derive(Debug)]
pub struct SharedStores {
    /// Buckets in memory.
    pub memory: Arc<MemoryStore>,
    places: Mutex<Places>,
    /// Clock of the buckets in memory.
    pub clock: Arc<StoreClock>,
    /// Usage counts.
    pub ledger: Arc<Ledger>,
    pub(super) slots: Arc<SlotTable>,
    /// Circuit breakers of Redis servers.
    pub(super) redis_breakers: Breakers,
    /// Circuit breakers of routes.
    pub circuit_breakers: CircuitBreakers,
    clients: Mutex<Vec<Weak<RedisClient>>>,
    stats: Mutex<Vec<Arc<RedisStats>>>,
    /// Statistics of the connection that writes usage.
    pub usage_stats: Arc<RedisStats>,
    /// Statistics of limiters under `atomicity: lock`.
    pub lock_stats: Arc<LockStats>,
    /// Latest statistics that Redis servers reported.
    pub redis_servers: RedisServers,
    /// Number of live gateways.
    pub gateways: GatewayCount,
    /// Response caches of routes.
    pub response_caches: ResponseCaches,
    /// Temporary overrides of limits.
    pub overrides: Arc<Overrides>,
    /// Guesses and use of API keys.
    pub api_keys: ApiKeyState,
}

/// Reason why the buckets of another process are not used.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// They are from the future.
    #[error(transparent)]
    Future(#[from] FromFuture),
    /// They do not fit.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

impl SharedStores {
    /// Creates empty stores of the sizes in `config`. Connects to nothing.
    pub fn new(config: &Config) -> Arc<Self> {
        Self::with_hash_key(config, None)
    }

    /// Creates empty stores that can [continue](Self::restore) those of another process, with its secret key of hashes.
    pub fn with_hash_key(config: &Config, hash_key: Option<[u8; 16]>) -> Arc<Self> {
        let clock = Arc::<StoreClock>::default();
        let memory = MemoryStore::with_clock(Arc::<StoreClock>::clone(&clock)).with_max_keys(config.memory.max_keys());
        let memory = match hash_key {
            Some(key) => memory.with_hash_key(key),
            None => memory,
        };
        let stores = Arc::new(Self {
            memory: Arc::new(memory),
            places: Mutex::default(),
            clock,
            ledger: Arc::new(Ledger::new(config.metering.max_cells().get())),
            slots: Arc::default(),
            redis_breakers: Breakers::default(),
            circuit_breakers: CircuitBreakers::default(),
            clients: Mutex::default(),
            stats: Mutex::default(),
            usage_stats: Arc::default(),
            lock_stats: Arc::default(),
            redis_servers: RedisServers::default(),
            gateways: GatewayCount::default(),
            response_caches: ResponseCaches::default(),
            overrides: Arc::default(),
            api_keys: ApiKeyState::default(),
        });
        stores.declare_limiters(config);
        stores
    }

    /// Adds the buckets of another process. Returns the number of keys.
    ///
    /// # Errors
    /// They are from the future, or of a store with fewer shards.
    pub fn restore(&self, snapshot: &Snapshot<'_>) -> Result<usize, RestoreError> {
        self.clock.resume(snapshot.taken_at_us())?;
        Ok(self.memory.restore(snapshot)?)
    }

    /// Gives each limiter of `config` its share of the keys in memory, keeps the states of renamed rules, and applies
    /// overrides to its rules.
    pub fn declare_limiters(&self, config: &Config) {
        self.memory.rename(self.places.lock().follow(config));
        let rules = config.routes.iter().flat_map(Route::rate_limiters).flat_map(|limiter| limiter.all());
        self.memory.declare(rules.map(|rule| rule.scope));
        self.overrides.configure(config);
    }

    /// Returns the status of each worker's Redis client; empty if limits are kept in memory.
    pub fn redis(&self) -> Vec<RedisStatus> {
        let mut clients = self.clients.lock();
        clients.retain(|client| client.strong_count() > 0);
        clients.iter().filter_map(Weak::upgrade).map(|client| client.status()).collect()
    }

    /// Returns the Redis client of one worker, of the latest configuration that has Redis.
    pub fn redis_client(&self) -> Option<Arc<RedisClient>> {
        self.clients.lock().iter().rev().find_map(Weak::upgrade)
    }

    pub(super) fn add_redis_client(&self, client: &Arc<RedisClient>) {
        self.clients.lock().push(Arc::downgrade(client));
    }

    /// Statistics of Redis calls, one element per worker.
    pub fn redis_stats(&self) -> Vec<Arc<RedisStats>> {
        self.stats.lock().clone()
    }

    /// Adds the statistics of one more worker.
    pub(super) fn new_redis_stats(&self) -> Arc<RedisStats> {
        let stats = Arc::<RedisStats>::default();
        self.stats.lock().push(Arc::clone(&stats));
        stats
    }

    /// Sets an override: in Redis, if `config` has one, or else in this process.
    ///
    /// # Errors
    /// Redis failed, or there are too many overrides.
    pub async fn set_override(&self, new: Override, config: &Config) -> Result<(), OverrideError> {
        if config.redis.is_none() {
            return self.overrides.set(new);
        }
        let client = self.redis_client().ok_or(OverrideError::NoClient)?;
        let time = new.until.saturating_duration_since(Instant::now());
        if !OverrideTable::set(&client, &new.target.field(), &new.text(), time).await? {
            return Err(OverrideError::TooMany);
        }
        // If this fails, the next poll applies the override.
        let _ = self.overrides.follow(&client).await;
        Ok(())
    }

    /// Removes an override. Returns false if there is none.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn remove_override(&self, target: &OverrideTarget, config: &Config) -> Result<bool, OverrideError> {
        if config.redis.is_none() {
            return Ok(self.overrides.remove(target));
        }
        let client = self.redis_client().ok_or(OverrideError::NoClient)?;
        let was_set = OverrideTable::remove(&client, &target.field()).await?;
        let _ = self.overrides.follow(&client).await;
        Ok(was_set)
    }
}
