//! The rule of token bucket and GCRA.

use std::time::Duration;

use super::flow::Flow;
use super::{MOST, RuleError, micros};

/// A token bucket's rule, as Spring Cloud Gateway's `RedisRateLimiter` names it.
///
/// The bucket starts full, refills continuously with `replenish_rate` tokens a `period` and holds at most
/// `burst_capacity`. A request takes its cost or is denied and takes nothing. In any stretch of time `T` a key is
/// admitted at most `burst_capacity + replenish_rate * T / period` tokens' worth.
///
/// 10 a second with a burst of 20 admits 20 at once and 10 a second from then on; 10 a second with a burst of 1 admits
/// one every 100 ms and never two at once; 1 a day with a burst of 1 admits one in any 24 hours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    replenish_rate: u64,
    period_us: u64,
    burst_capacity: u64,
    capacity: u64,
    flow: Flow,
}

impl TokenBucket {
    /// A bucket of `burst_capacity` tokens, refilled with `replenish_rate` tokens each `period`. A burst of 0 denies
    /// everything, as Spring's does.
    ///
    /// # Errors
    /// A rate of 0, a period of nothing, or numbers beyond counting.
    pub fn new(replenish_rate: u64, period: Duration, burst_capacity: u64) -> Result<Self, RuleError> {
        let period_us = micros("period", period)?;
        if replenish_rate == 0 {
            return Err(RuleError::Zero("replenish-rate"));
        }
        for (field, value) in [("replenish-rate", replenish_rate), ("burst-capacity", burst_capacity)] {
            if value > MOST {
                return Err(RuleError::TooMuch { field, most: MOST });
            }
        }
        let flow = Flow::new(replenish_rate, period_us, burst_capacity)?;
        Ok(Self { replenish_rate, period_us, burst_capacity, capacity: burst_capacity * flow.units, flow })
    }

    /// The same with a period of a second, as Spring has it.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn per_second(replenish_rate: u64, burst_capacity: u64) -> Result<Self, RuleError> {
        Self::new(replenish_rate, Duration::from_secs(1), burst_capacity)
    }

    /// Tokens added each [`period`](Self::period).
    #[must_use]
    pub fn replenish_rate(&self) -> u64 {
        self.replenish_rate
    }

    /// The time in which [`replenish_rate`](Self::replenish_rate) tokens flow in.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_micros(self.period_us)
    }

    /// Tokens that the bucket holds at most.
    #[must_use]
    pub fn burst_capacity(&self) -> u64 {
        self.burst_capacity
    }

    /// What the bucket holds at most, in units of its flow.
    #[inline]
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How tokens flow in.
    #[inline]
    pub(crate) fn flow(&self) -> &Flow {
        &self.flow
    }
}
