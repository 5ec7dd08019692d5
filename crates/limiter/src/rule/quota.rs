//! The rule of prepaid stocks.

use super::{Calendar, MOST, RuleError};

/// A stock of `allowance` that requests take from, never below zero, and that nothing refills: it is there for ever, or
/// until a calendar says that a new one begins. It can be read, set and granted to (see the stores).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    allowance: u64,
    reset: Option<Calendar>,
}

impl Quota {
    /// A stock for ever.
    ///
    /// # Errors
    /// Numbers beyond counting.
    pub fn new(allowance: u64) -> Result<Self, RuleError> {
        if allowance > MOST {
            return Err(RuleError::TooMuch { field: "allowance", most: MOST });
        }
        Ok(Self { allowance, reset: None })
    }

    /// A stock that is new in each unit of the calendar: what was taken is forgotten then, and so is what was granted.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn resetting(allowance: u64, reset: Calendar) -> Result<Self, RuleError> {
        Ok(Self { reset: Some(reset), ..Self::new(allowance)? })
    }

    /// What a new stock holds.
    #[must_use]
    pub fn allowance(&self) -> u64 {
        self.allowance
    }

    /// When a new one begins.
    #[must_use]
    pub fn reset(&self) -> Option<&Calendar> {
        self.reset.as_ref()
    }

    /// When the periods around `wall_us`, the time since 1970, begin: the one before it, the one that it is in, and the
    /// two behind. `None` unless there are any.
    #[must_use]
    pub fn periods_around(&self, wall_us: u64) -> Option<[u64; 4]> {
        self.reset.as_ref().map(|calendar| calendar.around(wall_us))
    }
}
