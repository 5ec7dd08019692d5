//! Calendar windows: local hours, days, weeks, months and years.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp};

use super::RuleError;

/// Calendar unit in a time zone.
///
/// With daylight saving time a local day takes 23 to 25 hours, in a few places 22 to 26. Clones share a cache of the
/// current window, so the time zone is evaluated once per window, not per request.
#[derive(Clone)]
pub struct Calendar(Arc<Inner>);

struct Inner {
    unit: CalendarUnit,
    zone_name: Box<str>,
    zone: TimeZone,
    id: NonZeroU32,
    /// Windows around the latest time passed to [`Calendar::around`].
    around: ArcSwap<Starts>,
}

/// Starts of four consecutive windows, in microseconds since 1970. The requested time is in the second one.
pub(crate) type Starts = [u64; 4];

/// Length of a calendar window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalendarUnit {
    /// From one full hour of the local clock to the next.
    Hour,
    /// From midnight, or from the first moment of the day where clocks skip midnight.
    Day,
    /// From the first moment of Monday (ISO 8601).
    Week,
    /// From the first moment of the first day of the month.
    Month,
    /// From the first moment of January 1.
    Year,
}

/// Longest local day with a clock change: most zones set clocks back by an hour, Antarctica/Troll by two.
const LONGEST_DAY_SECS: u64 = 26 * 3_600;

// === impl CalendarUnit ===

impl CalendarUnit {
    /// Returns the longest duration of the unit, with clocks set back by up to two hours within it.
    #[must_use]
    pub fn max_duration(self) -> Duration {
        let days = match self {
            Self::Hour => return Duration::from_secs(2 * 3_600),
            Self::Day => 0,
            Self::Week => 6,
            Self::Month => 30,
            Self::Year => 365,
        };
        Duration::from_secs(days * 86_400 + LONGEST_DAY_SECS)
    }

    /// Returns the duration without clock changes: 31 days for a month, 365 days for a year.
    #[must_use]
    pub fn nominal_duration(self) -> Duration {
        let days = match self {
            Self::Hour => return Duration::from_secs(3_600),
            Self::Day => 1,
            Self::Week => 7,
            Self::Month => 31,
            Self::Year => 365,
        };
        Duration::from_secs(days * 86_400)
    }

    /// Returns the first day of the unit that contains `date`, `later` units on.
    fn first_day(self, date: Date, later: i64) -> Option<Date> {
        match self {
            Self::Hour | Self::Day => date.checked_add(Span::new().try_days(later).ok()?),
            Self::Week => {
                let back = i64::from(date.weekday().to_monday_zero_offset());
                date.checked_add(Span::new().try_days(7 * later - back).ok()?)
            }
            Self::Month => date.first_of_month().checked_add(Span::new().try_months(later).ok()?),
            Self::Year => date.first_of_year().checked_add(Span::new().try_years(later).ok()?),
        }
        .ok()
    }
}

// === impl Calendar ===

impl Calendar {
    /// Creates a calendar in a time zone of the built-in IANA database, such as `Europe/Berlin` or `UTC`.
    ///
    /// # Errors
    /// Fails if the database has no such time zone.
    pub fn new(unit: CalendarUnit, time_zone: &str) -> Result<Self, RuleError> {
        let zone = TimeZone::get(time_zone).map_err(|_| RuleError::UnknownTimeZone(time_zone.to_owned()))?;
        let around = ArcSwap::from_pointee([0; 4]);
        Ok(Self(Arc::new(Inner { unit, zone_name: time_zone.into(), zone, id: id(unit, time_zone), around })))
    }

    /// Returns the unit.
    #[must_use]
    pub fn unit(&self) -> CalendarUnit {
        self.0.unit
    }

    /// Returns the name of the time zone as passed to [`new`](Self::new).
    #[must_use]
    pub fn time_zone(&self) -> &str {
        &self.0.zone_name
    }

