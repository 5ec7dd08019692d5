//! Where the limiters of one worker keep their buckets: state that outlives every configuration.

use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_limiter::concurrency::redis::{RedisLeases, Releases};
use tollgate_limiter::concurrency::{LeaseStats, LeaseStore, LeaseTable, MemoryLeases};
use tollgate_limiter::metering::{Ledger, Meter, MeterSettings};
use tollgate_limiter::plan::PlanSource;
use tollgate_limiter::store::Store;
use tollgate_limiter::store::memory::MemoryStore;
use tollgate_limiter::store::redis::{
    Breakers, GatewayCount, Gateways, LockSettings, LockStats, LockedStore, RedisClient, RedisPlans, RedisSettings,
    RedisStats, RedisStatus, RedisStore, Retry,
};

use crate::state::circuit_breakers::CircuitBreakers;
use crate::state::redis_monitor::Servers;
use crate::state::response_caches::ResponseCaches;
use tollgate_config::{
    Atomicity, ConcurrencyLimiter, Config, GatewayNumber, LockRetry, RateLimiter, Redis, RequestCounter, StoreKind,
};

/// How long a Redis that hangs may hold up a start or a reload.
const FIRST_ATTEMPT: Duration = Duration::from_secs(1);

/// How long a worker that ends waits for slots to be given back: Redis answers within its timeout, or never.
const LAST_RELEASES: Duration = Duration::from_secs(1);

/// One worker's stores.
#[derive(Debug)]
pub struct Limits {
    shared: Arc<SharedLimits>,
    redis: RefCell<Option<(Redis, Arc<RedisClient>)>>,
    stats: Arc<RedisStats>,
    releases: Arc<Releases>,
}

/// What the workers share: the buckets and slots in memory, what was counted, answers that are kept, and what is known
/// of Redis.
#[derive(Debug)]
pub struct SharedLimits {
    memory: Arc<MemoryStore>,
    ledger: Arc<Ledger>,
    slots: Arc<LeaseTable>,
    breakers: Breakers,
    circuit_breakers: CircuitBreakers,
    clients: Mutex<Vec<Weak<RedisClient>>>,
    stats: Mutex<Vec<Arc<RedisStats>>>,
    usage_stats: Arc<RedisStats>,
    lock_stats: Arc<LockStats>,
    servers: Servers,
    gateways: GatewayCount,
    caches: ResponseCaches,
}

impl SharedLimits {
    /// No bucket, no connection.
    #[must_use]
    pub fn new(config: &Config) -> Arc<Self> {
        Arc::new(Self {
            memory: Arc::new(MemoryStore::new(config.memory.max_keys)),
            ledger: Arc::new(Ledger::new(config.metering.max_cells.get())),
            slots: Arc::default(),
            breakers: Breakers::default(),
            circuit_breakers: CircuitBreakers::default(),
            clients: Mutex::default(),
            stats: Mutex::default(),
            usage_stats: Arc::default(),
            lock_stats: Arc::default(),
            servers: Servers::default(),
            gateways: GatewayCount::default(),
            caches: ResponseCaches::default(),
        })
    }

    /// The buckets in memory.
    #[must_use]
    pub fn memory(&self) -> &Arc<MemoryStore> {
        &self.memory
    }

    /// What `RequestCounter`s counted.
    #[must_use]
    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// What each worker's client says of Redis; empty where limits are kept in memory.
    #[must_use]
    pub fn redis(&self) -> Vec<RedisStatus> {
        let mut clients = self.clients.lock();
        clients.retain(|client| client.strong_count() > 0);
        clients.iter().filter_map(Weak::upgrade).map(|client| client.status()).collect()
    }

    /// A client that a worker asks Redis with, of the latest configuration that has one.
    #[must_use]
    pub fn redis_client(&self) -> Option<Arc<RedisClient>> {
        self.clients.lock().iter().rev().find_map(Weak::upgrade)
    }

    /// What each worker counts of its calls of Redis.
    #[must_use]
    pub fn redis_stats(&self) -> Vec<Arc<RedisStats>> {
        self.stats.lock().clone()
    }

    /// What is counted of the calls that bring usage to Redis.
    #[must_use]
    pub fn usage_stats(&self) -> &Arc<RedisStats> {
        &self.usage_stats
    }

    /// What is counted of decisions under a lock.
    #[must_use]
    pub fn lock_stats(&self) -> &Arc<LockStats> {
        &self.lock_stats
    }

    /// What the servers say of themselves.
    #[must_use]
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Where answers are kept.
    #[must_use]
    pub fn caches(&self) -> &ResponseCaches {
        &self.caches
    }

    /// The circuit breakers of routes.
    #[must_use]
    pub fn circuit_breakers(&self) -> &CircuitBreakers {
        &self.circuit_breakers
    }

    /// How many gateways there are, where somebody counts them.
    #[must_use]
    pub fn gateways(&self) -> &GatewayCount {
        &self.gateways
    }
}

impl Limits {
    /// A worker's view of `shared`, without a connection yet.
    #[must_use]
    pub fn new(shared: Arc<SharedLimits>) -> Self {
        let stats = Arc::<RedisStats>::default();
        shared.stats.lock().push(Arc::clone(&stats));
        Self { shared, redis: RefCell::default(), stats, releases: Arc::default() }
    }

