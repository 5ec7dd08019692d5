//! The rule of an exact sliding window.

use std::time::Duration;

use super::{RuleError, micros};

/// Exactly at most `limit` tokens in any stretch as long as `window`.
///
/// A token admitted at `t` counts until `t + window`, to the microsecond. Example: 10 per minute admits 10 at 11:59:59
/// and the next ten at 12:00:59. A fixed window would admit them at 12:00:00.
///
/// The cost is a log of the tokens admitted within the last window. In memory it takes 16 bytes per microsecond with
/// an admitted request, in Redis 20 to 100 bytes per token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindowLog {
    limit: u64,
    window_us: u64,
}

impl SlidingWindowLog {
    /// Largest limit. A log of that length takes 100 MB in Redis; a `sliding-window-counter` has no such bound.
    pub const MAX_LIMIT: u64 = 1_000_000;

    /// Creates a rule of at most `limit` in any stretch of `window`. A limit of 0 denies every request.
    ///
    /// # Errors
    /// Fails if `window` is below 1 µs or above 285 years, or if `limit` exceeds [`MAX_LIMIT`](Self::MAX_LIMIT).
    pub fn new(limit: u64, window: Duration) -> Result<Self, RuleError> {
        if limit > Self::MAX_LIMIT {
            return Err(RuleError::TooLarge { field: "limit", max: Self::MAX_LIMIT });
        }
        Ok(Self { limit, window_us: micros("window", window)? })
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

    #[inline]
    pub(crate) fn window_us(&self) -> u64 {
        self.window_us
    }
}
