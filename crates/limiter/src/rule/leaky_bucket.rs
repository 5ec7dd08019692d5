//! The rule of the leaky bucket, which paces.

use std::time::Duration;

use super::{MOST, RuleError, micros};

/// The longest interval, wait and warm-up, in µs: ten years. A moment a few of them off is still counted exactly by
/// Redis' Lua.
const LONGEST_US: u64 = 3_650 * 86_400 * 1_000_000;

/// How much slower than the rate a key that nobody asked for begins, as in Guava's `RateLimiter`.
const COLD_FACTOR: f64 = 3.0;

/// One turn each `interval`, for which requests wait: nginx's `limit_req`, Guava's `RateLimiter`, Sentinel's pacing.
///
/// A request takes the first free turn. It is denied at once when that is more than `max_wait` off or when `max_queue`
/// requests wait already. A turn that nobody took is gone: ten idle seconds let no two requests pass at once. A request
/// that costs `c` takes `c` intervals from its turn on, and as many places of the queue.
///
/// 10 a second, a wait of at most 1 s and a queue of 5: of 8 requests that come at once the first passes, five follow
/// 100, 200, … 500 ms later and two are denied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeakyBucket {
    rate: u64,
    period_us: u64,
    interval_us: u64,
    max_wait_us: u64,
    max_queue: u64,
    warm_up_us: u64,
}

/// The numbers of a warm-up: how far apart turns are by the number of permits that idle time has stored.
///
/// Those above `threshold` cost more than an interval, up to [`COLD_FACTOR`] of them at `most`, so that a key that was
/// idle for long starts slowly; those below cost an interval each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WarmUp {
    pub(crate) interval_us: f64,
    /// Permits below which turns are an interval apart.
    pub(crate) threshold: f64,
    /// Permits of a key that nobody asked for.
    pub(crate) most: f64,
    /// How much longer the interval gets with each permit above the threshold.
    pub(crate) slope: f64,
    /// Idle µs that store a permit.
    pub(crate) cool_down_us: f64,
}

impl LeakyBucket {
    /// `rate` turns each `period`. Requests wait for theirs for at most `max_wait`, at most `max_queue` of a key at a
    /// time; with either of 0 nobody waits.
    ///
    /// Turns are a whole number of microseconds apart, the period's share rounded up.
    ///
    /// # Errors
    /// A rate of 0, one at which that rounding would slow it by more than 1 %, or numbers beyond counting.
    pub fn new(rate: u64, period: Duration, max_wait: Duration, max_queue: u64) -> Result<Self, RuleError> {
        let period_us = micros("period", period)?;
        if rate == 0 {
            return Err(RuleError::Zero("rate"));
        }
        for (field, value) in [("rate", rate), ("max-queue", max_queue)] {
            if value > MOST {
                return Err(RuleError::TooMuch { field, most: MOST });
            }
        }
        let interval_us = period_us.div_ceil(rate);
        let rounded_by = u128::from(interval_us) * u128::from(rate) - u128::from(period_us);
        if rounded_by * 100 > period_us.into() {
            return Err(RuleError::TooFineToPace);
        }
        if interval_us > LONGEST_US {
            return Err(RuleError::TooLong("period"));
        }
        let max_wait_us = at_most_ten_years("max-wait", max_wait)?;
        Ok(Self { rate, period_us, interval_us, max_wait_us, max_queue, warm_up_us: 0 })
    }

    /// The same, but a key that was idle starts at a third of the rate and reaches it after `warm_up` of traffic, as
    /// Guava's `SmoothWarmingUp` does; none with a `warm_up` of 0.
    ///
    /// # Errors
    /// More than ten years.
    pub fn warm_up(self, warm_up: Duration) -> Result<Self, RuleError> {
        Ok(Self { warm_up_us: at_most_ten_years("warm-up", warm_up)?, ..self })
    }

    /// One of so many parts of it: turns come as much further apart. `None` beyond what can be counted.
    #[cfg(feature = "redis")]
    pub(super) fn part(&self, parts: std::num::NonZeroU32) -> Option<Self> {
        let [max_wait, warm_up] = [self.max_wait_us, self.warm_up_us].map(Duration::from_micros);
        Self::new(self.rate, self.period().checked_mul(parts.get())?, max_wait, self.max_queue)
            .ok()?
            .warm_up(warm_up)
            .ok()
    }

