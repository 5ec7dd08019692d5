//! The rule of fixed windows.

use std::time::Duration;

use super::calendar::Calendar;
use super::{MOST, RuleError, micros};

/// At most `limit` in a window of time. Across the edge of two windows up to twice the limit may pass within any
/// stretch as long as one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FixedWindow {
    limit: u64,
    window_us: u64,
    align: Align,
    calendar: Option<Calendar>,
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
        Ok(Self { limit, window_us: micros("window", window)?, align, calendar: None })
    }

    /// At most `limit` in each unit of a calendar: a local day, a month.
    ///
    /// # Errors
    /// Numbers beyond counting.
    pub fn on_calendar(limit: u64, calendar: Calendar) -> Result<Self, RuleError> {
        let window = Self::new(limit, calendar.unit().at_most(), Align::Clock)?;
        Ok(Self { calendar: Some(calendar), ..window })
    }

    /// How much passes in a window.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// How long a window is; on a calendar, how long the longest is.
    #[must_use]
    pub fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }

    /// Where windows begin.
    #[must_use]
    pub fn align(&self) -> Align {
        self.align
    }

    /// The calendar that windows follow, if they do.
    #[must_use]
    pub fn calendar(&self) -> Option<&Calendar> {
        self.calendar.as_ref()
    }

    /// When the windows around `wall_us`, the time since 1970, begin: the one before it, the one that it is in, and the
    /// two behind. `None` unless they follow a calendar.
    #[must_use]
    pub fn windows_around(&self, wall_us: u64) -> Option<[u64; 4]> {
        self.calendar.as_ref().map(|calendar| calendar.around(wall_us))
    }

    #[inline]
    pub(crate) fn window_us(&self) -> u64 {
        self.window_us
    }

    /// How long a window lasts that opens at `wall_us`, the time since 1970, and how long the whole one is, of which
    /// that is the rest.
    #[inline]
    pub(crate) fn lasts_us(&self, wall_us: u64) -> (u64, u64) {
        match (&self.calendar, self.align) {
            (Some(calendar), _) => {
                let [_, start, next, _] = calendar.around(wall_us);
                (next - wall_us, next - start)
            }
            (None, Align::First) => (self.window_us(), self.window_us()),
            (None, Align::Clock) => (self.window_us - wall_us % self.window_us, self.window_us),
        }
    }
}
