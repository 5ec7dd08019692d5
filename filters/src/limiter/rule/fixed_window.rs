//! The rule of fixed windows.

use std::time::Duration;

use super::{MOST, RuleError, micros};

/// At most `limit` in a window of time. Across the edge of two windows up to twice the limit may pass within any
/// stretch as long as one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FixedWindow {
    limit: u64,
    window_us: u64,
    align: Align,
}

/// Where windows begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Align {
    /// With a key's first request: each key has windows of its own.
    #[default]
    First,
    /// At multiples of the window since 1970-01-01T00:00Z: a window of an hour begins on the hour, for all keys.
    Clock,
}

impl FixedWindow {
    /// At most `limit` in each `window`. A limit of 0 denies everything.
    ///
    /// # Errors
    /// A window of nothing, or numbers beyond counting.
    pub fn new(limit: u64, window: Duration, align: Align) -> Result<Self, RuleError> {
        if limit > MOST {
            return Err(RuleError::TooMuch { field: "limit", most: MOST });
        }
        Ok(Self { limit, window_us: micros("window", window)?, align })
    }

    /// How much passes in a window.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// How long a window is.
    #[must_use]
    pub fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }

    /// Where windows begin.
    #[must_use]
    pub fn align(&self) -> Align {
        self.align
    }

    #[inline]
    pub(crate) fn window_us(&self) -> u64 {
        self.window_us
    }

    /// How long a window that opens at `wall_us`, the time since 1970, lasts.
    #[inline]
    pub(crate) fn lasts_us(&self, wall_us: u64) -> u64 {
        match self.align {
            Align::First => self.window_us,
            Align::Clock => self.window_us - wall_us % self.window_us,
        }
    }
}
