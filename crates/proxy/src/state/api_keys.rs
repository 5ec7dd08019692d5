//! Guesses and use of API keys, and the cache of those in Redis.

use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_filters::verify_api_key::{
    Guesses, Identifier, IdentifyLayer, KeyFetcher, KeyStore, KeyUsage, RemoteCache, RemoteKeys,
};
use tollgate_limiter::store::memory::MemoryStore;

use tollgate_config::{ApiKeyStore, ApiKeys};

/// State of API keys that outlives a configuration.
#[derive(Debug)]
pub struct ApiKeyState {
    guesses: Arc<MemoryStore>,
    /// Use of keys since the start.
    pub usage: Arc<KeyUsage>,
    /// Cache of the hash of this name in Redis.
    cache: Mutex<(Arc<str>, Arc<RemoteCache>)>,
}

impl Default for ApiKeyState {
    fn default() -> Self {
        Self { guesses: Guesses::store(), usage: Arc::default(), cache: Mutex::new(("".into(), Arc::default())) }
    }
}

impl ApiKeyState {
    /// Returns the layer that looks up `keys`. Keys in Redis are unavailable without a `fetcher`.
    #[must_use]
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
}
