//! The rule of a concurrency limit.

use std::time::Duration;

use thiserror::Error;

use crate::rule::MAX_SAFE_INTEGER;

/// Concurrency limit: slots per key, and the time after which a slot expires without renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Concurrency {
    limit: u64,
    ttl: Duration,
    renew_every: Duration,
}

/// Reason why a concurrency rule is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConcurrencyError {
    /// The limit is 0.
    #[error("`limit` must be at least 1, got 0")]
    ZeroLimit,
    /// The limit exceeds [`MAX_SAFE_INTEGER`].
    #[error("`limit` must be at most {MAX_SAFE_INTEGER}, the largest value that is counted exactly")]
    TooMany,
    /// The time is too short for timely renewals, or too long to lose after a crash.
    #[error("`ttl` must be between 100 milliseconds and 1 day")]
    TtlOutOfRange,
    /// Slots would expire before their renewal.
    #[error("`renew_every` must be more than 0 and shorter than `ttl`")]
    RenewedTooLate,
}

impl Concurrency {
    /// Time after which a slot expires by default. After a crash, slots are blocked for that long; a process that stalls for less keeps its slots.
    pub const TTL: Duration = Duration::from_secs(30);

    /// Creates a rule of at most `limit` slots per key, each of which expires after [`TTL`](Self::TTL) without renewal.
    ///
    /// # Errors
    /// Fails if `limit` is out of range.
    pub fn new(limit: u64) -> Result<Self, ConcurrencyError> {
        if limit == 0 {
            return Err(ConcurrencyError::ZeroLimit);
        }
        if limit > MAX_SAFE_INTEGER {
            return Err(ConcurrencyError::TooMany);
        }
        Ok(Self { limit, ttl: Self::TTL, renew_every: Self::TTL / 3 })
    }

    /// Sets the time after which a slot expires unless it is renewed, truncated to microseconds. Slots are renewed after a third of
    /// it, so two renewals may fail.
    ///
    /// # Errors
    /// Fails if `ttl` is below 100 ms or above one day.
    pub fn with_ttl(self, ttl: Duration) -> Result<Self, ConcurrencyError> {
        if !(Duration::from_millis(100)..=Duration::from_secs(86_400)).contains(&ttl) {
            return Err(ConcurrencyError::TtlOutOfRange);
        }
        Ok(Self { ttl, renew_every: ttl / 3, ..self })
    }

    /// Sets the time after which slots are renewed, truncated to microseconds. Set the [`ttl`](Self::with_ttl) first.
    ///
    /// # Errors
    /// Fails if `renew_every` is 0, or not shorter than the `ttl`.
    pub fn with_renewal(self, renew_every: Duration) -> Result<Self, ConcurrencyError> {
        if renew_every.as_micros() == 0 || renew_every >= self.ttl {
            return Err(ConcurrencyError::RenewedTooLate);
        }
        Ok(Self { renew_every, ..self })
    }

    /// Returns the slots per key.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the time after which a slot expires without renewal.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Returns the time of [`ttl`](Self::ttl) in microseconds.
    #[must_use]
    pub(crate) fn ttl_us(&self) -> u64 {
        self.ttl.as_secs() * 1_000_000 + u64::from(self.ttl.subsec_micros())
    }

    /// Returns the time between two renewals of a slot.
    #[must_use]
    pub fn renew_every(&self) -> Duration {
        self.renew_every
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn a_slot_is_renewed_after_a_third_of_its_ttl_by_default() {
        let rule = Concurrency::new(1).unwrap();
        assert_eq!((rule.renew_every(), rule.ttl_us()), (Duration::from_secs(10), 30_000_000));
        assert_eq!(rule.with_ttl(Duration::from_secs(3)).unwrap().renew_every(), Duration::from_secs(1));
    }

    #[test]
    fn numbers_out_of_range_are_errors() {
        assert_eq!(Concurrency::new(0), Err(ConcurrencyError::ZeroLimit));
        assert_eq!(Concurrency::new(MAX_SAFE_INTEGER + 1), Err(ConcurrencyError::TooMany));
        let rule = Concurrency::new(1).unwrap();
        for ttl in [Duration::from_millis(99), Duration::from_secs(86_401)] {
            assert_eq!(rule.with_ttl(ttl), Err(ConcurrencyError::TtlOutOfRange), "{ttl:?}");
        }
        let second = Duration::from_secs(1);
        for renew_every in [Duration::ZERO, second] {
            let renewed = rule.with_ttl(second).unwrap().with_renewal(renew_every);
            assert_eq!(renewed, Err(ConcurrencyError::RenewedTooLate), "{renew_every:?}");
        }
    }
}
