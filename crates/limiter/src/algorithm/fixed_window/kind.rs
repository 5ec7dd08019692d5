//! Kinds of fixed windows: windows of one kind follow each other.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::algorithm::{Moment, STEP_BACK_US};
use crate::rule::{Align, FixedWindow, MAX_SAFE_INTEGER};

/// Length of a window and where it begins, in 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct WindowKind(NonZeroU64);

/// Window that contains one time, on the clock of its kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowTimes {
    pub(super) began_at_us: u64,
    pub(super) ends_at_us: u64,
    /// Latest end of a window that counts instead, because the clock was set back after it had begun. A window with a later
    /// end was written under a clock that was wrong.
    pub(super) latest_end_us: u64,
}

const CLOCK: u64 = 1 << 62;
const CALENDAR: u64 = 1 << 63;
const CALENDAR_ID_BITS: u32 = 20;
const HOUR_US: u64 = 3_600_000_000;

/// Tag of a window that begins at a multiple of its length.
const CLOCK_TAG: u32 = 1;

impl WindowKind {
    /// Kind of the shortest windows.
    pub(super) const MIN: Self = Self(NonZeroU64::MIN);

    /// Returns the kind of a rule's windows. Those of a calendar take whole hours at most.
    #[inline]
    pub(super) fn of(rule: &FixedWindow) -> Self {
        match (rule.calendar(), rule.align()) {
            (Some(calendar), _) => Self::of_calendar(rule.window_us(), calendar.id().get()),
            (None, Align::First) => Self::of_bits(rule.window_us()),
            (None, Align::Clock) => Self::of_bits(CLOCK | rule.window_us()),
        }
    }

    fn of_calendar(longest_us: u64, id: u32) -> Self {
        Self::of_bits(CALENDAR | (longest_us / HOUR_US) << CALENDAR_ID_BITS | u64::from(id))
    }

    fn of_bits(bits: u64) -> Self {
        Self(NonZeroU64::new(bits).unwrap_or(NonZeroU64::MIN))
    }

    /// Returns the kind with a length and a tag; `None` if there is none.
    #[cfg(feature = "redis")]
    pub(super) fn from_parts(length_us: u64, tag: u32) -> Option<Self> {
        (1..=MAX_SAFE_INTEGER).contains(&length_us).then_some(match tag {
            0 => Self::of_bits(length_us),
            CLOCK_TAG => Self::of_bits(CLOCK | length_us),
            id => Self::of_calendar(length_us, id & ((1 << CALENDAR_ID_BITS) - 1)),
        })
    }

    /// Returns the length of a window in microseconds; for a calendar, of the longest.
    #[inline]
    pub(super) fn length_us(self) -> u64 {
        let bits = self.0.get();
        if bits & CALENDAR == 0 { bits & MAX_SAFE_INTEGER } else { ((bits & !CALENDAR) >> CALENDAR_ID_BITS) * HOUR_US }
    }

    /// Returns the number that stands behind the length in Redis: 0 for windows that open with a request, 1 for those on
    /// the clock, or the id of the calendar.
    pub(super) fn tag(self) -> u32 {
        match self.0.get() {
            bits if bits & CALENDAR != 0 => bits as u32 & ((1 << CALENDAR_ID_BITS) - 1),
            bits if bits & CLOCK != 0 => CLOCK_TAG,
            _ => 0,
        }
    }

    #[inline]
    pub(super) fn is_calendar(self) -> bool {
        self.0.get() & CALENDAR != 0
    }

    /// Returns true if windows end at a time of day.
    #[inline]
    pub(super) fn is_on_wall_clock(self) -> bool {
        self.0.get() & (CALENDAR | CLOCK) != 0
    }

    /// Returns the time on the clock that ends windows of this kind.
    #[inline]
    pub(super) fn time_us(self, now: Moment) -> u64 {
        if self.is_on_wall_clock() { now.wall_us } else { now.now_us }
    }

    /// Returns the window that contains `now`, of a kind without a calendar.
    #[inline]
    pub(super) fn times_at(self, now: Moment) -> WindowTimes {
        let (time_us, length_us) = (self.time_us(now), self.length_us());
        let (began_at_us, tolerance_us) = match self.is_on_wall_clock() {
            true => (time_us - time_us % length_us, length_us.max(STEP_BACK_US)),
            false => (time_us, 0),
        };
        let ends_at_us = began_at_us.saturating_add(length_us);
        WindowTimes { began_at_us, ends_at_us, latest_end_us: ends_at_us.saturating_add(tolerance_us) }
    }

    /// Returns the time after the end of a window for which its state is kept, since the clock may be set back.
    #[inline]
    pub(super) fn kept_us(self) -> u64 {
        if self.is_on_wall_clock() { self.length_us().min(STEP_BACK_US) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::*;
    use crate::rule::{Calendar, CalendarUnit};

    #[test]
    fn kinds_keep_their_length_and_tag() {
        for unit in [CalendarUnit::Hour, CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month, CalendarUnit::Year]
        {
            let calendar = Calendar::new(unit, "Europe/Berlin").unwrap();
            let kind = WindowKind::of(&FixedWindow::on_calendar(1, calendar.clone()).unwrap());
            assert_eq!(u128::from(kind.length_us()), unit.max_duration().as_micros());
            assert_eq!((kind.tag(), kind.is_calendar()), (calendar.id().get(), true));
        }
        for length_us in [1, 7_200_000_000, MAX_SAFE_INTEGER] {
            for (align, tag) in [(Align::First, 0), (Align::Clock, 1)] {
                let kind = WindowKind::of(&FixedWindow::new(1, Duration::from_micros(length_us), align).unwrap());
                assert_eq!((kind.length_us(), kind.tag()), (length_us, tag));
                assert_eq!((kind.is_calendar(), kind.is_on_wall_clock()), (false, tag == 1));
            }
        }
    }
}
