//! Concurrency limits: at most a fixed number of in-flight requests per key.
//!
//! A slot that is not renewed expires, so the slots of a killed process become free. [`MemorySlots`] keeps slots in this process, [`RedisSlots`] in Redis for all gateways.
//! A request holds its slot as a [`HeldSlot`]; dropping it releases the slot.
//!
//! A limit of 1 is a lock with unique owners: the holder renews its slot, and only the owner can release it.
//!
//! [`RedisSlots`]: redis::RedisSlots

mod memory;
#[cfg(feature = "redis")]
pub mod redis;
mod rule;
mod slots;
mod stats;

use std::any::Any;
use std::time::Duration;

pub use self::memory::{MemorySlots, SlotTable};
pub use self::rule::{Concurrency, ConcurrencyError};
#[cfg(feature = "gateway")]
pub use self::slots::{Owner, Reply, Slots, Step};
pub use self::stats::{Renewal, SlotStats};
use super::key::BucketKey;
use super::store::StoreReply;
use super::verdict::{Outcome, Source, Verdict};

/// Retry delay of denied requests. The end of a request is unknown; the expiry of the first slot is only an upper bound and
/// usually far ahead.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Grants slots under one rule.
pub trait SlotStore: Send + Sync {
    /// Returns the rule.
    fn rule(&self) -> Concurrency;

    /// Acquires a slot of `key`.
    ///
    /// A local store decides immediately; a remote store returns a future with a deadline. The acquisition never fails:
    /// the store handles its own failures. Dropping the future releases a slot that may have been granted.
    fn acquire(&self, key: BucketKey<'_>) -> Acquisition;
}

/// Result of an acquisition, at once or later.
pub type Acquisition = StoreReply<Acquired>;

/// Result of an acquisition.
#[derive(Debug)]
pub struct Acquired {
    /// Verdict; `remaining` is the number of free slots.
    pub verdict: Verdict,
    /// Granted slot. `None` if the request is denied, or allowed uncounted because the store failed.
    pub slot: Option<HeldSlot>,
}

/// Granted slot. Dropping it releases the slot without blocking.
pub struct HeldSlot {
    _guard: Box<dyn Any + Send + Sync>,
}

impl HeldSlot {
    /// Creates a slot that lasts until `guard` is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self { _guard: Box::new(guard) }
    }
}

impl std::fmt::Debug for HeldSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HeldSlot")
    }
}

impl Acquired {
    /// Returns the result of a slot granted by `source`, with `remaining` free slots.
    fn granted(remaining: u64, source: Source, slot: HeldSlot) -> Self {
        let verdict = Verdict { remaining: Some(remaining), source, ..Verdict::uncounted(Outcome::Allowed) };
        Self { verdict, slot: Some(slot) }
    }

    /// Returns the result of a denial by `source`, because all slots are held.
    fn denied(source: Source) -> Self {
        let denied = Outcome::Denied { retry_after: RETRY_AFTER };
        Self { verdict: Verdict { remaining: Some(0), source, ..Verdict::uncounted(denied) }, slot: None }
    }
}
