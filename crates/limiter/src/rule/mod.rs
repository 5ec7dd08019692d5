//! Rules: the limit that a caller configures, one type for each algorithm.

mod calendar;
mod fixed_window;
mod flow;
mod leaky_bucket;
mod numbers;
mod quota;
mod sliding_window_counter;
mod sliding_window_log;
mod token_bucket;

use thiserror::Error;

pub use self::calendar::{Calendar, CalendarUnit};
pub use self::fixed_window::{Align, FixedWindow};
pub(crate) use self::flow::{Flow, greatest_common_divisor};
pub use self::leaky_bucket::LeakyBucket;
pub(crate) use self::leaky_bucket::WarmUp;
pub use self::numbers::{Number, NumberKind, NumberSpec};
pub use self::quota::Quota;
pub use self::sliding_window_counter::SlidingWindowCounter;
pub use self::sliding_window_log::SlidingWindowLog;
pub use self::token_bucket::TokenBucket;

/// Largest token count and longest time in microseconds (285 years) that a rule accepts: 2^53 - 1.
///
/// Numbers in Redis' Lua are doubles, which represent every integer up to this one exactly.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// A rate limit: an algorithm and its numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A bucket of tokens that refills continuously. Redis keeps it in the keys of Spring Cloud Gateway.
    TokenBucket(TokenBucket),
    /// The verdicts of a token bucket from one timestamp per key (GCRA, ITU-T I.371): half the memory in Redis.
    Gcra(TokenBucket),
    /// A limit per window. A window opens with the first request or on the clock.
    FixedWindow(FixedWindow),
    /// A limit within any stretch as long as the window, from a log of admitted tokens.
    SlidingWindowLog(SlidingWindowLog),
    /// An approximate limit within any stretch as long as the window, estimated from two counters.
    SlidingWindowCounter(SlidingWindowCounter),
    /// One request at a time, at even intervals. Requests wait for their turn.
    LeakyBucket(LeakyBucket),
    /// A prepaid total that nothing refills until a new period begins.
    Quota(Quota),
}

