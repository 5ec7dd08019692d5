//! The rule of a leaky bucket, which queues requests.

use std::time::Duration;

#[cfg(feature = "redis")]
use super::properties::ScriptArg;
use super::properties::{Changes, RuleSettings, RuleShape};
use super::{MAX_SAFE_INTEGER, RuleError, at_most, micros};

/// Longest interval, wait and warm-up, in µs: ten years. Redis' Lua represents a timestamp several of them ahead exactly.
const LONGEST_US: u64 = 3_650 * 86_400 * 1_000_000;

/// Factor by which the interval of an idle key exceeds the configured one, as in Guava's `RateLimiter`.
const COLD_FACTOR: f64 = 3.0;

/// One turn per `interval`. Requests queue for their turn, as in nginx's `limit_req`, Guava's `RateLimiter` and
/// Sentinel's pacing.
///
/// A request takes the first free turn. It is denied immediately if that turn is more than `max_wait` ahead, or if
/// `max_queue` requests are queued. Unused turns expire: after ten idle seconds, still only one request passes at a
/// time. A request of cost `c` takes `c` intervals from its turn on, and as many places in the queue.
///
/// Example: 10 per second, a wait of at most 1 s and a queue of 5. Of 8 simultaneous requests the first passes, five
/// follow 100, 200, … 500 ms later and two are denied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeakyBucket {
    rate: u64,
    period_us: u64,
    interval_us: u64,
    max_wait_us: u64,
    max_queue: u64,
    warm_up_us: u64,
}

/// Warm-up curve: the interval as a function of the permits stored during idle time.
///
/// Permits below `threshold` cost one interval each. Permits above it cost more, up to [`COLD_FACTOR`] intervals at
/// `max_permits`, so a key that was idle for long starts slowly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WarmUp {
    pub(crate) interval_us: f64,
    /// Stored permits below which turns are one interval apart.
    pub(crate) threshold: f64,
    /// Stored permits of an idle key.
    pub(crate) max_permits: f64,
    /// Microseconds by which each permit above the threshold lengthens the interval.
    pub(crate) slope: f64,
    /// Idle time that stores one permit, in microseconds.
    pub(crate) cool_down_us: f64,
}

impl LeakyBucket {
    /// Longest wait for a turn by default.
    pub const MAX_WAIT: Duration = Duration::from_secs(1);

    /// Creates a rule of `rate` turns per `period`. Requests wait for at most [`MAX_WAIT`](Self::MAX_WAIT), in a queue of any length.
    ///
    /// The interval between turns is `period / rate`, rounded up to a whole microsecond.
    ///
    /// # Errors
    /// Fails if `rate` is 0, if rounding would slow it by more than 1 %, or if a number is out of range.
    pub fn new(rate: u64, period: Duration) -> Result<Self, RuleError> {
        let period_us = micros("period", period)?;
        if rate == 0 {
            return Err(RuleError::Zero("rate"));
        }
        at_most("rate", rate, MAX_SAFE_INTEGER)?;
        let interval_us = period_us.div_ceil(rate);
        let rounded_by = u128::from(interval_us) * u128::from(rate) - u128::from(period_us);
        if rounded_by * 100 > period_us.into() {
            return Err(RuleError::RateTooHigh);
        }
        if interval_us > LONGEST_US {
            return Err(RuleError::TooLong("period"));
        }
        let (max_wait_us, max_queue) = (Self::MAX_WAIT.as_micros() as u64, MAX_SAFE_INTEGER);
        Ok(Self { rate, period_us, interval_us, max_wait_us, max_queue, warm_up_us: 0 })
    }

    /// Sets the longest wait for a turn. With 0, requests are admitted or denied without waiting.
    ///
    /// # Errors
    /// Fails if `max_wait` is above ten years.
    pub fn with_max_wait(self, max_wait: Duration) -> Result<Self, RuleError> {
        Ok(Self { max_wait_us: at_most_ten_years("max_wait", max_wait)?, ..self })
    }

