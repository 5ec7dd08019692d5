//! Connection pools of a worker: one for each origin, created on first use and kept across reloads.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;

use crate::upstream::error::ForwardError;
use crate::upstream::origin::Origin;
use crate::upstream::pool::{Pool, PoolSettings};

/// Maximum number of origins of a worker. If requests name their targets, clients may choose them.
const MAX_ORIGINS: usize = 1024;
/// Time in seconds after which a pool in use looks up its name again.
const RENEW_SECS: u64 = 5;
/// Bound of these lookups of one worker in a second. With more names, each waits longer.
const RENEWALS_PER_SECOND: u64 = 16;

/// Connection pools of one worker.
#[derive(Debug)]
pub struct Pools {
    pools: RefCell<HashMap<Origin, Rc<Pool>>>,
    settings: Rc<RefCell<PoolSettings>>,
    /// Address of the admin port, if it trusts every process of this host.
    refused: Option<SocketAddr>,
}

impl Pools {
    /// Creates an empty set with default settings, which all pools share. No pool connects to the address `refused`.
    pub fn new(refused: Option<SocketAddr>) -> Self {
        Self { pools: RefCell::default(), settings: Rc::default(), refused }
    }

    /// Applies changed settings.
    pub fn configure(&self, settings: PoolSettings) {
        *self.settings.borrow_mut() = PoolSettings { refused: self.refused, ..settings };
        self.pools.borrow().values().for_each(|pool| pool.resize());
    }

    /// Returns the pool of an origin that the configuration names.
    pub fn get(&self, origin: Origin) -> Rc<Pool> {
        let mut pools = self.pools.borrow_mut();
        let pool = pools.entry(origin.clone()).or_insert_with(|| Pool::new(origin, Rc::clone(&self.settings)));
        Rc::clone(pool)
    }

    /// Returns the pool of an origin that a request names.
    ///
    /// # Errors
    /// Too many origins are in use.
    pub fn get_dynamic(&self, origin: Origin) -> Result<Rc<Pool>, ForwardError> {
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

    /// Advances the clock by one second: closes idle connections and removes unused pools.
    pub fn tick(&self) {
        let mut pools = self.pools.borrow_mut();
        let renew_secs = RENEW_SECS.max(pools.len() as u64 / RENEWALS_PER_SECOND);
        pools.retain(|_, pool| {
            pool.tick(renew_secs);
            Rc::strong_count(pool) > 1 || pool.has_connections()
        });
    }
}
