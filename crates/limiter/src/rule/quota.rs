//! The rule of a prepaid quota.

#[cfg(feature = "redis")]
use super::settings::ScriptArg;
use super::settings::{Changes, Number, RuleSettings, RuleShape};
use super::{Calendar, MAX_SAFE_INTEGER, RuleError};

/// A prepaid total of `allowance` tokens.
///
/// Requests consume it, never below zero, and nothing refills it. It lasts forever or for one calendar period. The
/// stores have operations to read it, set it and grant to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    allowance: u64,
    reset: Option<Calendar>,
}

impl Quota {
    /// Creates a quota without a period.
    ///
    /// # Errors
    /// Fails if `allowance` exceeds [`MAX_SAFE_INTEGER`].
    pub fn new(allowance: u64) -> Result<Self, RuleError> {
        if allowance > MAX_SAFE_INTEGER {
            return Err(RuleError::TooLarge { field: "allowance", max: MAX_SAFE_INTEGER });
        }
        Ok(Self { allowance, reset: None })
    }

    /// Creates a quota that starts anew in each unit of the calendar. Usage and grants of the previous period expire.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn resetting(allowance: u64, reset: Calendar) -> Result<Self, RuleError> {
        Ok(Self { reset: Some(reset), ..Self::new(allowance)? })
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

    #[inline]
    fn reads_wall_clock(&self) -> bool {
        self.reset.is_some()
    }

    fn number(&self, name: &str) -> Option<Number> {
        (name == "allowance").then_some(Number::Count(self.allowance))
    }

    fn changed(&self, changes: Changes<'_>) -> Result<Self, RuleError> {
        Ok(Self { reset: self.reset.clone(), ..Self::new(changes.count("allowance", self.allowance))? })
    }

    #[cfg(feature = "redis")]
    fn first_script_args(&self) -> [ScriptArg; 2] {
        [ScriptArg::Number(self.allowance), ScriptArg::Word("take")]
    }

    #[cfg(feature = "redis")]
    fn add_script_args(&self, near_us: u64, add: impl FnMut(ScriptArg)) {
        let periods = self.periods_around(near_us);
        periods.map_or([ScriptArg::Word(""); 4], |starts| starts.map(ScriptArg::Number)).into_iter().for_each(add);
    }
}