    /// Sets the largest number of queued requests per key. With 0, requests are admitted or denied without waiting.
    ///
    /// # Errors
    /// Fails if `max_queue` is above [`MAX_SAFE_INTEGER`].
    pub fn with_max_queue(self, max_queue: u64) -> Result<Self, RuleError> {
        Ok(Self { max_queue: at_most("max_queue", max_queue, MAX_SAFE_INTEGER)?, ..self })
    }

    /// Sets a warm-up: an idle key starts at a third of the rate and reaches the full rate after `warm_up` of traffic,
    /// as in Guava's `SmoothWarmingUp`. A `warm_up` of 0 disables it.
    ///
    /// # Errors
    /// Fails if `warm_up` is above ten years.
    pub fn with_warm_up(self, warm_up: Duration) -> Result<Self, RuleError> {
        Ok(Self { warm_up_us: at_most_ten_years("warm_up", warm_up)?, ..self })
    }

    /// Returns the turns per [`period`](Self::period).
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Returns the time in which [`rate`](Self::rate) turns fit.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_micros(self.period_us)
    }

    /// Returns the time from one turn to the next.
    #[must_use]
    pub fn interval(&self) -> Duration {
        Duration::from_micros(self.interval_us)
    }

    /// Returns the longest wait for a turn.
    #[must_use]
    pub fn max_wait(&self) -> Duration {
        Duration::from_micros(self.max_wait_us)
    }

    /// Returns the largest number of queued requests per key.
    #[must_use]
    pub fn max_queue(&self) -> u64 {
        self.max_queue
    }

    /// Returns the time in which an idle key reaches the full rate; 0 without a warm-up.
    #[must_use]
    pub fn warm_up(&self) -> Duration {
        Duration::from_micros(self.warm_up_us)
    }

    /// Returns the number of requests that can be admitted at one time: the current turn and the usable queue places.
    ///
    /// `max_wait` may allow fewer places than `max_queue`.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.max_delay_us() / self.interval_us + 1
    }

    #[inline]
    pub(crate) fn interval_us(&self) -> u64 {
        self.interval_us
    }

    /// Returns the longest delay of an admitted request: bounded by `max_wait` and by `max_queue` intervals.
    #[inline]
    pub(crate) fn max_delay_us(&self) -> u64 {
        self.max_queue.saturating_mul(self.interval_us).min(self.max_wait_us)
    }

    /// Computes the warm-up curve as Guava's `SmoothWarmingUp.doSetRate` does.
    ///
    /// lua/leaky_bucket.lua computes it in the same order of operations, since the order affects the last bit.
    #[inline]
    pub(crate) fn warm_up_curve(&self) -> Option<WarmUp> {
        if self.warm_up_us == 0 {
            return None;
        }
        let (warm_up, stable) = (self.warm_up_us as f64, self.interval_us as f64);
        let cold = stable * COLD_FACTOR;
        let threshold = 0.5 * warm_up / stable;
        let max_permits = threshold + 2.0 * warm_up / (stable + cold);
        let slope = (cold - stable) / (max_permits - threshold);
        Some(WarmUp { interval_us: stable, threshold, max_permits, slope, cool_down_us: warm_up / max_permits })
    }
}

