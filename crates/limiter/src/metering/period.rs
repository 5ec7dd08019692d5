//! Calendar periods in UTC.

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::tz::Offset;

/// Period over which requests are summed. Each period has its own counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Period {
    /// From full hour to full hour.
    Hour,
    /// From midnight to midnight, UTC.
    #[default]
    Day,
    /// From the first of the month, UTC.
    Month,
}

const DAY_SECS: u64 = 86_400;

impl Period {
    /// Returns the longest duration of the period. Counts must be kept for longer.
    #[must_use]
    pub fn max_duration(self) -> Duration {
        Duration::from_secs(match self {
            Self::Hour => 3_600,
            Self::Day => DAY_SECS,
            Self::Month => 31 * DAY_SECS,
        })
    }

    /// Appends the start of the period that contains `unix_secs`: `2026-11`, `2026-11-21` or `2026-11-21T13`.
    pub(super) fn write(self, unix_secs: u64, out: &mut Vec<u8>) {
        let second = i64::try_from(unix_secs).unwrap_or(i64::MAX);
        let time = Offset::UTC.to_datetime(Timestamp::from_second(second).unwrap_or(Timestamp::MAX));
        // Writing to a vector cannot fail.
        let _ = write!(out, "{:04}-{:02}", time.year(), time.month());
        if self != Self::Month {
            let _ = write!(out, "-{:02}", time.day());
        }
        if self == Self::Hour {
            let _ = write!(out, "T{:02}", time.hour());
        }
    }
}

/// Returns the current time in seconds since 1970.
pub(super) fn unix_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn text(period: Period, unix_secs: u64) -> String {
        let mut out = Vec::new();
        period.write(unix_secs, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_period_is_named_by_its_start() {
        // date -u -d '2026-11-21T13:59:59' +%s
        let at = 1_795_269_599;
        assert_eq!(text(Period::Hour, at), "2026-11-21T13");
        assert_eq!(text(Period::Hour, at + 1), "2026-11-21T14");
        assert_eq!((text(Period::Day, at), text(Period::Month, at)), ("2026-11-21".into(), "2026-11".into()));
    }

    #[test]
    fn days_follow_the_calendar_including_leap_years() {
        for (at, day) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (1_709_251_199, "2024-02-29"),
            (1_709_251_200, "2024-03-01"),
            (1_798_761_599, "2026-12-31"),
            (1_798_761_600, "2027-01-01"),
            (4_107_542_399, "2100-02-28"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(text(Period::Day, at), day);
        }
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before() {
        let civil = |days: u64| {
            let text = text(Period::Day, days * DAY_SECS);
            let numbers: Vec<u64> = text.split('-').map(|number| number.parse().unwrap()).collect();
            (numbers[0], numbers[1], numbers[2])
        };
        let mut before = civil(0);
        for days in 1..146_097 {
            let day = civil(days);
            let next = (before.0, before.1, before.2 + 1);
            let first = if before.1 == 12 { (before.0 + 1, 1, 1) } else { (before.0, before.1 + 1, 1) };
            assert!(day == next || (day == first && before.2 >= 28), "{before:?} {day:?}");
            before = day;
        }
        assert_eq!(before, (2369, 12, 31));
    }
}
