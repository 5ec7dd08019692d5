//! Where answers are kept: caches that every worker shares, and that outlive a reload which leaves them as they are.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tollgate_filters::local_response_cache::ResponseCache;

/// The caches in use, by the routes that they are of; routes without one of their own share that of `""`.
#[derive(Debug, Default)]
pub struct ResponseCaches(Mutex<BTreeMap<Arc<str>, Open>>);

#[derive(Debug)]
struct Open {
    max_bytes: u64,
    /// A route's layers hold it: a configuration that has no use for it any more lets it go.
    cache: Weak<ResponseCache>,
}

impl ResponseCaches {
    /// The cache called `name`, of `max_bytes` bytes: the one that is in use, or an empty one.
    pub fn open(&self, name: &str, max_bytes: u64) -> Arc<ResponseCache> {
        let mut caches = self.0.lock();
        caches.retain(|_, open| open.cache.strong_count() > 0);
        let known = caches.get(name).filter(|open| open.max_bytes == max_bytes).and_then(|open| open.cache.upgrade());
        known.unwrap_or_else(|| {
            let cache = Arc::new(ResponseCache::new(max_bytes));
            caches.insert(name.into(), Open { max_bytes, cache: Arc::downgrade(&cache) });
            cache
        })
    }

    /// The caches in use, with their names.
    #[must_use]
    pub fn all(&self) -> Vec<(Arc<str>, Arc<ResponseCache>)> {
        let caches = self.0.lock();
        caches.iter().filter_map(|(name, open)| Some((Arc::clone(name), open.cache.upgrade()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_lives_as_long_as_somebody_uses_it_as_it_is() {
        let caches = ResponseCaches::default();
        let first = caches.open("orders", 1000);
        assert!(Arc::ptr_eq(&first, &caches.open("orders", 1000)));
        assert!(!Arc::ptr_eq(&first, &caches.open("", 1000)));
        let larger = caches.open("orders", 2000);
        assert!(!Arc::ptr_eq(&first, &larger));
        assert_eq!(caches.all().len(), 1);
        drop((first, larger));
        assert!(caches.all().is_empty());
    }
}
