//! Circuit breakers of the process by name, shared by all workers.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tollgate_filters::circuit_breaker::{Breaker, Rules};

/// Circuit breakers by name. A breaker lives as long as a configuration uses it, and keeps its state across a reload
/// that leaves its rules unchanged. A forced state is kept in any case.
#[derive(Debug, Default)]
pub struct CircuitBreakers(Mutex<BTreeMap<Arc<str>, Weak<Breaker>>>);

impl CircuitBreakers {
    /// Returns the breaker called `name`; a new one if there is none with these rules.
    #[must_use]
    pub fn get_or_create(&self, name: &Arc<str>, rules: &Rules) -> Arc<Breaker> {
        let mut known = self.0.lock();
        let before = known.get(name).and_then(Weak::upgrade);
        if let Some(breaker) = before.as_ref().filter(|breaker| breaker.rules() == rules) {
            return Arc::clone(breaker);
        }
        let breaker = Arc::new(Breaker::new(Arc::clone(name), rules.clone()));
        if let Some((state, time)) = before.and_then(|before| before.forced()) {
            breaker.force(state, time);
        }
        known.insert(Arc::clone(name), Arc::downgrade(&breaker));
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
}
