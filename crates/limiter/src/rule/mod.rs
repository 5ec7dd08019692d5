//! Rules: the limit that a caller configures, one type for each algorithm.

mod calendar;
mod fixed_window;
mod flow;
mod leaky_bucket;
pub(crate) mod list;
mod properties;
mod quota;
#[cfg(test)]
mod samples;
mod sliding_window_counter;
mod sliding_window_log;
mod token_bucket;

use thiserror::Error;

pub use self::calendar::{Calendar, CalendarUnit};
pub use self::fixed_window::{Align, FixedWindow};
pub(crate) use self::flow::{FILLS_IN_STEPS_WITHIN_US, Flow, greatest_common_divisor};
pub use self::leaky_bucket::LeakyBucket;
pub(crate) use self::leaky_bucket::WarmUp;
pub use self::list::{Algorithm, Rule};
pub(crate) use self::list::{by_algorithm, map_rule};
use self::properties::Changes;
pub(crate) use self::properties::RuleSettings;
pub use self::properties::RuleShape;
#[cfg(feature = "redis")]
pub(crate) use self::properties::ScriptArg;
#[cfg(not(feature = "gateway"))]
pub(crate) use self::properties::{Number, NumberKind, NumberSpec};
#[cfg(feature = "gateway")]
pub use self::properties::{Number, NumberKind, NumberSpec};
pub use self::quota::Quota;
#[cfg(test)]
pub(crate) use self::samples::samples;
pub use self::sliding_window_counter::SlidingWindowCounter;
pub use self::sliding_window_log::SlidingWindowLog;
pub use self::token_bucket::{Refill, TokenBucket};

/// Largest token count and longest time in microseconds (285 years) that a rule accepts: 2^53 - 1.
///
/// Numbers in Redis' Lua are doubles, which represent every integer up to this one exactly.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Reason why a rule is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RuleError {
    /// A number that must be at least 1 is 0.
    #[error("`{0}` must be at least 1, got 0")]
    Zero(&'static str),
    /// A number above the largest that is counted exactly.
    #[error("`{field}` must be at most {max}, the largest value that is counted exactly")]
    TooLarge {
        /// Name of the argument.
        field: &'static str,
        /// Largest valid value.
        max: u64,
    },
    /// A duration below 1 microsecond or above 285 years.
    #[error("`{0}` must be between 1 microsecond and 285 years")]
    DurationOutOfRange(&'static str),
    /// A bucket that takes more than 30,000 years to fill.
    #[error("the bucket takes more than 30,000 years to fill: raise `replenish_rate` or lower `burst_capacity`")]
    FillsTooSlowly,
    /// A bucket that refills in steps and takes more than 140 years to fill.
    #[error(
        "the bucket takes more than 140 years to fill: raise `replenish_rate`, lower `burst_capacity` or shorten `period`"
    )]
    StepsTooSlowly,
    /// A name that is not in the IANA time zone database.
    #[error("`time_zone`: unknown time zone `{0}`; write an IANA name such as `Europe/Berlin`, or `UTC`")]
    UnknownTimeZone(String),
    /// A rate with an interval between turns that is not close to a whole number of microseconds.
    #[error("`rate` is too high: rounding the interval to whole microseconds would slow it by more than 1 %")]
    RateTooHigh,
    /// A duration above the 10 years that a leaky bucket supports.
    #[error("`{0}` must be at most 10 years")]
    TooLong(&'static str),
}

impl RuleError {
    /// Returns the name of the argument to change.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::Zero(field)
            | Self::TooLarge { field, .. }
            | Self::DurationOutOfRange(field)
            | Self::TooLong(field) => field,
            Self::FillsTooSlowly | Self::StepsTooSlowly => "replenish_rate",
            Self::UnknownTimeZone(_) => "time_zone",
            Self::RateTooHigh => "rate",
        }
    }
}

