//! State of filters by name, shared by all workers: circuit breakers and response caches.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use tollgate_filters::circuit_breaker::{Breaker, Rules};
use tollgate_filters::local_response_cache::ResponseCache;

/// Circuit breakers by name. A breaker lives as long as a configuration uses it, and keeps its state across a reload
/// that leaves its rules unchanged. A forced state is kept in any case.
#[derive(Debug, Default)]
pub struct CircuitBreakers(Mutex<BTreeMap<Arc<str>, Weak<Breaker>>>);

impl CircuitBreakers {
    /// Returns the breaker called `name`; a new one if there is none with these rules.
    #[must_use]
    pub fn get_or_create(&self, name: &Arc<str>, rules: &Rules) -> Arc<Breaker> {
        let mut breakers = self.0.lock();
        let before = breakers.get(name).and_then(Weak::upgrade);
        if let Some(breaker) = before.as_ref().filter(|breaker| breaker.rules() == rules) {
            return Arc::clone(breaker);
        }
        let breaker = Arc::new(Breaker::new(Arc::clone(name), rules.clone()));
        if let Some((state, time)) = before.and_then(|before| before.forced()) {
            breaker.force(state, time);
        }
        breakers.insert(Arc::clone(name), Arc::downgrade(&breaker));
        breaker
    }

    /// Forgets the breakers that are no longer in use.
    pub fn remove_unused(&self) {
        self.0.lock().retain(|_, breaker| breaker.strong_count() > 0);
    }

    /// Breakers in use, by name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Breaker>> {
        self.0.lock().values().filter_map(Weak::upgrade).collect()
    }
}

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
        let kept =
            caches.get(name).filter(|entry| entry.max_bytes == max_bytes).and_then(|entry| entry.cache.upgrade());
        kept.unwrap_or_else(|| {
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
    use std::time::Duration;

    use super::*;
    use tollgate_filters::circuit_breaker::{ForcedState, State};

    #[test]
    fn a_breaker_is_shared_until_its_rules_change_and_dropped_when_unused() {
        let (breakers, name) = (CircuitBreakers::default(), Arc::from("orders"));
        let rules = Rules::default();
        let first = breakers.get_or_create(&name, &rules);
        assert!(Arc::ptr_eq(&first, &breakers.get_or_create(&name, &rules)));
        first.force(ForcedState::Open, Duration::from_secs(60));
        let changed = breakers.get_or_create(&name, &Rules { trial_calls: 3, ..rules });
        assert!(!Arc::ptr_eq(&first, &changed));
        assert_eq!(changed.state(), State::Open, "the forced state is kept");
        assert_eq!(breakers.all().len(), 1);
        drop((first, changed));
        assert!(breakers.all().is_empty());
        breakers.remove_unused();
        assert!(breakers.0.lock().is_empty());
    }

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
