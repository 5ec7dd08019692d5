//! Withdrawals from prepaid quotas.
//!
//! The operations are methods of the stores ([`MemoryStore`](super::store::memory::MemoryStore) and `RedisStore`): read
//! and set the remaining tokens, grant more, and withdraw from many quotas.

use thiserror::Error;

use super::key::BucketKey;
use super::rule::MAX_SAFE_INTEGER;

/// Result of a successful withdrawal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withdrawal {
    /// Tokens withdrawn.
    pub taken: u64,
    /// Tokens remaining afterwards.
    pub remaining: u64,
}

/// Reason why a withdrawal failed. Nothing was withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WithdrawalError {
    /// The key id is empty.
    #[error("invalid key: it must not be empty")]
    EmptyKey,
    /// The amount is 0 or above [`MAX_SAFE_INTEGER`].
    #[error("invalid amount: it must be a whole number from 1 to {MAX_SAFE_INTEGER}")]
    InvalidAmount,
    /// The amount exceeds the remaining tokens.
    #[error("insufficient quota: {remaining} remaining")]
    Insufficient {
        /// Tokens remaining.
        remaining: u64,
    },
}

/// Checks that `amount` can be withdrawn from `key` at all.
pub(super) fn validate(key: BucketKey<'_>, amount: u64) -> Result<(), WithdrawalError> {
    match amount {
        _ if key.id.is_empty() => Err(WithdrawalError::EmptyKey),
        1..=MAX_SAFE_INTEGER => Ok(()),
        _ => Err(WithdrawalError::InvalidAmount),
    }
}

/// Returns the result of a withdrawal of `amount` after which `remaining` tokens are left.
pub(super) fn outcome(allowed: bool, amount: u64, remaining: u64) -> Result<Withdrawal, WithdrawalError> {
    if allowed { Ok(Withdrawal { taken: amount, remaining }) } else { Err(WithdrawalError::Insufficient { remaining }) }
}