impl Rule {
    /// Returns the limit in the terms that all algorithms share.
    #[must_use]
    pub fn shape(&self) -> RuleShape<'_> {
        by_algorithm!(self, settings => settings.shape())
    }

    /// Returns true for a bucket that refills in steps.
    #[must_use]
    pub fn refills_in_steps(&self) -> bool {
        matches!(self, Self::TokenBucket(bucket) | Self::Gcra(bucket) if bucket.refill() != Refill::Smooth)
    }

    /// Returns the tokens that a key regains in each [`period`](TokenBucket::period) or window.
    #[must_use]
    pub fn rate(&self) -> u64 {
        match self.shape() {
            RuleShape::Bucket { rate, .. } | RuleShape::Pace { rate, .. } => rate,
            RuleShape::Window { limit, .. } | RuleShape::Calendar { limit, .. } | RuleShape::Total { limit } => limit,
        }
    }

    /// Returns the largest cost that can ever be admitted: a burst or a limit.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        by_algorithm!(self, settings => settings.largest_cost())
    }

    /// Returns one of `parts` equal shares of the rule, rounded down: all shares together admit no more than the rule. `None`
    /// if a number of the share is out of range.
    #[cfg(feature = "redis")]
    pub(crate) fn share_of(&self, parts: std::num::NonZeroU32) -> Option<Self> {
        let share = |total: u64| Number::Count(total / u64::from(parts.get()));
        // A name that the algorithm does not have has no effect.
        let numbers = match self.shape() {
            RuleShape::Bucket { period, burst, .. } | RuleShape::Pace { period, capacity: burst, .. } => {
                [("period", Number::Time(period.checked_mul(parts.get())?)), ("burst-capacity", share(burst))]
            }
            RuleShape::Window { limit, .. } | RuleShape::Calendar { limit, .. } | RuleShape::Total { limit } => {
                [("limit", share(limit)), ("allowance", share(limit))]
            }
        };
        self.changed(&numbers).0.ok()
    }

    /// Returns true if requests wait for their turn.
    #[must_use]
    pub fn paces(&self) -> bool {
        self.algorithm().spec().paces
    }

    /// Returns true for a prepaid total, which time alone does not refill.
    #[must_use]
    pub fn is_prepaid(&self) -> bool {
        self.algorithm().spec().prepaid
    }

    /// Returns the numbers that can change, in the order of the algorithm's table.
    #[cfg(any(test, feature = "gateway"))]
    #[must_use]
    pub fn numbers(&self) -> Vec<(&'static str, Number)> {
        self.changed(&[]).1
    }

    /// Returns the rule with other `numbers`. Those of another name or unit have no effect.
    ///
    /// # Errors
    /// A number is out of range.
    #[cfg(any(test, feature = "gateway"))]
    pub fn with_numbers(&self, numbers: &[(&'static str, Number)]) -> Result<Self, RuleError> {
        self.changed(numbers).0
    }

    /// Returns the rule with `new` numbers, and the present ones.
    fn changed(&self, new: &[(&'static str, Number)]) -> (Result<Self, RuleError>, Vec<(&'static str, Number)>) {
        let mut changes = Changes { new, present: Vec::new() };
        let rule = map_rule!(self, settings => settings.changed(&mut changes));
        (rule, changes.present)
    }
}

impl NumberSpec {
    /// Returns the number of any algorithm with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        Self::all().find(|number| number.name == name)
    }

    /// Returns every number, of each algorithm in turn. Algorithms share names.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        Algorithm::ALL.iter().flat_map(|algorithm| algorithm.spec().numbers)
    }
}

/// Checks that `count` is at most `max`.
fn at_most(field: &'static str, count: u64, max: u64) -> Result<u64, RuleError> {
    if count > max { Err(RuleError::TooLarge { field, max }) } else { Ok(count) }
}

/// Converts `time` to whole microseconds from 1 to [`MAX_SAFE_INTEGER`].
fn micros(field: &'static str, time: std::time::Duration) -> Result<u64, RuleError> {
    u64::try_from(time.as_micros())
        .ok()
        .filter(|us| (1..=MAX_SAFE_INTEGER).contains(us))
        .ok_or(RuleError::DurationOutOfRange(field))
}

#[cfg(all(test, feature = "redis"))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::num::NonZeroU32;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_share_of_a_rule_is_rounded_down() {
        let three = NonZeroU32::new(3).unwrap();
        let bucket = |rate, secs, burst| TokenBucket::new(rate, Duration::from_secs(secs), burst).unwrap();
        let window = |limit| Rule::FixedWindow(FixedWindow::new(limit, Duration::from_secs(60), Align::Clock).unwrap());
        for (whole, share) in [
            (Rule::TokenBucket(bucket(10, 1, 20)), Rule::TokenBucket(bucket(10, 3, 6))),
            (Rule::Gcra(bucket(1, 60, 2)), Rule::Gcra(bucket(1, 180, 0))),
            (Rule::TokenBucket(bucket(10, 1, 0)), Rule::TokenBucket(bucket(10, 3, 0))),
            (window(100), window(33)),
            (window(2), window(0)),
        ] {
            assert_eq!(whole.share_of(three), Some(share));
        }
        let longest = Rule::Gcra(bucket(1, MAX_SAFE_INTEGER / 1_000_000, 1));
        assert_eq!(longest.share_of(three), None);
    }
}
