//! Stores of buckets, concurrency slots and usage counts: [`SharedStores`] for the process, [`Stores`] for one worker.

mod places;
mod shared_stores;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use tollgate_filters::verify_api_key::IdentifyLayer;
use tollgate_limiter::concurrency::redis::{RedisSlots, Releases};
use tollgate_limiter::concurrency::{MemorySlots, SlotStats, SlotStore};
use tollgate_limiter::metering::{Meter, MeterSettings};
use tollgate_limiter::plan::PlanSource;
use tollgate_limiter::store::Store;
use tollgate_limiter::store::redis::{
    Gateways, LockSettings, LockedStore, RedisClient, RedisHash, RedisPlans, RedisStats, RedisStore, Retry,
};

pub use self::shared_stores::{RestoreError, SharedStores};
use tollgate_config::{
    ApiKeys, Atomicity, ConcurrencyLimiter, Config, GatewayNumber, LockRetry, RateLimiter, Redis, RequestCounter,
    StoreKind, redis_keys,
};

/// Longest time that an unresponsive Redis may delay a start or a reload.
const FIRST_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Longest time that a worker waits at shutdown until slots are released. Redis calls time out earlier.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// Stores of one worker: the shared ones, and the worker's own Redis client.
#[derive(Debug)]
pub struct Stores {
    /// Stores of the process.
    pub shared: Arc<SharedStores>,
    redis: RefCell<Option<(Redis, Arc<RedisClient>)>>,
    stats: Arc<RedisStats>,
    releases: Arc<Releases>,
}

impl Stores {
    /// Creates a worker's stores on top of `shared`, without a Redis client.
    pub fn new(shared: Arc<SharedStores>) -> Self {
        let stats = shared.new_redis_stats();
        Self { shared, redis: RefCell::default(), stats, releases: Arc::default() }
    }

    /// Connects to the Redis of `config` within the calling worker's runtime, unless the client already uses these settings.
    /// Waits until the first connection attempt has ended, one second at most, so that the first requests are not decided
    /// by the fallback while Redis is reachable. Until then, the client before stays in use.
    pub async fn configure(&self, config: &Config) {
        if self.redis.borrow().as_ref().map(|(redis, _)| redis) == config.redis.as_ref() {
            return;
        }
        let new = config.redis.as_ref().and_then(|redis| Some((redis.clone(), self.start_client(redis)?)));
        if let Some((_, client)) = &new {
            client.wait_attempted(FIRST_ATTEMPT_TIMEOUT).await;
        }
        if let Some((_, old)) = self.redis.replace(new) {
            // Unused prepaid tokens go back to the old Redis, if it can be reached.
            tokio::spawn(async move {
                let _ = tokio::time::timeout(RELEASE_TIMEOUT, old.return_leases()).await;
            });
        }
    }

    fn start_client(&self, redis: &Redis) -> Option<Arc<RedisClient>> {
        let stats = Arc::clone(&self.stats);
        match RedisClient::start_counting(&redis.settings, &self.shared.redis_breakers, stats, redis_keys) {
            Ok(client) => {
                self.shared.add_redis_client(&client);
                Some(client)
            }
            Err(error) => {
                tracing::error!(%error, "cannot start redis client: limits are kept in memory");
                None
            }
        }
    }

    fn client(&self) -> Option<Arc<RedisClient>> {
        self.redis.borrow().as_ref().map(|(_, client)| Arc::clone(client))
    }

    fn hashes_ids(&self) -> bool {
        self.redis.borrow().as_ref().is_some_and(|(redis, _)| redis.limiters.hash_keys.get())
    }

    /// Releases slots of finished requests and returns unused prepaid tokens. Waits one second at most for each.
    pub async fn release(&self) {
        self.releases.settled(RELEASE_TIMEOUT).await;
        if let Some(client) = self.client() {
            let _ = tokio::time::timeout(RELEASE_TIMEOUT, client.return_leases()).await;
        }
    }

    /// Returns the meter of one counter of `route`, which counts under `scope`.
    pub fn meter(&self, counter: &RequestCounter, route: &Arc<str>, scope: Arc<str>) -> Meter {
        let settings = meter_settings(counter, route, scope, self.hashes_ids());
        Meter::new(Arc::clone(&self.shared.ledger), &settings)
    }

