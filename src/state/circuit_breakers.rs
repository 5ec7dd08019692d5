//! The circuit breakers of the process, by name: what one worker learns of an upstream, all know.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tollgate_filters::circuit_breaker::{Breaker, Rules};

/// Breakers for as long as a configuration has them. A reload that leaves a breaker's rules alone leaves it as it is.
#[derive(Debug, Default)]
pub struct CircuitBreakers(Mutex<BTreeMap<Arc<str>, Weak<Breaker>>>);

impl CircuitBreakers {
    /// The breaker called `name`: the one that there is, unless it had other rules.
    #[must_use]
    pub fn breaker(&self, name: &Arc<str>, rules: &Rules) -> Arc<Breaker> {
        let mut known = self.0.lock();
        known.retain(|_, breaker| breaker.strong_count() > 0);
        if let Some(breaker) = known.get(name).and_then(Weak::upgrade).filter(|breaker| breaker.rules() == rules) {
            return breaker;
        }
        let breaker = Arc::new(Breaker::new(Arc::clone(name), rules.clone()));
        known.insert(Arc::clone(name), Arc::downgrade(&breaker));
        breaker
    }

    /// Those that there are, by name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Breaker>> {
        self.0.lock().values().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_breaker_is_shared_until_its_rules_change_or_nobody_has_it() {
        let (breakers, name) = (CircuitBreakers::default(), Arc::from("orders"));
        let rules = Rules::default();
        let first = breakers.breaker(&name, &rules);
        assert!(Arc::ptr_eq(&first, &breakers.breaker(&name, &rules)));
        let changed = breakers.breaker(&name, &Rules { trial_calls: 3, ..rules });
        assert!(!Arc::ptr_eq(&first, &changed));
        assert_eq!(breakers.all().len(), 1);
        drop((first, changed));
        assert!(breakers.all().is_empty());
    }
}