    /// Connects to the Redis that `config` names, unless connected to it already. Returns at once: the connection is
    /// made in the background, within the calling worker's runtime.
    pub fn configure(&self, config: &Config) {
        let mut current = self.redis.borrow_mut();
        if current.as_ref().map(|(redis, _)| redis) == config.redis.as_ref() {
            return;
        }
        if let Some((_, old)) = current.take() {
            // What was paid for in advance there goes back, as far as it can.
            tokio::spawn(async move {
                let _ = tokio::time::timeout(LAST_RELEASES, old.return_leases()).await;
            });
        }
        *current = config.redis.as_ref().and_then(|redis| {
            let settings = redis_settings(redis);
            match RedisClient::start_counting(&settings, &self.shared.breakers, Arc::clone(&self.stats)) {
                Ok(client) => {
                    self.shared.clients.lock().push(Arc::downgrade(&client));
                    Some((redis.clone(), client))
                }
                Err(error) => {
                    tracing::error!(%error, "cannot use `redis`; limits are kept in memory");
                    None
                }
            }
        });
    }

    /// Where answers are kept.
    #[must_use]
    pub fn caches(&self) -> &ResponseCaches {
        self.shared.caches()
    }

    /// Waits until Redis has been reached or found out of reach, so that nothing is decided without it that could be
    /// decided there.
    pub async fn settled(&self) {
        let client = self.redis.borrow().as_ref().map(|(_, client)| Arc::clone(client));
        if let Some(client) = client {
            client.wait_attempted(FIRST_ATTEMPT).await;
        }
    }

    /// What counts for a counter of `route` under `scope`.
    pub fn meter(&self, counter: &RequestCounter, route: &Arc<str>, scope: Arc<str>) -> Meter {
        let settings = MeterSettings {
            scope,
            route: Arc::clone(route),
            dimensions: counter.dimensions,
            period: counter.period,
            ttl: counter.ttl,
            hash_ids: self.redis.borrow().as_ref().is_some_and(|(redis, _)| redis.hash_keys),
        };
        Meter::new(Arc::clone(&self.shared.ledger), &settings)
    }

    /// The circuit breakers that the workers share.
    pub fn breakers(&self) -> &CircuitBreakers {
        &self.shared.circuit_breakers
    }

    /// Where `limiter` keeps its slots, which are counted in `stats`.
    pub fn leases(&self, limiter: &ConcurrencyLimiter, stats: Arc<LeaseStats>) -> Arc<dyn LeaseStore> {
        let memory = MemoryLeases::new(Arc::clone(&self.shared.slots), limiter.rule, Arc::clone(&stats));
        match (limiter.store, &*self.redis.borrow()) {
            (Some(StoreKind::Memory), _) | (_, None) => Arc::new(memory),
            (_, Some((redis, client))) => {
                let (client, releases) = (Arc::clone(client), Arc::clone(&self.releases));
                let leases = RedisLeases::new(client, limiter.rule, memory, limiter.on_store_failure, stats, releases);
                Arc::new(leases.hash_keys(redis.hash_keys))
            }
        }
    }

    /// Waits until the slots of requests that are over are given back, and what was paid for requests that did not come.
    pub async fn released(&self) {
        self.releases.settled(LAST_RELEASES).await;
        let client = self.redis.borrow().as_ref().map(|(_, client)| Arc::clone(client));
        if let Some(client) = client {
            let _ = tokio::time::timeout(LAST_RELEASES, client.return_leases()).await;
        }
    }

    /// Where `limiter` keeps its buckets.
    pub fn store(&self, limiter: &RateLimiter) -> Arc<dyn Store> {
        let memory = || -> Arc<dyn Store> { self.shared.memory.clone() };
        match (limiter.store, &*self.redis.borrow()) {
            (Some(StoreKind::Memory), _) | (_, None) => memory(),
            (_, Some((redis, client))) => {
                let local = Arc::clone(&self.shared.memory);
                let gateways = match limiter.gateways {
                    GatewayNumber::Fixed(count) => Gateways::Fixed(count),
                    GatewayNumber::Auto => Gateways::Counted(self.shared.gateways.clone()),
                };
                if let Atomicity::Lock(retry) = &limiter.atomicity {
                    let lock = LockSettings { retry: lock_retry(retry), ..LockSettings::default() };
                    let client = Arc::clone(client);
                    match LockedStore::new(client, lock, local, limiter.on_store_failure, redis.hash_keys) {
                        Ok(store) => {
                            let stats = Arc::clone(&self.shared.lock_stats);
                            return Arc::new(store.gateways(gateways).counting(stats));
                        }
                        Err(error) => {
                            tracing::error!(%error, "cannot use `redis`; limits are kept in memory");
                            return memory();
                        }
                    }
                }
                let store = RedisStore::new(Arc::clone(client), local, limiter.on_store_failure);
                let store = store.hash_keys(redis.hash_keys).gateways(gateways).lease(limiter.lease);
                Arc::new(store.denial_cache(redis.denial_cache).coalesce(redis.coalesce))
            }
        }
    }

    /// The plans in the hash `hash`, each remembered for `cache`; `None` without Redis.
    pub fn plans(&self, hash: &str, cache: Duration) -> Option<Arc<dyn PlanSource>> {
        let redis = self.redis.borrow();
        let (redis, client) = redis.as_ref()?;
        let plans = RedisPlans::new(Arc::clone(client), hash.to_owned(), cache);
        Some(Arc::new(plans.hash_keys(redis.hash_keys)))
    }
}

/// How to reach the Redis that `redis` names.
pub(crate) fn redis_settings(redis: &Redis) -> RedisSettings {
    redis.settings.clone()
}

fn lock_retry(retry: &LockRetry) -> Retry {
    let LockRetry { exponential, base, max, jitter, tries } = *retry;
    if exponential { Retry::Exponential { base, max, jitter, tries } } else { Retry::Fixed { delay: base, tries } }
}
