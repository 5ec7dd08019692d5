//! The rule of a concurrency limit.

use std::time::Duration;

use thiserror::Error;

use crate::rule::MAX_SAFE_INTEGER;

/// Concurrency limit: slots per key, and the duration of a lease without renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Concurrency {
    limit: u64,
    lease: Duration,
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
    /// The lease is too short for timely renewals, or too long to lose after a crash.
    #[error("`lease` must be between 100 milliseconds and 1 day")]
    BadLease,
    /// The lease would end before its renewal.
    #[error("`renew-every` must be more than 0 and shorter than `lease`")]
    RenewedTooLate,
}

impl Concurrency {
    /// Default duration of a lease. After a crash, slots are blocked for that long; a gateway that stalls for less keeps
    /// its slots.
    pub const LEASE: Duration = Duration::from_secs(30);

    /// Creates a rule of at most `limit` slots, each under a lease of `lease` that is renewed every `renew_every`.
    ///
    /// Without `renew_every`, leases are renewed after a third of their duration, so two renewals may fail. Both durations
    /// are truncated to microseconds.
    ///
    /// # Errors
    /// Fails if a number is out of range.
    pub fn new(limit: u64, lease: Duration, renew_every: Option<Duration>) -> Result<Self, ConcurrencyError> {
        if limit == 0 {
            return Err(ConcurrencyError::ZeroLimit);
        }
        if limit > MAX_SAFE_INTEGER {
            return Err(ConcurrencyError::TooMany);
        }
        if !(Duration::from_millis(100)..=Duration::from_secs(86_400)).contains(&lease) {
            return Err(ConcurrencyError::BadLease);
        }
        let renew_every = renew_every.unwrap_or(lease / 3);
        if renew_every.as_micros() == 0 || renew_every >= lease {
            return Err(ConcurrencyError::RenewedTooLate);
        }
        Ok(Self { limit, lease, renew_every })
    }

    /// Returns the slots per key.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the duration of a lease without renewal.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Returns the duration of a lease in microseconds.
    #[must_use]
    pub fn lease_us(&self) -> u64 {
        self.lease.as_secs() * 1_000_000 + u64::from(self.lease.subsec_micros())
    }

    /// Returns the time between two renewals of a lease.
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
    fn a_lease_is_renewed_after_a_third_of_its_duration_by_default() {
        let rule = Concurrency::new(1, Concurrency::LEASE, None).unwrap();
        assert_eq!((rule.renew_every(), rule.lease_us()), (Duration::from_secs(10), 30_000_000));
    }

    #[test]
    fn numbers_out_of_range_are_errors() {
        let second = Duration::from_secs(1);
        for (limit, lease, renew_every, error) in [
            (0, second, None, ConcurrencyError::ZeroLimit),
            (MAX_SAFE_INTEGER + 1, second, None, ConcurrencyError::TooMany),
            (1, Duration::from_millis(99), None, ConcurrencyError::BadLease),
            (1, Duration::from_secs(86_401), None, ConcurrencyError::BadLease),
            (1, second, Some(Duration::ZERO), ConcurrencyError::RenewedTooLate),
            (1, second, Some(second), ConcurrencyError::RenewedTooLate),
        ] {
            assert_eq!(Concurrency::new(limit, lease, renew_every), Err(error));
        }
    }
}