impl RuleSettings for LeakyBucket {
    fn shape(&self) -> RuleShape<'_> {
        RuleShape::Pace { rate: self.rate, period: self.period(), capacity: self.capacity() }
    }

    #[inline]
    fn largest_cost(&self) -> u64 {
        self.capacity()
    }

    fn changed(&self, changes: &mut Changes<'_>) -> Result<Self, RuleError> {
        let (rate, period) = (changes.count("rate", self.rate), changes.time("period", self.period()));
        let max_wait = changes.time("max-wait", self.max_wait());
        let max_queue = changes.count("max-queue", self.max_queue);
        Self::new(rate, period)?.with_max_wait(max_wait)?.with_max_queue(max_queue)?.with_warm_up(self.warm_up())
    }

    #[cfg(feature = "redis")]
    fn first_script_args(&self) -> [ScriptArg; 2] {
        [ScriptArg::Number(self.interval_us), ScriptArg::Number(self.max_wait_us)]
    }

    #[cfg(feature = "redis")]
    fn add_script_args(&self, _: u64, mut add: impl FnMut(ScriptArg)) {
        add(ScriptArg::Number(self.max_queue));
        add(ScriptArg::Number(self.warm_up_us));
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

    fn leaky_bucket(rate: u64, max_wait_ms: u64, max_queue: u64) -> Result<LeakyBucket, RuleError> {
        LeakyBucket::new(rate, SECOND)?.with_max_wait(Duration::from_millis(max_wait_ms))?.with_max_queue(max_queue)
    }

    #[test]
    fn the_interval_is_rounded_up_to_whole_microseconds() {
        let interval = |rate| leaky_bucket(rate, 0, 0).map(|rule| rule.interval_us());
        assert_eq!((interval(10), interval(3), interval(1_000_000)), (Ok(100_000), Ok(333_334), Ok(1)));
        assert_eq!(interval(10_001), Ok(100), "99.99 µs");
        assert_eq!(interval(9_901), Ok(101), "101.0 µs");
        assert_eq!(interval(700_000), Err(RuleError::RateTooHigh), "1.4 µs would become 2");
        assert_eq!(interval(2_000_000), Err(RuleError::RateTooHigh));
        let daily = LeakyBucket::new(1, Duration::from_secs(86_400))
            .unwrap()
            .with_max_wait(SECOND)
            .unwrap()
            .with_max_queue(1)
            .unwrap();
        assert_eq!(daily.interval(), Duration::from_secs(86_400));
    }

    #[test]
    fn both_max_wait_and_max_queue_bound_the_queue() {
        let capacity = |max_wait_ms, max_queue| leaky_bucket(10, max_wait_ms, max_queue).unwrap().capacity();
        assert_eq!((capacity(1_000, 5), capacity(1_000, 50), capacity(1_000, MAX_SAFE_INTEGER)), (6, 11, 11));
        assert_eq!((capacity(99, 5), capacity(0, 5), capacity(1_000, 0)), (1, 1, 1));
    }

    #[test]
    fn numbers_out_of_range_are_errors() {
        let long = Duration::from_secs(3_650 * 86_400 + 1);
        assert_eq!(leaky_bucket(0, 1, 1), Err(RuleError::Zero("rate")));
        assert!(matches!(
            leaky_bucket(1, 1, MAX_SAFE_INTEGER + 1),
            Err(RuleError::TooLarge { field: "max_queue", .. })
        ));
        assert_eq!(LeakyBucket::new(1, Duration::ZERO), Err(RuleError::DurationOutOfRange("period")));
        assert_eq!(LeakyBucket::new(1, long), Err(RuleError::TooLong("period")));
        assert_eq!(LeakyBucket::new(1, SECOND).unwrap().with_max_wait(long), Err(RuleError::TooLong("max_wait")));
        assert_eq!(leaky_bucket(1, 1, 1).unwrap().with_warm_up(long), Err(RuleError::TooLong("warm_up")));
    }

    #[test]
    fn a_warm_up_uses_the_numbers_of_guava() {
        // RateLimiter.create(10, 4 s): permits above 20 cost 100 to 300 ms; 40 is the maximum.
        let rule = leaky_bucket(10, 0, 0).unwrap().with_warm_up(Duration::from_secs(4)).unwrap();
        let curve = rule.warm_up_curve().unwrap();
        assert_eq!((curve.threshold, curve.max_permits, curve.slope), (20.0, 40.0, 10_000.0));
        assert_eq!(curve.cool_down_us, 100_000.0);
        assert_eq!(leaky_bucket(10, 0, 0).unwrap().warm_up_curve(), None);
    }
}