    /// Turns each [`period`](Self::period).
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// The time that has [`rate`](Self::rate) turns.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_micros(self.period_us)
    }

    /// The time from one turn to the next.
    #[must_use]
    pub fn interval(&self) -> Duration {
        Duration::from_micros(self.interval_us)
    }

    /// How long a request waits for its turn at most.
    #[must_use]
    pub fn max_wait(&self) -> Duration {
        Duration::from_micros(self.max_wait_us)
    }

    /// How many requests of a key wait at most.
    #[must_use]
    pub fn max_queue(&self) -> u64 {
        self.max_queue
    }

    /// How many requests may take their turn or wait for it at one time: 1 more than there are places in the queue. Of
    /// these `max-wait` may leave fewer than `max-queue`.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.reach_us() / self.interval_us + 1
    }

    #[inline]
    pub(crate) fn interval_us(&self) -> u64 {
        self.interval_us
    }

    /// How far ahead a turn may be given: turns are an interval apart, so that as many wait at most as intervals fit.
    #[inline]
    pub(crate) fn reach_us(&self) -> u64 {
        self.max_queue.saturating_mul(self.interval_us).min(self.max_wait_us)
    }

    #[cfg(any(feature = "redis", test))]
    pub(crate) fn max_wait_us(&self) -> u64 {
        self.max_wait_us
    }

    #[cfg(feature = "redis")]
    pub(crate) fn warm_up_us(&self) -> u64 {
        self.warm_up_us
    }

    /// The warm-up's numbers, computed as `SmoothWarmingUp.doSetRate` does, and in lua/leaky_bucket.lua in the same
    /// order: the order of additions decides the last bit.
    #[inline]
    pub(crate) fn warm_up_numbers(&self) -> Option<WarmUp> {
        if self.warm_up_us == 0 {
            return None;
        }
        let (warm_up, stable) = (self.warm_up_us as f64, self.interval_us as f64);
        let cold = stable * COLD_FACTOR;
        let threshold = 0.5 * warm_up / stable;
        let most = threshold + 2.0 * warm_up / (stable + cold);
        let slope = (cold - stable) / (most - threshold);
        Some(WarmUp { interval_us: stable, threshold, most, slope, cool_down_us: warm_up / most })
    }
}

fn at_most_ten_years(field: &'static str, time: Duration) -> Result<u64, RuleError> {
    u64::try_from(time.as_micros()).ok().filter(|&us| us <= LONGEST_US).ok_or(RuleError::TooLong(field))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pace(rate: u64, max_wait_ms: u64, max_queue: u64) -> Result<LeakyBucket, RuleError> {
        LeakyBucket::new(rate, SECOND, Duration::from_millis(max_wait_ms), max_queue)
    }

    #[test]
    fn the_interval_is_whole_and_never_short() {
        let interval = |rate| pace(rate, 0, 0).map(|rule| rule.interval_us());
        assert_eq!((interval(10), interval(3), interval(1_000_000)), (Ok(100_000), Ok(333_334), Ok(1)));
        assert_eq!(interval(10_001), Ok(100), "99.99 µs");
        assert_eq!(interval(9_901), Ok(101), "101.0 µs");
        assert_eq!(interval(700_000), Err(RuleError::TooFineToPace), "1.4 µs would become 2");
        assert_eq!(interval(2_000_000), Err(RuleError::TooFineToPace));
        let daily = LeakyBucket::new(1, Duration::from_secs(86_400), SECOND, 1).unwrap();
        assert_eq!(daily.interval(), Duration::from_secs(86_400));
    }

    #[test]
    fn the_queue_is_as_long_as_both_bounds_allow() {
        let capacity = |max_wait_ms, max_queue| pace(10, max_wait_ms, max_queue).unwrap().capacity();
        assert_eq!((capacity(1_000, 5), capacity(1_000, 50), capacity(1_000, MOST)), (6, 11, 11));
        assert_eq!((capacity(99, 5), capacity(0, 5), capacity(1_000, 0)), (1, 1, 1));
    }

    #[test]
    fn what_cannot_be_paced_is_refused() {
        let long = Duration::from_secs(3_650 * 86_400 + 1);
        assert_eq!(pace(0, 1, 1), Err(RuleError::Zero("rate")));
        assert!(matches!(pace(1, 1, MOST + 1), Err(RuleError::TooMuch { field: "max-queue", .. })));
        assert_eq!(LeakyBucket::new(1, Duration::ZERO, SECOND, 1), Err(RuleError::BadTime("period")));
        assert_eq!(LeakyBucket::new(1, long, SECOND, 1), Err(RuleError::TooLong("period")));
        assert_eq!(LeakyBucket::new(1, SECOND, long, 1), Err(RuleError::TooLong("max-wait")));
        assert_eq!(pace(1, 1, 1).unwrap().warm_up(long), Err(RuleError::TooLong("warm-up")));
    }

    #[test]
    fn a_warm_up_has_guavas_numbers() {
        // RateLimiter.create(10, 4 s): permits above 20 cost 100 to 300 ms; 40 is the most.
        let rule = pace(10, 0, 0).unwrap().warm_up(Duration::from_secs(4)).unwrap();
        let numbers = rule.warm_up_numbers().unwrap();
        assert_eq!((numbers.threshold, numbers.most, numbers.slope), (20.0, 40.0, 10_000.0));
        assert_eq!(numbers.cool_down_us, 100_000.0);
        assert_eq!(pace(10, 0, 0).unwrap().warm_up_numbers(), None);
    }
}
