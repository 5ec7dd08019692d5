//! A worker's pools: one for each origin, made when it is first asked for and kept over reloads.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::origin::Origin;
use super::pool::{Pool, PoolLimits};

/// The pools of one worker.
#[derive(Debug, Default)]
pub struct Pools(RefCell<HashMap<Origin, Rc<Pool>>>);

impl Pools {
    /// The pool to `origin`, which from now on is held to `limits`.
    pub fn get(&self, origin: Origin, limits: PoolLimits) -> Rc<Pool> {
        let mut pools = self.0.borrow_mut();
        let pool = pools.entry(origin.clone()).or_insert_with(|| Pool::new(origin, limits));
        pool.set_limits(limits);
        Rc::clone(pool)
    }

    /// A second has passed: closes idle connections that are old, and forgets pools that nobody uses any more.
    pub fn tick(&self) {
        self.0.borrow_mut().retain(|_, pool| {
            pool.tick();
            Rc::strong_count(pool) > 1 || pool.idle() > 0
        });
    }
}
