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
    #[error("`lease` must be between 100 milliseconds and 1 day")]
    TtlOutOfRange,
    /// Slots would expire before their renewal.
    #[error("`renew-every` must be more than 0 and shorter than `lease`")]
    RenewedTooLate,
}

impl Concurrency {
    /// Default time after which a slot expires. After a crash, slots are blocked for that long; a gateway that stalls for less keeps
    /// its slots.
    pub const TTL: Duration = Duration::from_secs(30);

    /// Creates a rule of at most `limit` slots, each of which expires after `ttl` (the key `lease`) unless it is renewed, every `renew_every`.
    ///
    /// Without `renew_every`, slots are renewed after a third of `ttl`, so two renewals may fail. Both durations
    /// are truncated to microseconds.
    ///
    /// # Errors
    /// Fails if a number is out of range.
    pub fn new(limit: u64, ttl: Duration, renew_every: Option<Duration>) -> Result<Self, ConcurrencyError> {
        if limit == 0 {
            return Err(ConcurrencyError::ZeroLimit);
        }
        if limit > MAX_SAFE_INTEGER {
            return Err(ConcurrencyError::TooMany);
        }
        if !(Duration::from_millis(100)..=Duration::from_secs(86_400)).contains(&ttl) {
            return Err(ConcurrencyError::TtlOutOfRange);
        }
        let renew_every = renew_every.unwrap_or(ttl / 3);
        if renew_every.as_micros() == 0 || renew_every >= ttl {
            return Err(ConcurrencyError::RenewedTooLate);
        }
        Ok(Self { limit, ttl, renew_every })
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
    pub fn ttl_us(&self) -> u64 {
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
    fn a_slot_is_renewed_after_a_third_of_its_time_by_default() {
        let rule = Concurrency::new(1, Concurrency::TTL, None).unwrap();
        assert_eq!((rule.renew_every(), rule.ttl_us()), (Duration::from_secs(10), 30_000_000));
    }

    #[test]
    fn numbers_out_of_range_are_errors() {
        let second = Duration::from_secs(1);
        for (limit, ttl, renew_every, error) in [
            (0, second, None, ConcurrencyError::ZeroLimit),
            (MAX_SAFE_INTEGER + 1, second, None, ConcurrencyError::TooMany),
            (1, Duration::from_millis(99), None, ConcurrencyError::TtlOutOfRange),
            (1, Duration::from_secs(86_401), None, ConcurrencyError::TtlOutOfRange),
            (1, second, Some(Duration::ZERO), ConcurrencyError::RenewedTooLate),
            (1, second, Some(second), ConcurrencyError::RenewedTooLate),
        ] {
            assert_eq!(Concurrency::new(limit, ttl, renew_every), Err(error));
        }
    }
}
