//! The rule of a sliding window that is estimated from two counters.

use std::time::Duration;

#[cfg(feature = "redis")]
use super::properties::ScriptArg;
use super::properties::{Changes, RuleSettings, RuleShape};
use super::{MAX_SAFE_INTEGER, RuleError, at_most, micros};

/// Approximately `limit` tokens in any stretch as long as `window`, from two counters per key.
///
/// The estimate is the count of the current window, plus the share of the previous window's count that still overlaps
/// with the last `window`. Windows begin at multiples of their length since 1970.
///
/// The estimate assumes that requests of the previous window were evenly spread. Its error against an exact
/// [log](super::SlidingWindowLog):
///
/// - If `x` tokens were admitted within the last `a` of a window, the stretch that begins there admits at most
///   `limit + x * (1 - a / window)`. That is less than twice the limit, which a fixed window can admit, and at most
///   1.25 times the limit after even traffic.
/// - It can deny requests that a log admits. Example: a limit of 100 per minute, and 100 requests in the first second
///   of a minute. In the next minute a log admits 100 in the first second; the counter admits 10 by the 6th second and
///   50 by the 30th.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindowCounter {
    limit: u64,
    window_us: u64,
    tick_us: u64,
}

impl SlidingWindowCounter {
    /// Creates a rule of about `limit` in any stretch of `window`. A limit of 0 denies every request.
    ///
    /// # Errors
    /// Fails if `window` is below 1 µs, or if a number exceeds [`MAX_SAFE_INTEGER`].
    pub fn new(limit: u64, window: Duration) -> Result<Self, RuleError> {
        let (limit, window_us) = (at_most("limit", limit, MAX_SAFE_INTEGER)?, micros("window", window)?);
        // The most ticks per window for which every product of tokens and ticks is exact. Both quotients are at least 1.
        let ticks = (MAX_SAFE_INTEGER / limit.max(1)).min(window_us);
        Ok(Self { limit, window_us, tick_us: window_us.div_ceil(ticks) })
    }

    /// Returns the approximate number of tokens admitted within any window length.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the length of a window.
    #[must_use]
    pub fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }

    #[inline]
    pub(crate) fn window_us(&self) -> u64 {
        self.window_us
    }

    /// Returns the step in which the share of the previous window shrinks, in microseconds.
    ///
    /// It is 1 unless limit times window exceeds 2^53.
    #[must_use]
    #[inline]
    pub fn tick_us(&self) -> u64 {
        self.tick_us
    }

    /// Returns the ticks per window; the last may be shorter. Times the limit, at most [`MAX_SAFE_INTEGER`].
    #[inline]
    pub(crate) fn ticks(&self) -> u64 {
        if self.tick_us == 1 { self.window_us } else { self.window_us.div_ceil(self.tick_us) }
    }
}

impl RuleSettings for SlidingWindowCounter {
    fn shape(&self) -> RuleShape<'_> {
        RuleShape::Window { limit: self.limit, window: self.window() }
    }

    #[inline]
    fn largest_cost(&self) -> u64 {
        self.limit
    }

    fn changed(&self, changes: &mut Changes<'_>) -> Result<Self, RuleError> {
        Self::new(changes.count("limit", self.limit), self.window())
    }

    #[cfg(feature = "redis")]
    fn first_script_args(&self) -> [ScriptArg; 2] {
        [ScriptArg::Number(self.limit), ScriptArg::Number(self.window_us)]
    }

    #[cfg(feature = "redis")]
    fn add_script_args(&self, _: u64, mut add: impl FnMut(ScriptArg)) {
        add(ScriptArg::Number(self.tick_us()));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn every_product_of_tokens_and_ticks_is_exact() {
        let day = 86_400_000_000;
        for (limit, window_us, tick_us) in [
            (100, day, 1),
            (104_249, day, 1),
            (104_250, day, 2),
            (0, MAX_SAFE_INTEGER, 1),
            (1, MAX_SAFE_INTEGER, 1),
            (2, MAX_SAFE_INTEGER, 3),
            (MAX_SAFE_INTEGER, day, day),
        ] {
            let rule = SlidingWindowCounter::new(limit, Duration::from_micros(window_us)).unwrap();
            assert_eq!(rule.tick_us(), tick_us, "{limit} in {window_us}");
            assert!(
                u128::from(limit) * u128::from(rule.ticks()) <= u128::from(MAX_SAFE_INTEGER),
                "{limit} in {window_us}"
            );
        }
        assert!(SlidingWindowCounter::new(MAX_SAFE_INTEGER + 1, Duration::from_secs(1)).is_err());
        assert!(SlidingWindowCounter::new(1, Duration::ZERO).is_err());
    }
}
