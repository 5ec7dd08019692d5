//! Prepaid stocks from the operator's side: what a batch of takings comes to. The operations are methods of the stores
//! ([`MemoryStore`](super::store::memory::MemoryStore), and `RedisStore`): read, set, grant, and take from many.

use thiserror::Error;

use super::key::BucketKey;
use super::rule::MOST;

/// What was taken from a stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// How much.
    pub taken: u64,
    /// What is left.
    pub left: u64,
}

/// Why nothing was taken from a stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotTaken {
    /// The key id is empty.
    #[error("bad key: it is empty")]
    BadKey,
    /// Nothing was asked for, or more than can be counted.
    #[error("bad amount: it must be a whole number from 1 to {MOST}")]
    BadAmount,
    /// The stock is short.
    #[error("short: only {left} left")]
    Short {
        /// What is left.
        left: u64,
    },
}

/// Whether so much can be asked of that key at all.
pub(super) fn validate(key: BucketKey<'_>, amount: u64) -> Result<(), NotTaken> {
    match amount {
        _ if key.id.is_empty() => Err(NotTaken::BadKey),
        1..=MOST => Ok(()),
        _ => Err(NotTaken::BadAmount),
    }
}

/// What it came to: whether the store took `amount`, and what is left.
pub(super) fn outcome(allowed: bool, amount: u64, left: u64) -> Result<Taken, NotTaken> {
    if allowed { Ok(Taken { taken: amount, left }) } else { Err(NotTaken::Short { left }) }
}
