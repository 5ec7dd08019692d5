//! The rule of a fixed window.

use std::time::Duration;

use super::calendar::Calendar;
#[cfg(feature = "redis")]
use super::properties::ScriptArg;
use super::properties::{Changes, RuleSettings, RuleShape};
use super::{MAX_SAFE_INTEGER, RuleError, at_most, micros};

/// At most `limit` tokens per window.
///
/// Across the boundary of two windows, up to twice the limit can be admitted within one window length.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FixedWindow {
    limit: u64,
    window_us: u64,
    align: Align,
    calendar: Option<Calendar>,
}

/// Alignment of windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Align {
    /// A window opens with the first request of a key.
    #[default]
    First,
    /// Windows begin at multiples of their length since 1970-01-01T00:00Z: one of an hour begins on the hour.
    Clock,
}

impl FixedWindow {
    /// Creates a rule of at most `limit` per `window`. A limit of 0 denies every request.
    ///
    /// # Errors
    /// Fails if `window` is below 1 µs, or if a number exceeds [`MAX_SAFE_INTEGER`].
    pub fn new(limit: u64, window: Duration, align: Align) -> Result<Self, RuleError> {
        let limit = at_most("limit", limit, MAX_SAFE_INTEGER)?;
        Ok(Self { limit, window_us: micros("window", window)?, align, calendar: None })
    }

    /// Creates a rule of at most `limit` per calendar unit, such as a local day or a month.
    ///
    /// # Errors
    /// Fails if `limit` exceeds [`MAX_SAFE_INTEGER`].
    pub fn on_calendar(limit: u64, calendar: Calendar) -> Result<Self, RuleError> {
        let window = Self::new(limit, calendar.unit().max_duration(), Align::Clock)?;
        Ok(Self { calendar: Some(calendar), ..window })
    }

    /// Returns the tokens admitted per window.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the length of a window; for a calendar, of the longest.
    #[must_use]
    pub fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }

    /// Returns the alignment of windows.
    #[must_use]
    pub fn align(&self) -> Align {
        self.align
    }

    /// Returns the calendar that windows follow, if any.
    #[must_use]
    pub fn calendar(&self) -> Option<&Calendar> {
        self.calendar.as_ref()
    }

    /// Returns the starts of the calendar windows around `wall_us`: the previous, the current and the next two.
    ///
    /// All times are microseconds since 1970. `None` if the rule has no calendar.
    #[must_use]
    pub fn windows_around(&self, wall_us: u64) -> Option<[u64; 4]> {
        self.calendar.as_ref().map(|calendar| calendar.around(wall_us))
    }

    #[inline]
    pub(crate) fn window_us(&self) -> u64 {
        self.window_us
    }
}

impl RuleSettings for FixedWindow {
    fn shape(&self) -> RuleShape<'_> {
        match &self.calendar {
            Some(calendar) => RuleShape::Calendar { limit: self.limit, calendar },
            None => RuleShape::Window { limit: self.limit, window: self.window() },
        }
    }

    #[inline]
    fn largest_cost(&self) -> u64 {
        self.limit
    }

    fn changed(&self, changes: &mut Changes<'_>) -> Result<Self, RuleError> {
        let limit = changes.count("limit", self.limit);
        match &self.calendar {
            Some(calendar) => Self::on_calendar(limit, calendar.clone()),
            None => Self::new(limit, self.window(), self.align),
        }
    }

    #[cfg(feature = "redis")]
    fn first_script_args(&self) -> [ScriptArg; 2] {
        [ScriptArg::Number(self.limit), ScriptArg::Number(self.window_us)]
    }

    #[cfg(feature = "redis")]
    fn add_script_args(&self, near_us: u64, mut add: impl FnMut(ScriptArg)) {
        match &self.calendar {
            Some(calendar) => {
                add(ScriptArg::Word("calendar"));
                calendar
                    .around(near_us)
                    .into_iter()
                    .chain([calendar.id().get().into()])
                    .map(ScriptArg::Number)
                    .for_each(add);
            }
            None => add(ScriptArg::Word(match self.align {
                Align::First => "first",
                Align::Clock => "clock",
            })),
        }
    }
}
