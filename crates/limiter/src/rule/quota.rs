//! The rule of a prepaid quota.

use std::num::NonZeroU32;

#[cfg(feature = "redis")]
use super::properties::ScriptArg;
use super::properties::{Changes, RuleSettings, RuleShape};
use super::{Calendar, MAX_SAFE_INTEGER, RuleError, at_most};

/// A prepaid total of `allowance` tokens.
///
/// Requests consume it, never below zero, and nothing refills it. It lasts forever or for one calendar period. The
/// stores have operations to read it, set it and grant to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    allowance: u64,
    reset: Option<Calendar>,
    calendar_id: NonZeroU32,
}

impl Quota {
    /// Most calendars whose periods count side by side on one key. A further one replaces the period that ends first.
    pub const MAX_CALENDARS: usize = 4;

    /// Creates a quota without a period.
    ///
    /// # Errors
    /// Fails if `allowance` exceeds [`MAX_SAFE_INTEGER`].
    pub fn new(allowance: u64) -> Result<Self, RuleError> {
        let allowance = at_most("allowance", allowance, MAX_SAFE_INTEGER)?;
        Ok(Self { allowance, reset: None, calendar_id: NonZeroU32::MIN })
    }

    /// Creates a quota that starts anew in each unit of the calendar. Usage and grants of the previous period expire.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn resetting(allowance: u64, reset: Calendar) -> Result<Self, RuleError> {
        Ok(Self { calendar_id: reset.id(), reset: Some(reset), ..Self::new(allowance)? })
    }

    /// Returns the tokens of a new quota.
    #[must_use]
    pub fn allowance(&self) -> u64 {
        self.allowance
    }

    /// Returns the calendar of the periods, if any.
    #[must_use]
    pub fn reset(&self) -> Option<&Calendar> {
        self.reset.as_ref()
    }

    /// Returns the starts of the periods around `wall_us`: the previous, the current and the next two.
    ///
    /// All times are microseconds since 1970. `None` if the quota has no period.
    #[must_use]
    pub fn periods_around(&self, wall_us: u64) -> Option<[u64; 4]> {
        self.reset.as_ref().map(|calendar| calendar.around(wall_us))
    }

    /// Returns the number that identifies the calendar of the periods in stored states: 1 without a period, otherwise from
    /// 100,000 to 599,999.
    #[must_use]
    pub fn calendar_id(&self) -> NonZeroU32 {
        self.calendar_id
    }
}

impl RuleSettings for Quota {
    fn shape(&self) -> RuleShape<'_> {
        match &self.reset {
            Some(calendar) => RuleShape::Calendar { limit: self.allowance, calendar },
            None => RuleShape::Total { limit: self.allowance },
        }
    }

    #[inline]
    fn largest_cost(&self) -> u64 {
        self.allowance
    }

    fn changed(&self, changes: &mut Changes<'_>) -> Result<Self, RuleError> {
        let Self { allowance, .. } = Self::new(changes.count("allowance", self.allowance))?;
        Ok(Self { allowance, ..self.clone() })
    }

    #[cfg(feature = "redis")]
    fn first_script_args(&self) -> [ScriptArg; 2] {
        [ScriptArg::Number(self.allowance), ScriptArg::Word("take")]
    }

    #[cfg(feature = "redis")]
    fn add_script_args(&self, near_us: u64, add: impl FnMut(ScriptArg)) {
        let periods = self.periods_around(near_us).map(|[first, second, third, fourth]| {
            [first, second, third, fourth, self.calendar_id.get().into()].map(ScriptArg::Number)
        });
        periods.unwrap_or([ScriptArg::Word(""); 5]).into_iter().for_each(add);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::HashSet;

    use super::*;
    use crate::rule::CalendarUnit;

    fn id(unit: CalendarUnit, zone: &str) -> u32 {
        Calendar::new(unit, zone).unwrap().id().get()
    }

    #[test]
    fn ids_of_calendars_stay_the_same() {
        let ids = [(CalendarUnit::Hour, "UTC"), (CalendarUnit::Day, "Europe/Berlin"), (CalendarUnit::Year, "UTC")];
        assert_eq!(ids.map(|(unit, zone)| id(unit, zone)), [156_573, 201_652, 556_573]);
    }

    #[test]
    fn zones_have_ids_of_their_own() {
        let zones: Vec<String> = jiff::tz::db().available().map(|zone| zone.to_string()).collect();
        let ids: HashSet<u32> = zones.iter().map(|zone| id(CalendarUnit::Week, zone)).collect();
        assert!(zones.len() > 400 && ids.len() + 5 > zones.len(), "{} of {}", ids.len(), zones.len());
        assert!(ids.iter().all(|id| (300_000..400_000).contains(id)));
    }
}
