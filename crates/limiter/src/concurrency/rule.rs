//! What the user asks for.

use std::time::Duration;

use thiserror::Error;

use crate::rule::MAX_SAFE_INTEGER;

/// How many requests of a key may be under way at once, and for how long a slot is held without a sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Concurrency {
    limit: u64,
    lease: Duration,
    renew_every: Duration,
}

/// A rule that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConcurrencyError {
    /// No slot at all.
    #[error("`limit` must be at least 1, got 0")]
    ZeroLimit,
    /// More slots than can be counted exactly.
    #[error("`limit` is more than {MAX_SAFE_INTEGER}, the most that is counted exactly")]
    TooMany,
    /// Too short for a renewal to come in time, or too long to be given up after a crash.
    #[error("`lease` must be between 100 milliseconds and 1 day")]
    BadLease,
    /// A lease would end before it is renewed.
    #[error("`renew-every` must be more than 0 and shorter than `lease`")]
    RenewedTooLate,
}

impl Concurrency {
    /// How long a slot is held without a renewal unless something else is asked for: after a crash it is lost for that
    /// long, and a gateway that stalls for less keeps it.
    pub const LEASE: Duration = Duration::from_secs(30);

    /// At most `limit` at once, each under a lease of `lease` that is renewed every `renew_every`; every third of the
    /// lease if that is `None`, so that two renewals may fail. Both are cut to whole microseconds.
    ///
    /// # Errors
    /// Numbers that cannot work.
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

    /// Slots of a key.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// How long a slot is held without a renewal.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// The same in microseconds.
    #[must_use]
    pub fn lease_us(&self) -> u64 {
        self.lease.as_secs() * 1_000_000 + u64::from(self.lease.subsec_micros())
    }

    /// Time between two renewals of a lease.
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
    fn a_lease_is_renewed_three_times_in_its_life_unless_told_otherwise() {
        let rule = Concurrency::new(1, Concurrency::LEASE, None).unwrap();
        assert_eq!((rule.renew_every(), rule.lease_us()), (Duration::from_secs(10), 30_000_000));
    }

    #[test]
    fn numbers_that_cannot_work_are_refused() {
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
