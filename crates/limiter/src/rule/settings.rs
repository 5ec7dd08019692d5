//! Properties that every rule has, whatever its algorithm.

use std::time::Duration;

use super::{Calendar, RuleError};

/// Settings of an algorithm, for all but its decisions. Each rule implements it in its own file.
pub(crate) trait RuleSettings: Sized {
    /// Returns the limit in the terms that all algorithms share.
    fn shape(&self) -> RuleShape<'_>;

    /// Returns the largest cost that can ever be admitted: a burst or a limit.
    fn largest_cost(&self) -> u64;

    /// Returns true if decisions may depend on the time of day: of this rule, or of others on the same key.
    #[inline]
    fn reads_wall_clock(&self) -> bool {
        false
    }

    /// Returns the number `name`, if it can change.
    fn number(&self, name: &str) -> Option<Number>;

    /// Returns the settings with other numbers.
    fn changed(&self, changes: Changes<'_>) -> Result<Self, RuleError>;

    /// Returns the arguments of the script before the time and the cost.
    #[cfg(feature = "redis")]
    fn first_script_args(&self) -> [ScriptArg; 2];

    /// Adds the arguments of the script after the time and the cost. Calendar windows are those around `near_us`, in
    /// microseconds since 1970.
    #[cfg(feature = "redis")]
    fn add_script_args(&self, near_us: u64, add: impl FnMut(ScriptArg)) {
        let _ = (near_us, add);
    }
}

/// Number of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Tokens, requests or turns.
    Count(u64),
    /// Time.
    Time(Duration),
}

/// Numbers that replace those of a rule. Absent ones stay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changes<'n>(pub(super) &'n [(&'static str, Number)]);

impl Changes<'_> {
    /// Returns the new count `name`, or `present` if it stays.
    pub(crate) fn count(self, name: &str, present: u64) -> u64 {
        match self.find(name) {
            Some(Number::Count(count)) => count,
            Some(Number::Time(_)) | None => present,
        }
    }

    /// Returns the new time `name`, or `present` if it stays.
    pub(crate) fn time(self, name: &str, present: Duration) -> Duration {
        match self.find(name) {
            Some(Number::Time(time)) => time,
            Some(Number::Count(_)) | None => present,
        }
    }

    fn find(self, name: &str) -> Option<Number> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
    }
}

/// Argument of a script.
#[cfg(feature = "redis")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptArg {
    Number(u64),
    Word(&'static str),
}

/// A limit in the terms that all algorithms share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleShape<'r> {
    /// `rate` tokens per `period`, and `burst` at once.
    Bucket {
        /// Tokens per period.
        rate: u64,
        /// Period.
        period: Duration,
        /// Tokens at once.
        burst: u64,
    },
    /// `rate` requests per `period` at even intervals, of which `capacity` can wait or run.
    Pace {
        /// Requests per period.
        rate: u64,
        /// Period.
        period: Duration,
        /// Requests that can be admitted at one time.
        capacity: u64,
    },
    /// `limit` tokens per window of one length.
    Window {
        /// Tokens per window.
        limit: u64,
        /// Length of the window.
        window: Duration,
    },
    /// `limit` tokens per unit of the calendar.
    Calendar {
        /// Tokens per unit.
        limit: u64,
        /// Unit and time zone.
        calendar: &'r Calendar,
    },
    /// `limit` tokens in all.
    Total {
        /// Tokens.
        limit: u64,
    },
}
