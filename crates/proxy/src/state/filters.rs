//! State of filters by name, shared by all workers: circuit breakers and response caches.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use tollgate_filters::circuit_breaker::{self, Breaker};
use tollgate_filters::local_response_cache::ResponseCache;

/// State of filters by name. A value lives as long as a configuration, or a layer of its routes, uses it.
#[derive(Debug)]
pub struct ByName<T>(Mutex<BTreeMap<Arc<str>, Weak<T>>>);

/// Circuit breakers. A breaker keeps its state across a reload that leaves its rules unchanged, a forced state in any case.
pub type CircuitBreakers = ByName<Breaker>;

/// Response caches by route id; the cache named `""` is shared by all routes without a cache of their own. A reload keeps
/// the responses of a cache unless its size changes.
pub type ResponseCaches = ByName<ResponseCache>;

impl<T> Default for ByName<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> ByName<T> {
    /// Returns the value called `name` if it `is_current`; otherwise what `create` makes of it.
    fn keep_or_create(
        &self,
        name: &str,
        is_current: impl FnOnce(&T) -> bool,
        create: impl FnOnce(Option<Arc<T>>) -> T,
    ) -> Arc<T> {
        let mut values = self.0.lock();
        let before = values.get(name).and_then(Weak::upgrade);
        if let Some(value) = before.as_ref().filter(|value| is_current(value)) {
            return Arc::clone(value);
        }
        let value = Arc::new(create(before));
        values.insert(name.into(), Arc::downgrade(&value));
        value
    }

    /// Forgets the values that are no longer in use.
    pub fn remove_unused(&self) {
        self.0.lock().retain(|_, value| value.strong_count() > 0);
    }

    /// Returns the values in use with their names.
    pub fn all(&self) -> Vec<(Arc<str>, Arc<T>)> {
        let values = self.0.lock();
        values.iter().filter_map(|(name, value)| Some((Arc::clone(name), value.upgrade()?))).collect()
    }
}

impl CircuitBreakers {
    /// Returns the breaker called `name`; a new one if there is none with these rules.
    pub fn get_or_create(&self, name: &Arc<str>, rules: &circuit_breaker::Rules) -> Arc<Breaker> {
        let create = |before: Option<Arc<Breaker>>| {
            let breaker = Breaker::new(Arc::clone(name), rules.clone());
            if let Some((state, time)) = before.and_then(|before| before.forced()) {
                breaker.force(state, time);
            }
            breaker
        };
        self.keep_or_create(name, |breaker| breaker.rules() == rules, create)
    }
}

impl ResponseCaches {
    /// Returns the cache `name`. Creates it if it does not exist or its size is not `max_bytes`.
    pub fn get_or_create(&self, name: &str, max_bytes: u64) -> Arc<ResponseCache> {
        self.keep_or_create(name, |cache| cache.max_bytes() == max_bytes, |_| ResponseCache::new(max_bytes))
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
        let rules = circuit_breaker::Rules::default();
        let first = breakers.get_or_create(&name, &rules);
        assert!(Arc::ptr_eq(&first, &breakers.get_or_create(&name, &rules)));
        first.force(ForcedState::Open, Duration::from_secs(60));
        let changed = breakers.get_or_create(&name, &circuit_breaker::Rules { trial_calls: 3, ..rules });
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
