//! What the user asks for: one type of rule for each algorithm.

mod calendar;
mod fixed_window;
mod flow;
mod leaky_bucket;
mod quota;
mod sliding_window_counter;
mod sliding_window_log;
mod token_bucket;

use thiserror::Error;

pub use self::calendar::{Calendar, CalendarUnit};
pub use self::fixed_window::{Align, FixedWindow};
pub(crate) use self::flow::Flow;
pub use self::leaky_bucket::LeakyBucket;
pub(crate) use self::leaky_bucket::WarmUp;
pub use self::quota::Quota;
pub use self::sliding_window_counter::SlidingWindowCounter;
pub use self::sliding_window_log::SlidingWindowLog;
pub use self::token_bucket::TokenBucket;

/// The largest number of tokens that a rule may speak of, and the longest time in microseconds (285 years): 2^53 - 1,
/// up to which Redis' Lua counts every whole number.
pub const MOST: u64 = (1 << 53) - 1;

/// How many requests of a key may pass, and when: an algorithm with its numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Bursts up to a capacity, refilled continuously; kept in Redis as Spring Cloud Gateway keeps it.
    TokenBucket(TokenBucket),
    /// The same verdicts from one moment per key (GCRA, ITU-T I.371): half the memory in Redis.
    Gcra(TokenBucket),
    /// So many in a window that opens with the first request or on the clock.
    FixedWindow(FixedWindow),
    /// So many in any stretch as long as a window, from a log of what was taken.
    SlidingWindowLog(SlidingWindowLog),
    /// About so many in any stretch as long as a window, estimated from two counters.
    SlidingWindowCounter(SlidingWindowCounter),
    /// One at a time, at even intervals: requests wait for their turn.
    LeakyBucket(LeakyBucket),
    /// So many from a stock that nothing refills, until a new one begins.
    Quota(Quota),
}

/// The name of an algorithm.
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

/// A rule that no request could be decided by.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RuleError {
    /// Something that must be at least 1 was 0.
    #[error("`{0}` must be at least 1, got 0")]
    Zero(&'static str),
    /// More than can be counted exactly.
    #[error("`{field}` is more than {most}, the most that is counted exactly")]
    TooMuch {
        /// The setting.
        field: &'static str,
        /// The largest value it takes.
        most: u64,
    },
    /// No time, less than a microsecond, or more than 285 years.
    #[error("`{0}` must be between 1 microsecond and 285 years")]
    BadTime(&'static str),
    /// The bucket takes more than 30,000 years to fill.
    #[error("the bucket takes more than 30,000 years to fill: raise `replenish-rate` or lower `burst-capacity`")]
    FillsTooSlowly,
    /// A time zone that nobody knows.
    #[error("`time-zone`: there is no time zone `{0}`; write a name such as `Europe/Berlin`, or `UTC`")]
    TimeZone(String),
    /// Turns would have to be a fraction of a microsecond apart.
    #[error("`rate` is too high to pace: turns are whole microseconds apart, which would slow it by more than 1 %")]
    TooFineToPace,
    /// More time than a request may be paced over.
    #[error("`{0}` must be at most 10 years")]
    TooLong(&'static str),
}

impl Rule {
    /// Its algorithm.
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

    /// Whether decisions depend on the time of day.
    #[inline]
    pub(crate) fn reads_wall_clock(&self) -> bool {
        match self {
            Self::FixedWindow(window) => window.align() == Align::Clock,
            Self::SlidingWindowCounter(_) => true,
            Self::Quota(quota) => quota.reset().is_some(),
            _ => false,
        }
    }

    /// What a key may take again in each [`period`](TokenBucket::period) or window.
    #[must_use]
    pub fn rate(&self) -> u64 {
        match self {
            Self::TokenBucket(bucket) | Self::Gcra(bucket) => bucket.replenish_rate(),
            Self::FixedWindow(window) => window.limit(),
            Self::SlidingWindowLog(window) => window.limit(),
            Self::SlidingWindowCounter(window) => window.limit(),
            Self::LeakyBucket(pace) => pace.rate(),
            Self::Quota(quota) => quota.allowance(),
        }
    }

    /// The most that one request can ever be admitted with: a burst, a limit.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        match self {
            Self::TokenBucket(bucket) | Self::Gcra(bucket) => bucket.burst_capacity(),
            Self::FixedWindow(window) => window.limit(),
            Self::SlidingWindowLog(window) => window.limit(),
            Self::SlidingWindowCounter(window) => window.limit(),
            Self::LeakyBucket(pace) => pace.capacity(),
            Self::Quota(quota) => quota.allowance(),
        }
    }

    /// One of `parts` equal parts of it, with room for at least one request that takes `cost`. A rule that cannot be
    /// divided stays whole.
    #[cfg(feature = "redis")]
    pub(crate) fn part(&self, parts: std::num::NonZeroU32, cost: u64) -> Self {
        let share = |most: u64| (most / u64::from(parts.get())).max(cost.max(1)).min(most);
        let bucket = |bucket: &TokenBucket| {
            let period = bucket.period().checked_mul(parts.get())?;
            TokenBucket::new(bucket.replenish_rate(), period, share(bucket.burst_capacity())).ok()
        };
        let part = match self {
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
            Self::LeakyBucket(whole) => whole.part(parts).map(Self::LeakyBucket),
            Self::Quota(whole) => match whole.reset() {
                Some(reset) => Quota::resetting(share(whole.allowance()), reset.clone()),
                None => Quota::new(share(whole.allowance())),
            }
            .ok()
            .map(Self::Quota),
        };
        part.unwrap_or_else(|| self.clone())
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

    /// Its name in configuration and metrics.
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

/// Evaluates `$body` with `$inner` as the numbers of `$rule`, whichever algorithm they are for.
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

/// `time` in whole microseconds, if a rule can speak of it.
fn micros(field: &'static str, time: std::time::Duration) -> Result<u64, RuleError> {
    u64::try_from(time.as_micros()).ok().filter(|us| (1..=MOST).contains(us)).ok_or(RuleError::BadTime(field))
}

#[cfg(all(test, feature = "redis"))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::num::NonZeroU32;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_part_of_a_rule_has_its_share_and_room_for_a_request() {
        let three = NonZeroU32::new(3).unwrap();
        let bucket = |rate, secs, burst| TokenBucket::new(rate, Duration::from_secs(secs), burst).unwrap();
        let window = |limit| Rule::FixedWindow(FixedWindow::new(limit, Duration::from_secs(60), Align::Clock).unwrap());
        for (whole, cost, part) in [
            (Rule::TokenBucket(bucket(10, 1, 20)), 1, Rule::TokenBucket(bucket(10, 3, 6))),
            (Rule::Gcra(bucket(1, 60, 2)), 1, Rule::Gcra(bucket(1, 180, 1))),
            (Rule::TokenBucket(bucket(10, 1, 20)), 15, Rule::TokenBucket(bucket(10, 3, 15))),
            (Rule::TokenBucket(bucket(10, 1, 0)), 1, Rule::TokenBucket(bucket(10, 3, 0))),
            (window(100), 1, window(33)),
            (window(2), 1, window(1)),
        ] {
            assert_eq!(whole.part(three, cost), part);
        }
    }
}
