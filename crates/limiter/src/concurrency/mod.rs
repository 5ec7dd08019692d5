//! How many requests of a key may be under way at once: each holds a slot, and its slot is a lease.
//!
//! [`Leases`] is the pure decision: who holds a slot, and until when. A lease that ends unrenewed counts as none, so what
//! a killed process held is free again. [`MemoryLeases`] keeps slots in this process, [`RedisLeases`] in Redis for all
//! gateways; a request's slot is a [`Lease`], and dropping it gives the slot back.
//!
//! With a limit of 1 this is a lock: unique owners, a lease that the holder renews, and a release that removes only the
//! owner's own.
//!
//! [`RedisLeases`]: redis::RedisLeases

mod leases;
mod memory;
mod owner;
#[cfg(feature = "redis")]
pub mod redis;
mod rule;
mod stats;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

pub use self::leases::{Leases, Reply, Step};
pub use self::memory::{LeaseTable, MemoryLeases};
pub use self::owner::Owner;
pub use self::rule::{Concurrency, ConcurrencyError};
pub use self::stats::{LeaseStats, Renewal};
use super::key::BucketKey;
use super::verdict::{Outcome, Source, Verdict};

/// When a request that found every slot held should come again. Nobody knows when a request ends; the end of the first
/// lease is only the latest moment, and mostly far off.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Grants slots under one rule.
pub trait LeaseStore: Send + Sync {
    /// Asks for one of the slots of `key`. A store that need not wait answers at once; one that must ask over a network
    /// hands back a future, bounded in time. It never fails: what happens when the network does is part of the store.
    /// Dropping the future gives up the slot that may have been granted by then.
    fn acquire(&self, key: BucketKey<'_>) -> Acquisition;
}

/// An answer, or one that is on its way.
pub enum Acquisition {
    /// Decided already.
    Ready(Acquired),
    /// Being decided elsewhere; resolves within the store's own deadline.
    Pending(Pin<Box<dyn Future<Output = Acquired> + Send>>),
}

/// What became of the question for a slot.
#[derive(Debug)]
pub struct Acquired {
    /// Whether the request may pass; `remaining` are the slots that are left.
    pub verdict: Verdict,
    /// The slot. `None` if the request may not pass, or passes uncounted because the store failed.
    pub lease: Option<Lease>,
}

/// A slot, for as long as it is kept: dropping it gives the slot back, without waiting for anyone.
pub struct Lease {
    _guard: Box<dyn Guard>,
}

/// Whatever gives a slot back when it is dropped.
trait Guard: Send + Sync {}

impl<T: Send + Sync> Guard for T {}

impl Lease {
    /// A lease that lasts until `guard` is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self { _guard: Box::new(guard) }
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lease")
    }
}

impl Acquired {
    /// A slot was granted by `source`, and `remaining` are left.
    fn granted(remaining: u64, source: Source, lease: Lease) -> Self {
        let verdict = Verdict { remaining: Some(remaining), source, ..Verdict::uncounted(Outcome::Allowed) };
        Self { verdict, lease: Some(lease) }
    }

    /// `source` said that every slot is held.
    fn denied(source: Source) -> Self {
        let denied = Outcome::Denied { retry_after: RETRY_AFTER };
        Self { verdict: Verdict { remaining: Some(0), source, ..Verdict::uncounted(denied) }, lease: None }
    }
}
