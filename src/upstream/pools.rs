//! A worker's pools: one for each origin, made when it is first asked for and kept over reloads.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::upstream::error::ForwardError;
use crate::upstream::origin::Origin;
use crate::upstream::pool::{Pool, PoolSettings};

/// Origins that a worker keeps connections to at most: where requests name their own targets, clients may choose them.
const MAX_ORIGINS: usize = 1024;

/// The pools of one worker.
#[derive(Debug)]
pub struct Pools {
    pools: RefCell<HashMap<Origin, Rc<Pool>>>,
    settings: Rc<RefCell<PoolSettings>>,
}

impl Pools {
    /// No pools yet; those that will be are held to `settings`.
    #[must_use]
    pub fn new(settings: PoolSettings) -> Self {
        Self { pools: RefCell::default(), settings: Rc::new(RefCell::new(settings)) }
    }

    /// Takes over settings changed by a reload.
    pub fn configure(&self, settings: PoolSettings) {
        *self.settings.borrow_mut() = settings;
        self.pools.borrow().values().for_each(|pool| pool.resize());
    }

    /// The pool to an origin that the configuration names.
    pub fn get(&self, origin: Origin) -> Rc<Pool> {
        let mut pools = self.pools.borrow_mut();
        let pool = pools.entry(origin.clone()).or_insert_with(|| Pool::new(origin, Rc::clone(&self.settings)));
        Rc::clone(pool)
    }

    /// The pool to an origin that a request names.
    ///
    /// # Errors
    /// There are too many origins in use.
    pub fn named_by_request(&self, origin: Origin) -> Result<Rc<Pool>, ForwardError> {
        let mut pools = self.pools.borrow_mut();
        if pools.len() >= MAX_ORIGINS && !pools.contains_key(&origin) {
            pools.retain(|_, pool| Rc::strong_count(pool) > 1);
            if pools.len() >= MAX_ORIGINS {
                return Err(ForwardError::TooManyOrigins);
            }
        }
        drop(pools);
        Ok(self.get(origin))
    }

    /// A second has passed: closes idle connections that are old, and forgets pools that nobody uses any more.
    pub fn tick(&self) {
        self.pools.borrow_mut().retain(|_, pool| {
            pool.tick();
            Rc::strong_count(pool) > 1 || pool.has_connections()
        });
    }
}
