//! Response caches of the process by name, shared by all workers.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tollgate_filters::local_response_cache::ResponseCache;

/// Response caches by route id; the cache named `""` is shared by all routes without a cache of their own. A reload keeps
/// the responses of a cache unless its size changes.
#[derive(Debug, Default)]
pub struct ResponseCaches(Mutex<BTreeMap<Arc<str>, CacheEntry>>);

#[derive(Debug)]
struct CacheEntry {
    max_bytes: u64,
    /// A configuration and the layers of its routes own the cache, so it is dropped with the last configuration that uses it.
    cache: Weak<ResponseCache>,
}

impl ResponseCaches {
    /// Returns the cache `name`. Creates it if it does not exist or its size is not `max_bytes`.
    pub fn get_or_create(&self, name: &str, max_bytes: u64) -> Arc<ResponseCache> {
        let mut caches = self.0.lock();
        let known =
            caches.get(name).filter(|entry| entry.max_bytes == max_bytes).and_then(|entry| entry.cache.upgrade());
        known.unwrap_or_else(|| {
            let cache = Arc::new(ResponseCache::new(max_bytes));
            caches.insert(name.into(), CacheEntry { max_bytes, cache: Arc::downgrade(&cache) });
            cache
        })
    }

    /// Forgets the caches that are no longer in use.
    pub fn remove_unused(&self) {
        self.0.lock().retain(|_, entry| entry.cache.strong_count() > 0);
    }

    /// Returns the caches in use with their names.
    #[must_use]
    pub fn all(&self) -> Vec<(Arc<str>, Arc<ResponseCache>)> {
        let caches = self.0.lock();
        caches.iter().filter_map(|(name, entry)| Some((Arc::clone(name), entry.cache.upgrade()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_shared_until_its_size_changes_and_dropped_when_unused() {
        let caches = ResponseCaches::default();
        let first = caches.get_or_create("orders", 1000);
        assert!(Arc::ptr_eq(&first, &caches.get_or_create("orders", 1000)));
        assert!(!Arc::ptr_eq(&first, &caches.get_or_create("", 1000)));
        let larger = caches.get_or_create("orders", 2000);
        assert!(!Arc::ptr_eq(&first, &larger));
        assert_eq!(caches.all().len(), 1);
        drop((first, larger));
        assert!(caches.all().is_empty());
        caches.remove_unused();
        assert!(caches.0.lock().is_empty());
    }
}
