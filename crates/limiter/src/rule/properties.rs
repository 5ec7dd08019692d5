//! Properties that every rule has, whatever its algorithm, and the numbers of it that can change while its keys keep their
//! state.
//!
//! [`AlgorithmSpec::numbers`](crate::algorithm::AlgorithmSpec::numbers) lists the numbers for each algorithm. Windows and
//! calendars are not among them: another window would begin without the tokens that were spent in the present one.

use std::time::Duration;

use super::{Calendar, RuleError};

/// Settings of an algorithm, for all but its decisions. Each rule implements it in its own file.
pub(crate) trait RuleSettings: Sized {
    /// Returns the limit in the terms that all algorithms share.
    fn shape(&self) -> RuleShape<'_>;

    /// Returns the largest cost that can ever be admitted: a burst or a limit.
    fn largest_cost(&self) -> u64;

    /// Returns the settings with other numbers. Reads each number that can change once, in the order of the algorithm's
    /// table.
    fn changed(&self, changes: &mut Changes<'_>) -> Result<Self, RuleError>;

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
#[derive(Debug)]
pub(crate) struct Changes<'n> {
    pub(super) new: &'n [(&'static str, Number)],
    /// Numbers of the rule that were read.
    pub(super) present: Vec<(&'static str, Number)>,
}

impl Changes<'_> {
    /// Returns the new count `name`, or `present` if it stays.
    pub(crate) fn count(&mut self, name: &'static str, present: u64) -> u64 {
        match self.read(name, Number::Count(present)) {
            Some(Number::Count(count)) => count,
            Some(Number::Time(_)) | None => present,
        }
    }

    /// Returns the new time `name`, or `present` if it stays.
    pub(crate) fn time(&mut self, name: &'static str, present: Duration) -> Duration {
        match self.read(name, Number::Time(present)) {
            Some(Number::Time(time)) => time,
            Some(Number::Count(_)) | None => present,
        }
    }

    fn read(&mut self, name: &'static str, present: Number) -> Option<Number> {
        self.present.push((name, present));
        self.new.iter().find(|(new, _)| *new == name).map(|(_, number)| *number)
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

/// Number of an algorithm that can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberSpec {
    /// Name in the configuration.
    pub name: &'static str,
    /// Unit.
    pub kind: NumberKind,
}

/// Unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// Tokens, requests or turns.
    Count,
    /// Tokens or turns per `period`.
    Rate,
    /// Time.
    Time,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::samples;
    use super::*;

    #[test]
    fn each_number_of_the_table_can_change_alone() {
        for rule in samples() {
            let numbers = rule.numbers();
            let specs = rule.algorithm().spec().numbers;
            assert!(numbers.iter().map(|(name, _)| *name).eq(specs.iter().map(|spec| spec.name)), "{rule:?}");
            assert!(!numbers.is_empty() && rule.with_numbers(&numbers).unwrap() == rule, "{rule:?}");
            for (at, (name, number)) in numbers.iter().enumerate() {
                let spec = NumberSpec::find(name).unwrap();
                let other = match number {
                    Number::Count(count) => Number::Count(count + 1),
                    Number::Time(time) => Number::Time(*time * 2),
                };
                assert_eq!(matches!(other, Number::Time(_)), spec.kind == NumberKind::Time, "{name}");
                let mut expected = numbers.clone();
                expected[at].1 = other;
                let changed = rule.with_numbers(&[(*name, other)]).unwrap();
                assert_eq!(changed.numbers(), expected);
                assert_eq!(changed.with_numbers(&[(*name, *number)]).unwrap(), rule, "nothing else has changed");
                assert_eq!(rule.with_numbers(&[("none", other)]).unwrap(), rule);
            }
        }
    }

    #[test]
    fn a_name_has_one_unit() {
        for number in NumberSpec::all() {
            assert!(NumberSpec::all().all(|other| other.name != number.name || other.kind == number.kind));
        }
        assert_eq!(NumberSpec::find("colour"), None);
    }
}
