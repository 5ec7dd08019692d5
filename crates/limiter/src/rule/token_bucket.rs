//! The rule of a token bucket, also used by GCRA.

use std::time::Duration;

use super::flow::Flow;
#[cfg(feature = "redis")]
use super::properties::ScriptArg;
use super::properties::{Changes, RuleSettings, RuleShape};
use super::{MAX_SAFE_INTEGER, RuleError, at_most, micros};

/// Token bucket, with the settings of Spring Cloud Gateway's `RedisRateLimiter`.
///
/// The bucket starts full, refills continuously with `replenish_rate` tokens per `period` and holds at most
/// `burst_capacity`. An admitted request consumes its cost; a denied request consumes nothing. In any interval
/// of length `T`, a key consumes at most `burst_capacity + replenish_rate * T / period` tokens.
///
/// | Rule | Admits |
/// |---|---|
/// | 10 per second, burst 20 | 20 at once, then 10 per second |
/// | 10 per second, burst 1 | one every 100 ms, never two at once |
/// | 1 per day, burst 1 | one in any 24 hours |
///
/// With [`Refill::Interval`] and [`Refill::Aligned`], the tokens of a period are added together at its end. Then a key
/// consumes at most `replenish_rate` tokens more in any interval.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    replenish_rate: u64,
    period_us: u64,
    burst_capacity: u64,
    capacity: u64,
    refill: Refill,
    flow: Flow,
}

/// Times at which a bucket refills.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Refill {
    /// Continuously.
    #[default]
    Smooth,
    /// After each period, all of its tokens at once. Periods begin with the first request of a key whose bucket is full.
    Interval,
    /// As `Interval`, but periods begin at the same times for all keys: multiples of the period before and after `anchor_us`,
    /// microseconds since 1970-01-01T00:00Z.
    Aligned {
        /// Time at which a period begins.
        anchor_us: u64,
    },
}

impl TokenBucket {
    /// Creates a bucket of `burst_capacity` tokens, refilled with `replenish_rate` tokens per `period`. A burst of 0
    /// denies every request, as in Spring.
    ///
    /// # Errors
    /// Fails if the rate is 0, the period is below 1 µs, or a number is out of range.
    pub fn new(replenish_rate: u64, period: Duration, burst_capacity: u64) -> Result<Self, RuleError> {
        let period_us = micros("period", period)?;
        if replenish_rate == 0 {
            return Err(RuleError::Zero("replenish_rate"));
        }
        at_most("replenish_rate", replenish_rate, MAX_SAFE_INTEGER)?;
        at_most("burst_capacity", burst_capacity, MAX_SAFE_INTEGER)?;
        let flow = Flow::new(replenish_rate, period_us, burst_capacity)?;
        let capacity = burst_capacity * flow.units;
        Ok(Self { replenish_rate, period_us, burst_capacity, capacity, refill: Refill::Smooth, flow })
    }

    /// Returns the bucket with another refill.
    ///
    /// # Errors
    /// Fails if the bucket refills in steps and the rate exceeds `u32::MAX`, or an empty bucket would fill in more than 142
    /// years.
    pub fn with_refill(self, refill: Refill) -> Result<Self, RuleError> {
        let (rate, period_us, burst) = (self.replenish_rate, self.period_us, self.burst_capacity);
        let (refill, flow) = match refill {
            Refill::Smooth => (refill, Flow::new(rate, period_us, burst)?),
            Refill::Interval => (refill, Flow::in_steps(rate, period_us, burst)?),
            Refill::Aligned { anchor_us } => {
                (Refill::Aligned { anchor_us: anchor_us % period_us }, Flow::in_steps(rate, period_us, burst)?)
            }
        };
        Ok(Self { capacity: burst * flow.units, refill, flow, ..self })
    }

    /// Creates a bucket with a period of one second, as in Spring.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn per_second(replenish_rate: u64, burst_capacity: u64) -> Result<Self, RuleError> {
        Self::new(replenish_rate, Duration::from_secs(1), burst_capacity)
    }

    /// Returns the tokens added per [`period`](Self::period).
    #[must_use]
    pub fn replenish_rate(&self) -> u64 {
        self.replenish_rate
    }

    /// Returns the time in which [`replenish_rate`](Self::replenish_rate) tokens are added.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_micros(self.period_us)
    }

    /// Returns the largest number of tokens in the bucket.
    #[must_use]
    pub fn burst_capacity(&self) -> u64 {
        self.burst_capacity
    }

    /// Returns the times at which the bucket refills. An anchor is the first one since 1970.
    #[must_use]
    pub fn refill(&self) -> Refill {
        self.refill
    }

    /// Returns the largest level of the bucket, in units of its flow.
    #[inline]
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the refill of the bucket.
    #[inline]
    pub(crate) fn flow(&self) -> &Flow {
        &self.flow
    }
}

impl RuleSettings for TokenBucket {
    fn shape(&self) -> RuleShape<'_> {
        RuleShape::Bucket { rate: self.replenish_rate, period: self.period(), burst: self.burst_capacity }
    }

    #[inline]
    fn largest_cost(&self) -> u64 {
        self.burst_capacity
    }

    fn changed(&self, changes: &mut Changes<'_>) -> Result<Self, RuleError> {
        let rate = changes.count("replenish-rate", self.replenish_rate);
        let period = changes.time("period", self.period());
        Self::new(rate, period, changes.count("burst-capacity", self.burst_capacity))?.with_refill(self.refill)
    }

    #[cfg(feature = "redis")]
    fn first_script_args(&self) -> [ScriptArg; 2] {
        [ScriptArg::Number(self.flow.per_tick.into()), ScriptArg::Number(self.burst_capacity)]
    }

    #[cfg(feature = "redis")]
    fn add_script_args(&self, _: u64, mut add: impl FnMut(ScriptArg)) {
        let anchor = match self.refill {
            Refill::Smooth => None,
            Refill::Interval => Some(ScriptArg::Word("first")),
            Refill::Aligned { anchor_us } => Some(ScriptArg::Number(anchor_us)),
        };
        if anchor.is_some() || (self.flow.units, self.flow.tick_us) != (Flow::PER_SECOND_UNITS, 1) {
            add(ScriptArg::Number(self.flow.units));
            add(ScriptArg::Number(self.flow.tick_us));
        }
        if let Some(anchor) = anchor {
            add(ScriptArg::Number(self.flow.step_us));
            add(anchor);
        }
    }
}
