//! Guesses and use of API keys, and the cache and the number of those in Redis.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::time::sleep;
use tollgate_filters::api_key::ApiKey;
use tollgate_filters::verify_api_key::{
    Guesses, Identifier, IdentifyLayer, KeyFetcher, KeyStore, KeyUsage, RemoteCache, RemoteKeys,
};
use tollgate_limiter::store::memory::MemoryStore;
use tollgate_limiter::store::redis::{RedisClient, RedisHash, StoreError};

use tollgate_config::{ApiKeyStore, ApiKeys};

/// Time before the end of a key in which it expires soon: enough for its owner to replace it.
const EXPIRES_SOON: Duration = Duration::from_secs(14 * 86_400);
/// Pause between two steps of a count, of about 1,000 keys each: a million keys are counted in 17 minutes.
const STEP_PAUSE: Duration = Duration::from_secs(1);

/// Number of API keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCounts {
    /// All keys.
    pub keys: usize,
    /// Keys that expire within 14 days.
    pub expiring: usize,
}

/// State of API keys that outlives a configuration.
#[derive(Debug)]
pub struct ApiKeyState {
    guesses: Arc<MemoryStore>,
    /// Use of keys since the start.
    pub usage: Arc<KeyUsage>,
    /// Cache of the hash of this name in Redis.
    cache: Mutex<(Arc<str>, Arc<RemoteCache>)>,
    /// Keys in the hash of this name in Redis, when they were counted last.
    counts: Mutex<Option<(Arc<str>, KeyCounts)>>,
}

impl Default for ApiKeyState {
    fn default() -> Self {
        let cache = Mutex::new(("".into(), Arc::default()));
        Self { guesses: Guesses::store(), usage: Arc::default(), cache, counts: Mutex::default() }
    }
}

impl ApiKeyState {
    /// Returns the layer that looks up `keys`. Keys in Redis are unavailable without a `fetcher`.
    pub fn layer(
        &self,
        keys: &ApiKeys,
        fetcher: impl FnOnce(&Arc<str>) -> Option<Arc<dyn KeyFetcher>>,
    ) -> IdentifyLayer {
        let store = match &keys.store {
            ApiKeyStore::File(table) => KeyStore::Table(Arc::clone(table)),
            ApiKeyStore::Redis { hash, cache, keep } => match fetcher(hash) {
                Some(fetcher) => {
                    KeyStore::Remote(RemoteKeys { fetcher, cache: self.cache(hash), cache_for: *cache, keep: *keep })
                }
                None => KeyStore::Unavailable,
            },
        };
        let guesses = Guesses::new(Arc::clone(&self.guesses), keys.unknown_limit.clone());
        let identifier = Identifier::new(Arc::clone(&keys.settings), store, guesses);
        IdentifyLayer::new(identifier.counting(Arc::clone(&self.usage)))
    }

    /// Returns the cache of `hash`. That of another hash is dropped.
    pub fn cache(&self, hash: &Arc<str>) -> Arc<RemoteCache> {
        let mut current = self.cache.lock();
        if current.0 != *hash {
            *current = (Arc::clone(hash), Arc::default());
        }
        Arc::clone(&current.1)
    }

    /// Returns the number of keys in `store`; `None` until those in Redis have been counted.
    pub fn counts(&self, store: &ApiKeyStore) -> Option<KeyCounts> {
        match store {
            ApiKeyStore::File(table) => {
                let (now, soon) = soon();
                Some(KeyCounts { keys: table.len(), expiring: table.expiring(now, soon) })
            }
            ApiKeyStore::Redis { hash, .. } => {
                self.counts.lock().as_ref().filter(|(name, _)| name == hash).map(|(_, counts)| *counts)
            }
        }
    }

    /// Counts the keys in the hash `name`, step by step. Redis may return a key twice while the hash grows.
    pub(super) async fn count(&self, client: &Arc<RedisClient>, name: &Arc<str>) -> Result<(), StoreError> {
        let hash = RedisHash::new(Arc::clone(client), Arc::clone(name));
        let (mut counts, mut cursor) = (KeyCounts::default(), RedisHash::START.to_owned());
        loop {
            let page = hash.scan(&cursor).await?;
            let (now, soon) = soon();
            for (_, key) in page.fields.iter().filter_map(|(field, text)| ApiKey::of_field(field, text)) {
                counts.keys += 1;
                counts.expiring += usize::from(key.expires.is_some_and(|expires| (now..soon).contains(&expires)));
            }
            if page.next == RedisHash::START {
                break;
            }
            cursor = page.next;
            sleep(STEP_PAUSE).await;
        }
        *self.counts.lock() = Some((Arc::clone(name), counts));
        Ok(())
    }
}

/// Returns the time from which and before which keys expire soon, in seconds since 1970.
fn soon() -> (u64, u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_secs(), now.saturating_add(EXPIRES_SOON).as_secs())
}
