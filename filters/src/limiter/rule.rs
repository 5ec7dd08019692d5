//! What the user asks for.

use std::num::NonZeroU32;

use thiserror::Error;

/// The largest burst: 4 billion tokens, so that a bucket counted in millionths of a token stays an exact whole number
/// in Redis' Lua (53 bits).
pub const MAX_BURST: u32 = u32::MAX;

/// A token bucket's rule, as Spring Cloud Gateway's `RedisRateLimiter` names it.
///
/// The bucket starts full, refills continuously at `replenish_rate` tokens a second and holds at most
/// `burst_capacity`. A request takes `requested_tokens` of it or is denied and takes nothing. In any stretch of `T`
/// seconds a key is admitted at most `burst_capacity + replenish_rate * T` tokens' worth.
///
/// `{replenish_rate: 10, burst_capacity: 20}` admits 20 at once and 10 a second from then on;
/// `{replenish_rate: 10, burst_capacity: 1}` admits one every 100 ms and never two at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    replenish_rate: NonZeroU32,
    burst_capacity: u32,
    requested_tokens: NonZeroU32,
}

/// A rule that no request could be decided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RuleError {
    /// `replenish-rate` was 0: an empty bucket would never refill.
    #[error("`replenish-rate` must be at least 1, got 0")]
    ZeroRate,
    /// `requested-tokens` was 0: every request would be free.
    #[error("`requested-tokens` must be at least 1, got 0")]
    ZeroCost,
}

impl TokenBucket {
    /// A bucket of `burst_capacity` tokens, refilled with `replenish_rate` tokens a second, each request taking
    /// `requested_tokens`. A burst of 0 denies everything, as Spring's does.
    ///
    /// # Errors
    /// A rate or a cost of 0.
    pub fn new(replenish_rate: u32, burst_capacity: u32, requested_tokens: u32) -> Result<Self, RuleError> {
        Ok(Self {
            replenish_rate: NonZeroU32::new(replenish_rate).ok_or(RuleError::ZeroRate)?,
            burst_capacity,
            requested_tokens: NonZeroU32::new(requested_tokens).ok_or(RuleError::ZeroCost)?,
        })
    }

    /// Tokens added a second.
    #[must_use]
    pub fn replenish_rate(&self) -> NonZeroU32 {
        self.replenish_rate
    }

    /// Tokens that the bucket holds at most.
    #[must_use]
    pub fn burst_capacity(&self) -> u32 {
        self.burst_capacity
    }

    /// Tokens that a request takes.
    #[must_use]
    pub fn requested_tokens(&self) -> NonZeroU32 {
        self.requested_tokens
    }

    /// Whether no request can ever pass: it would take more than the bucket holds.
    #[must_use]
    pub fn never_admits(&self) -> bool {
        self.requested_tokens.get() > self.burst_capacity
    }
}