/// Name of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// [`Rule::TokenBucket`].
    TokenBucket,
    /// [`Rule::Gcra`].
    Gcra,
    /// [`Rule::FixedWindow`].
    FixedWindow,
    /// [`Rule::SlidingWindowLog`].
    SlidingWindowLog,
    /// [`Rule::SlidingWindowCounter`].
    SlidingWindowCounter,
    /// [`Rule::LeakyBucket`].
    LeakyBucket,
    /// [`Rule::Quota`].
    Quota,
}

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
        /// Name of the setting.
        field: &'static str,
        /// Largest valid value.
        max: u64,
    },
    /// A duration below 1 microsecond or above 285 years.
    #[error("`{0}` must be between 1 microsecond and 285 years")]
    DurationOutOfRange(&'static str),
    /// A bucket that takes more than 30,000 years to fill.
    #[error("the bucket takes more than 30,000 years to fill: raise `replenish-rate` or lower `burst-capacity`")]
    FillsTooSlowly,
    /// A name that is not in the IANA time zone database.
    #[error("`time-zone`: unknown time zone `{0}`; write an IANA name such as `Europe/Berlin`, or `UTC`")]
    UnknownTimeZone(String),
    /// A rate with an interval between turns that is not close to a whole number of microseconds.
    #[error("`rate` is too high: rounding the interval to whole microseconds would slow it by more than 1 %")]
    RateTooHigh,
    /// A duration above the 10 years that a leaky bucket supports.
    #[error("`{0}` must be at most 10 years")]
    TooLong(&'static str),
}

/// Implements `From<$settings> for Rule`.
macro_rules! from_settings {
    ($($settings:ident),*) => {$(
        impl From<$settings> for Rule {
            fn from(settings: $settings) -> Self {
                Self::$settings(settings)
            }
        }
    )*};
}
from_settings!(TokenBucket, FixedWindow, SlidingWindowLog, SlidingWindowCounter, LeakyBucket, Quota);

impl Rule {
    /// Returns the algorithm of the rule.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Self::TokenBucket(_) => Algorithm::TokenBucket,
            Self::Gcra(_) => Algorithm::Gcra,
            Self::FixedWindow(_) => Algorithm::FixedWindow,
            Self::SlidingWindowLog(_) => Algorithm::SlidingWindowLog,
            Self::SlidingWindowCounter(_) => Algorithm::SlidingWindowCounter,
            Self::LeakyBucket(_) => Algorithm::LeakyBucket,
            Self::Quota(_) => Algorithm::Quota,
        }
    }

    /// Returns true if decisions depend on the time of day.
    #[inline]
    pub(crate) fn reads_wall_clock(&self) -> bool {
        match self {
            Self::FixedWindow(window) => window.align() == Align::Clock,
            Self::SlidingWindowCounter(_) => true,
            Self::Quota(quota) => quota.reset().is_some(),
            Self::TokenBucket(_) | Self::Gcra(_) | Self::SlidingWindowLog(_) | Self::LeakyBucket(_) => false,
        }
    }

    /// Returns the tokens that a key regains in each [`period`](TokenBucket::period) or window.
    #[must_use]
    pub fn rate(&self) -> u64 {
        match self {
            Self::TokenBucket(bucket) | Self::Gcra(bucket) => bucket.replenish_rate(),
            Self::FixedWindow(window) => window.limit(),
            Self::SlidingWindowLog(window) => window.limit(),
            Self::SlidingWindowCounter(window) => window.limit(),
            Self::LeakyBucket(bucket) => bucket.rate(),
            Self::Quota(quota) => quota.allowance(),
        }
    }

    /// Returns the largest cost that can ever be admitted: a burst or a limit.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        match self {
            Self::TokenBucket(bucket) | Self::Gcra(bucket) => bucket.burst_capacity(),
            Self::FixedWindow(window) => window.limit(),
            Self::SlidingWindowLog(window) => window.limit(),
            Self::SlidingWindowCounter(window) => window.limit(),
            Self::LeakyBucket(bucket) => bucket.capacity(),
            Self::Quota(quota) => quota.allowance(),
        }
    }

    /// Returns one of `parts` equal shares of the rule, large enough for one request of `cost`. A rule that cannot be
    /// divided is returned unchanged.
    #[cfg(feature = "redis")]
    pub(crate) fn divided_by(&self, parts: std::num::NonZeroU32, cost: u64) -> Self {
        let share = |total: u64| (total / u64::from(parts.get())).max(cost.max(1)).min(total);
        let bucket = |bucket: &TokenBucket| {
            let period = bucket.period().checked_mul(parts.get())?;
            TokenBucket::new(bucket.replenish_rate(), period, share(bucket.burst_capacity())).ok()
        };
        let divided = match self {
            Self::TokenBucket(whole) => bucket(whole).map(Self::TokenBucket),
            Self::Gcra(whole) => bucket(whole).map(Self::Gcra),
            Self::FixedWindow(whole) => match whole.calendar() {
                Some(calendar) => FixedWindow::on_calendar(share(whole.limit()), calendar.clone()),
                None => FixedWindow::new(share(whole.limit()), whole.window(), whole.align()),
            }
            .ok()
            .map(Self::FixedWindow),
            Self::SlidingWindowLog(whole) => {
                SlidingWindowLog::new(share(whole.limit()), whole.window()).ok().map(Self::SlidingWindowLog)
            }
            Self::SlidingWindowCounter(whole) => {
                SlidingWindowCounter::new(share(whole.limit()), whole.window()).ok().map(Self::SlidingWindowCounter)
            }
            Self::LeakyBucket(whole) => whole.divided_by(parts).map(Self::LeakyBucket),
            Self::Quota(whole) => match whole.reset() {
                Some(reset) => Quota::resetting(share(whole.allowance()), reset.clone()),
                None => Quota::new(share(whole.allowance())),
            }
            .ok()
            .map(Self::Quota),
        };
        divided.unwrap_or_else(|| self.clone())
    }
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 7] = [
        Self::TokenBucket,
        Self::Gcra,
        Self::FixedWindow,
        Self::SlidingWindowLog,
        Self::SlidingWindowCounter,
        Self::LeakyBucket,
        Self::Quota,
    ];

    /// Returns the name used in configuration and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TokenBucket => "token-bucket",
            Self::Gcra => "gcra",
            Self::FixedWindow => "fixed-window",
            Self::SlidingWindowLog => "sliding-window-log",
            Self::SlidingWindowCounter => "sliding-window-counter",
            Self::LeakyBucket => "leaky-bucket",
            Self::Quota => "quota",
        }
    }
}

/// Evaluates `$body` with `$inner` bound to the settings of `$rule`, for every algorithm.
macro_rules! by_algorithm {
    ($rule:expr, $inner:ident => $body:expr) => {
        match $rule {
            $crate::rule::Rule::TokenBucket($inner) | $crate::rule::Rule::Gcra($inner) => $body,
            $crate::rule::Rule::FixedWindow($inner) => $body,
            $crate::rule::Rule::SlidingWindowLog($inner) => $body,
            $crate::rule::Rule::SlidingWindowCounter($inner) => $body,
            $crate::rule::Rule::LeakyBucket($inner) => $body,
            $crate::rule::Rule::Quota($inner) => $body,
        }
    };
}
pub(crate) use by_algorithm;

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
    fn a_fraction_of_a_rule_has_its_share_and_admits_at_least_one_request() {
        let three = NonZeroU32::new(3).unwrap();
        let bucket = |rate, secs, burst| TokenBucket::new(rate, Duration::from_secs(secs), burst).unwrap();
        let window = |limit| Rule::FixedWindow(FixedWindow::new(limit, Duration::from_secs(60), Align::Clock).unwrap());
        for (whole, cost, share) in [
            (Rule::TokenBucket(bucket(10, 1, 20)), 1, Rule::TokenBucket(bucket(10, 3, 6))),
            (Rule::Gcra(bucket(1, 60, 2)), 1, Rule::Gcra(bucket(1, 180, 1))),
            (Rule::TokenBucket(bucket(10, 1, 20)), 15, Rule::TokenBucket(bucket(10, 3, 15))),
            (Rule::TokenBucket(bucket(10, 1, 0)), 1, Rule::TokenBucket(bucket(10, 3, 0))),
            (window(100), 1, window(33)),
            (window(2), 1, window(1)),
        ] {
            assert_eq!(whole.divided_by(three, cost), share);
        }
    }
}
