//! The rule of an exact sliding window.

use std::time::Duration;

#[cfg(feature = "redis")]
use super::properties::ScriptArg;
use super::properties::{Changes, RuleSettings, RuleShape};
use super::{RuleError, at_most, micros};

/// Exactly at most `limit` tokens in any stretch as long as `window`.
///
/// A token admitted at `t` counts until `t + window`, to the microsecond. Example: 10 per minute admits 10 at 11:59:59
/// and the next ten at 12:00:59. A fixed window would admit them at 12:00:00.
///
/// The cost is a log of the requests admitted within the last window, each with its cost: 16 bytes per request in memory,
/// 20 to 120 bytes in Redis. A log has at most [`EXACT_LIMIT`](Self::EXACT_LIMIT) entries and one. With a larger limit,
/// requests of one grain, which is that fraction of the window, share an entry and count from the last of them. So a token
/// may count up to one grain (0.1 % of the window) longer than `window`, and never shorter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindowLog {
    limit: u64,
    window_us: u64,
}

impl SlidingWindowLog {
    /// Largest limit. It fits a window's traffic in bytes.
    pub const MAX_LIMIT: u64 = 1_000_000_000_000;

    /// Largest limit under which each microsecond has an entry of its own.
    pub const EXACT_LIMIT: u64 = 1_000;

    /// Creates a rule of at most `limit` in any stretch of `window`. A limit of 0 denies every request.
    ///
    /// # Errors
    /// Fails if `window` is below 1 µs or above 285 years, or if `limit` exceeds [`MAX_LIMIT`](Self::MAX_LIMIT).
    pub fn new(limit: u64, window: Duration) -> Result<Self, RuleError> {
        Ok(Self { limit: at_most("limit", limit, Self::MAX_LIMIT)?, window_us: micros("window", window)? })
    }

    /// Returns the tokens admitted within any window length.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the length of the window.
    #[must_use]
    pub fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }

    /// Returns the time within which requests share an entry: 1 µs unless the limit exceeds
    /// [`EXACT_LIMIT`](Self::EXACT_LIMIT).
    #[inline]
    #[must_use]
    pub fn grain_us(&self) -> u64 {
        if self.limit > Self::EXACT_LIMIT { self.window_us.div_ceil(Self::EXACT_LIMIT) } else { 1 }
    }

    #[inline]
    pub(crate) fn window_us(&self) -> u64 {
        self.window_us
    }
}

impl RuleSettings for SlidingWindowLog {
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
}
