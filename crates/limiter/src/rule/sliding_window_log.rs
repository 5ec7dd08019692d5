//! The rule of exact sliding windows.

use std::time::Duration;

use super::{RuleError, micros};

/// At most `limit` in any stretch of time as long as `window`, exactly: what was taken at `t` counts until `t + window`
/// and not a microsecond longer.
///
/// 10 a minute admits 10 at 11:59:59 and the next ten at 12:00:59, where a fixed window would admit them at 12:00:00.
/// The price is a log of what was taken within the last window: 16 bytes for each microsecond in which something was,
/// in memory; 20 to 100 bytes for each token in Redis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindowLog {
    limit: u64,
    window_us: u64,
}

impl SlidingWindowLog {
    /// The largest limit. A log of that length takes Redis 100 MB; a `sliding-window-counter` has no such bound.
    pub const MOST: u64 = 1_000_000;

    /// At most `limit` in any stretch of `window`. A limit of 0 denies everything.
    ///
    /// # Errors
    /// A window of nothing, or a limit above [`MOST`](Self::MOST).
    pub fn new(limit: u64, window: Duration) -> Result<Self, RuleError> {
        if limit > Self::MOST {
            return Err(RuleError::TooMuch { field: "limit", most: Self::MOST });
        }
        Ok(Self { limit, window_us: micros("window", window)? })
    }

    /// How much passes in any stretch of a window.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// How long what was taken counts.
    #[must_use]
    pub fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }

    #[inline]
    pub(crate) fn window_us(&self) -> u64 {
        self.window_us
    }
}
