//! Limiter state that all workers share.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tollgate_limiter::concurrency::SlotTable;
use tollgate_limiter::metering::Ledger;
use tollgate_limiter::store::memory::MemoryStore;
use tollgate_limiter::store::redis::{Breakers, GatewayCount, LockStats, RedisClient, RedisStats, RedisStatus};

use crate::state::clock::StoreClock;
use crate::state::filters::{CircuitBreakers, ResponseCaches};
use crate::state::overrides::Overrides;
use crate::state::redis_servers::RedisServers;
use crate::state::stores::places::Places;
use tollgate_config::{Config, Route};

/// Limiter state of the process: buckets and slots in memory, usage counts, cached responses, and the state of Redis.
#[derive(Debug)]
pub struct SharedStores {
    memory: Arc<MemoryStore>,
    places: Mutex<Places>,
    clock: Arc<StoreClock>,
    ledger: Arc<Ledger>,
    pub(super) slots: Arc<SlotTable>,
    /// Circuit breakers of Redis servers.
    pub(super) redis_breakers: Breakers,
    circuit_breakers: CircuitBreakers,
    clients: Mutex<Vec<Weak<RedisClient>>>,
    stats: Mutex<Vec<Arc<RedisStats>>>,
    usage_stats: Arc<RedisStats>,
    lock_stats: Arc<LockStats>,
    servers: RedisServers,
    gateways: GatewayCount,
    caches: ResponseCaches,
    overrides: Arc<Overrides>,
}

impl SharedStores {
    /// Creates empty stores of the sizes in `config`. Connects to nothing.
    #[must_use]
    pub fn new(config: &Config) -> Arc<Self> {
        let clock = Arc::<StoreClock>::default();
        let stores = Arc::new(Self {
            memory: Arc::new(MemoryStore::with_clock(config.memory.max_keys, Arc::<StoreClock>::clone(&clock))),
            places: Mutex::default(),
            clock,
            ledger: Arc::new(Ledger::new(config.metering.max_cells.get())),
            slots: Arc::default(),
            redis_breakers: Breakers::default(),
            circuit_breakers: CircuitBreakers::default(),
            clients: Mutex::default(),
            stats: Mutex::default(),
            usage_stats: Arc::default(),
            lock_stats: Arc::default(),
            servers: RedisServers::default(),
            gateways: GatewayCount::default(),
            caches: ResponseCaches::default(),
            overrides: Arc::default(),
        });
        stores.declare_limiters(config);
        stores
    }

    /// Gives each limiter of `config` its share of the keys in memory, keeps the states of renamed rules, and applies
    /// overrides to its rules.
    pub fn declare_limiters(&self, config: &Config) {
        self.memory.rename(self.places.lock().follow(config));
        let rules = config.routes.iter().flat_map(Route::rate_limiters).flat_map(|limiter| limiter.all());
        self.memory.declare(rules.map(|rule| rule.scope));
        self.overrides.configure(config);
    }

    /// Buckets in memory.
    #[must_use]
    pub fn memory(&self) -> &Arc<MemoryStore> {
        &self.memory
    }

    /// Clock of the buckets in memory.
    #[must_use]
    pub fn clock(&self) -> &StoreClock {
        &self.clock
    }

    /// Usage counted by `RequestCounter` filters.
    #[must_use]
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Returns the status of each worker's Redis client; empty if limits are kept in memory.
    #[must_use]
    pub fn redis(&self) -> Vec<RedisStatus> {
        let mut clients = self.clients.lock();
        clients.retain(|client| client.strong_count() > 0);
        clients.iter().filter_map(Weak::upgrade).map(|client| client.status()).collect()
    }

    /// Returns the Redis client of one worker, of the latest configuration that has Redis.
    #[must_use]
    pub fn redis_client(&self) -> Option<Arc<RedisClient>> {
        self.clients.lock().iter().rev().find_map(Weak::upgrade)
    }

    pub(super) fn add_redis_client(&self, client: &Arc<RedisClient>) {
        self.clients.lock().push(Arc::downgrade(client));
    }

    /// Statistics of Redis calls, one element per worker.
    #[must_use]
    pub fn redis_stats(&self) -> Vec<Arc<RedisStats>> {
        self.stats.lock().clone()
    }

    /// Adds the statistics of one more worker.
    pub(super) fn new_redis_stats(&self) -> Arc<RedisStats> {
        let stats = Arc::<RedisStats>::default();
        self.stats.lock().push(Arc::clone(&stats));
        stats
    }

    /// Statistics of the Redis calls that write usage.
    #[must_use]
    pub fn usage_stats(&self) -> &Arc<RedisStats> {
        &self.usage_stats
    }

    /// Statistics of decisions under a lock (`atomicity: lock`).
    #[must_use]
    pub fn lock_stats(&self) -> &Arc<LockStats> {
        &self.lock_stats
    }

    /// Latest `INFO` of the Redis servers.
    #[must_use]
    pub fn redis_servers(&self) -> &RedisServers {
        &self.servers
    }

    /// Response caches of `LocalResponseCache` filters.
    #[must_use]
    pub fn response_caches(&self) -> &ResponseCaches {
        &self.caches
    }

    /// Circuit breakers of routes.
    #[must_use]
    pub fn circuit_breakers(&self) -> &CircuitBreakers {
        &self.circuit_breakers
    }

    /// Temporary overrides of limits.
    #[must_use]
    pub fn overrides(&self) -> &Arc<Overrides> {
        &self.overrides
    }

    /// Returns the number of live gateways, if a limiter has `gateways: auto`.
    #[must_use]
    pub fn gateways(&self) -> &GatewayCount {
        &self.gateways
    }
}