    /// Returns the store of the slots of `limiter`, which are counted in `stats`.
    pub fn slots(&self, limiter: &ConcurrencyLimiter, stats: Arc<SlotStats>) -> Arc<dyn SlotStore> {
        let memory = MemorySlots::new(Arc::clone(&self.shared.slots), limiter.rule, stats);
        match (limiter.store, &*self.redis.borrow()) {
            (Some(StoreKind::Memory), _) | (_, None) => Arc::new(memory),
            (_, Some((redis, client))) => {
                let (client, releases) = (Arc::clone(client), Arc::clone(&self.releases));
                let slots = RedisSlots::new(client, memory, limiter.on_store_failure, releases);
                Arc::new(slots.hash_keys(redis.limiters.hash_keys.get()))
            }
        }
    }

    /// Returns the store of the buckets of `limiter`, under temporary overrides.
    pub fn store(&self, limiter: &RateLimiter) -> Arc<dyn Store> {
        self.shared.overrides.over(self.bucket_store(limiter))
    }

    fn bucket_store(&self, limiter: &RateLimiter) -> Arc<dyn Store> {
        match (limiter.store, &*self.redis.borrow()) {
            (Some(StoreKind::Memory), _) | (_, None) => self.shared.memory.clone(),
            (_, Some((redis, client))) => match &limiter.atomicity {
                Atomicity::Lock(retry) => self.locked_store(limiter, retry, redis, client),
                Atomicity::Script => self.redis_store(limiter, redis, client),
            },
        }
    }

    fn redis_store(&self, limiter: &RateLimiter, redis: &Redis, client: &Arc<RedisClient>) -> Arc<dyn Store> {
        let store = RedisStore::new(Arc::clone(client), Arc::clone(&self.shared.memory), limiter.on_store_failure);
        let store =
            store.hash_keys(redis.limiters.hash_keys.get()).gateways(self.gateways(limiter)).lease(limiter.lease);
        Arc::new(store.denial_cache(redis.limiters.denial_cache.get()).coalesce(redis.limiters.coalesce.get()))
    }

    fn locked_store(
        &self,
        limiter: &RateLimiter,
        retry: &LockRetry,
        redis: &Redis,
        client: &Arc<RedisClient>,
    ) -> Arc<dyn Store> {
        let memory = Arc::clone(&self.shared.memory);
        let lock = LockSettings { retry: lock_retry(retry), ..LockSettings::default() };
        let fallback = Arc::clone(&memory);
        match LockedStore::new(
            Arc::clone(client),
            lock,
            fallback,
            limiter.on_store_failure,
            redis.limiters.hash_keys.get(),
        ) {
            Ok(store) => {
                let stats = Arc::clone(&self.shared.lock_stats);
                Arc::new(store.gateways(self.gateways(limiter)).counting(stats))
            }
            Err(error) => {
                tracing::error!(%error, "cannot lock in redis: limits are kept in memory");
                memory
            }
        }
    }

    fn gateways(&self, limiter: &RateLimiter) -> Gateways {
        match limiter.gateways {
            GatewayNumber::Fixed(count) => Gateways::Fixed(count),
            GatewayNumber::Auto => Gateways::Counted(self.shared.gateways.clone()),
        }
    }

    /// Returns the layer that looks up `keys`.
    pub fn identify(&self, keys: &ApiKeys) -> IdentifyLayer {
        self.shared.api_keys.layer(keys, |hash| Some(Arc::new(RedisHash::new(self.client()?, Arc::clone(hash)))))
    }

    /// Returns the plans in the Redis hash `hash`, each cached for `cache`; `None` without Redis.
    pub fn plans(&self, hash: &str, cache: Duration) -> Option<Arc<dyn PlanSource>> {
        let redis = self.redis.borrow();
        let (redis, client) = redis.as_ref()?;
        let plans = RedisPlans::new(Arc::clone(client), hash.to_owned(), cache);
        Some(Arc::new(plans.hash_keys(redis.limiters.hash_keys.get())))
    }
}

fn lock_retry(retry: &LockRetry) -> Retry {
    let LockRetry { exponential, base, max, jitter, tries } = *retry;
    if exponential { Retry::Exponential { base, max, jitter, tries } } else { Retry::Fixed { delay: base, tries } }
}

/// Returns the settings of the meter of one counter of `route`, which counts under `scope`.
pub fn meter_settings(counter: &RequestCounter, route: &Arc<str>, scope: Arc<str>, hash_ids: bool) -> MeterSettings {
    MeterSettings {
        scope,
        route: Arc::clone(route),
        dimensions: counter.dimensions,
        period: counter.period,
        ttl: counter.ttl,
        hash_ids,
    }
}