    /// Returns the number that identifies the calendar in stored states: from 100,000 to 599,999.
    #[must_use]
    pub fn id(&self) -> NonZeroU32 {
        self.0.id
    }

    /// Returns the starts of the windows around `wall_us`: the previous, the current and the next two.
    #[inline]
    pub(crate) fn around(&self, wall_us: u64) -> Starts {
        let latest = **self.0.around.load();
        if (latest[1]..latest[2]).contains(&wall_us) { latest } else { self.compute(wall_us) }
    }

    #[cold]
    fn compute(&self, wall_us: u64) -> Starts {
        let mut starts = self.candidates(wall_us).unwrap_or_default();
        starts.sort_unstable();
        starts.dedup();
        let current = starts.partition_point(|start| *start <= wall_us).saturating_sub(1);
        match starts.get(current.saturating_sub(1)..current + 3) {
            Some(&[before, this, next, last]) if this <= wall_us => {
                self.0.around.store(Arc::new([before, this, next, last]));
                [before, this, next, last]
            }
            // Outside the supported years (1970 to 9999): windows of the longest duration of the unit.
            _ => {
                let longest_us = self.0.unit.max_duration().as_micros() as u64;
                [0, 1, 2, 3].map(|n| (wall_us / longest_us + n).saturating_sub(1).saturating_mul(longest_us))
            }
        }
    }

    /// Returns starts of several units before and after `wall_us`, unordered where clocks change.
    fn candidates(&self, wall_us: u64) -> Option<Vec<u64>> {
        let Inner { unit, zone, .. } = &*self.0;
        let now = Timestamp::from_microsecond(i64::try_from(wall_us).ok()?).ok()?;
        let start = |later: i64| {
            let start = match unit {
                CalendarUnit::Hour => {
                    let at = now.checked_add(SignedDuration::from_mins(15 * later)).ok()?;
                    let local = at.as_second() + i64::from(zone.to_offset(at).seconds());
                    Timestamp::from_second(at.as_second() - local.rem_euclid(3_600)).ok()?
                }
                _ => {
                    let date = unit.first_day(zone.to_datetime(now).date(), later)?;
                    date.to_zoned(zone.clone()).ok()?.start_of_day().ok()?.timestamp()
                }
            };
            u64::try_from(start.as_microsecond()).ok()
        };
        Some(if *unit == CalendarUnit::Hour {
            (-12..=16).filter_map(start).collect()
        } else {
            (-3..=4).filter_map(start).collect()
        })
    }
}

/// Returns the number of a calendar: 100,000 for each unit, and a hash of the zone's name (FNV-1a). Redis keeps it, so it
/// must not change.
fn id(unit: CalendarUnit, time_zone: &str) -> NonZeroU32 {
    let hash = time_zone.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    NonZeroU32::new((unit as u32 + 1) * 100_000 + hash % 100_000).unwrap_or(NonZeroU32::MIN)
}

impl PartialEq for Calendar {
    fn eq(&self, other: &Self) -> bool {
        (self.unit(), self.time_zone()) == (other.unit(), other.time_zone())
    }
}

impl Eq for Calendar {}

impl Hash for Calendar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.unit(), self.time_zone()).hash(state);
    }
}

impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Calendar").field(&self.unit()).field(&self.time_zone()).finish()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use proptest::prelude::*;

    use super::*;
    use CalendarUnit::{Day, Hour, Month, Week, Year};

    fn us(text: &str) -> u64 {
        text.parse::<Timestamp>().unwrap().as_microsecond() as u64
    }

    /// Returns the starts around a time as text.
    fn around(unit: CalendarUnit, zone: &str, at: &str) -> [String; 4] {
        let starts = Calendar::new(unit, zone).unwrap().around(us(at));
        starts.map(|start| Timestamp::from_microsecond(start as i64).unwrap().to_string())
    }

    fn hours(unit: CalendarUnit, zone: &str, at: &str) -> u64 {
        let [_, start, next, _] = Calendar::new(unit, zone).unwrap().around(us(at));
        (next - start) / 3_600_000_000
    }

    #[test]
    fn units_begin_at_local_boundaries() {
        let at = "2026-11-21T13:07:00Z";
        let of = |unit, zone| around(unit, zone, at)[1].clone();
        assert_eq!(of(Day, "UTC"), "2026-11-21T00:00:00Z");
        assert_eq!(of(Day, "Pacific/Auckland"), "2026-11-21T11:00:00Z");
        assert_eq!(of(Week, "Europe/Berlin"), "2026-11-15T23:00:00Z", "Monday the 16th");
        assert_eq!(of(Month, "Asia/Kolkata"), "2026-10-31T18:30:00Z");
        assert_eq!(of(Hour, "Asia/Kolkata"), "2026-11-21T12:30:00Z");
        assert_eq!(of(Year, "America/New_York"), "2026-01-01T05:00:00Z");
        assert_eq!(
            around(Month, "UTC", "2026-01-31T23:59:59.999999Z"),
            ["2025-12-01", "2026-01-01", "2026-02-01", "2026-03-01"].map(|date| format!("{date}T00:00:00Z"))
        );
    }

    #[test]
    fn local_days_have_22_to_26_hours_where_clocks_change() {
        assert_eq!(hours(Day, "Europe/Berlin", "2026-03-29T12:00:00Z"), 23);
        assert_eq!(hours(Day, "Europe/Berlin", "2026-10-25T12:00:00Z"), 25);
        assert_eq!(hours(Day, "Europe/Berlin", "2026-10-26T12:00:00Z"), 24);
        assert_eq!(hours(Week, "Europe/Berlin", "2026-10-25T12:00:00Z"), 7 * 24 + 1);
        assert_eq!(hours(Month, "Europe/Berlin", "2026-03-31T21:59:59Z"), 31 * 24 - 1);
        assert_eq!(hours(Day, "America/Sao_Paulo", "2018-11-04T12:00:00Z"), 23, "midnight was skipped");
        assert_eq!(hours(Day, "Pacific/Apia", "2011-12-30T09:59:00Z"), 24, "the day after was skipped");
        assert_eq!(hours(Day, "Antarctica/Troll", "2026-10-25T00:30:00Z"), 26);
        assert_eq!(hours(Year, "UTC", "2028-06-01T00:00:00Z"), 366 * 24);
    }

    #[test]
    fn an_unknown_time_zone_is_an_error() {
        let error = Calendar::new(Day, "Europe/Berlim").unwrap_err();
        assert!(error.to_string().contains("`Europe/Berlim`"), "{error}");
    }

    #[test]
    fn calendars_are_equal_if_unit_and_zone_are_equal() {
        let new = |unit| Calendar::new(unit, "UTC").unwrap();
        new(Day).around(us("2026-01-01T00:00:00Z"));
        assert_eq!(new(Day), new(Day));
        assert_ne!(new(Day), new(Week));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn neighbouring_times_agree_on_window_boundaries(
            at_us in 200_000_000_000_000u64..4_000_000_000_000_000,
            unit in prop::sample::select(vec![Hour, Day, Week, Month, Year]),
            zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns",
                "America/Havana", "Pacific/Apia", "Asia/Kathmandu", "Africa/Casablanca", "Antarctica/Troll"]),
        ) {
            let calendar = Calendar::new(unit, zone).unwrap();
            let [before, this, next, last] = calendar.around(at_us);
            prop_assert!(before < this && this <= at_us && at_us < next && next < last);
            let longest_us = unit.max_duration().as_micros() as u64;
            prop_assert!(unit == Day && zone == "Pacific/Apia" || next - this <= longest_us);
            prop_assert_eq!(&calendar.around(this)[1..], &[this, next, last]);
            prop_assert_eq!(calendar.around(next - 1), [before, this, next, last]);
            prop_assert_eq!(&calendar.around(next)[..3], &[this, next, last]);
            prop_assert_eq!(&calendar.around(this - 1)[1..], &[before, this, next]);
        }
    }
}
