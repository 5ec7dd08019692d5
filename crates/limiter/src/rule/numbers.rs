//! Numbers of a rule that can change while its keys keep their state.
//!
//! [`AlgorithmSpec::numbers`](crate::algorithm::AlgorithmSpec::numbers) lists them for each algorithm. Windows and calendars
//! are not among them: another window would begin without the tokens that were spent in the present one.

use std::time::Duration;

use super::{Rule, RuleError, by_algorithm};
use crate::rule::Algorithm;

/// Number of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Tokens, requests or turns.
    Count(u64),
    /// Time.
    Time(Duration),
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

/// Numbers that replace those of a rule. Absent ones stay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Changes<'n>(&'n [(&'static str, Number)]);

impl NumberSpec {
    /// Returns the number of any algorithm with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        Self::all().find(|number| number.name == name)
    }

    /// Returns every number, of each algorithm in turn. Algorithms share names.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        Algorithm::ALL.iter().flat_map(|algorithm| algorithm.spec().numbers)
    }
}

impl Changes<'_> {
    pub(super) fn count(self, name: &str, present: u64) -> u64 {
        match self.find(name) {
            Some(Number::Count(count)) => count,
            Some(Number::Time(_)) | None => present,
        }
    }

    pub(super) fn time(self, name: &str, present: Duration) -> Duration {
        match self.find(name) {
            Some(Number::Time(time)) => time,
            Some(Number::Count(_)) | None => present,
        }
    }

    fn find(self, name: &str) -> Option<Number> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
    }
}

impl Rule {
    /// Returns the numbers that can change, in the order of the algorithm's table.
    #[must_use]
    pub fn numbers(&self) -> Vec<(&'static str, Number)> {
        let value = |number: &NumberSpec| Some((number.name, by_algorithm!(self, inner => inner.number(number.name))?));
        self.algorithm().spec().numbers.iter().filter_map(value).collect()
    }

    /// Returns the rule with other `numbers`. Those of another name or unit have no effect.
    ///
    /// # Errors
    /// A number is out of range.
    pub fn with_numbers(&self, numbers: &[(&'static str, Number)]) -> Result<Self, RuleError> {
        let changes = Changes(numbers);
        Ok(match self {
            Self::TokenBucket(bucket) => Self::TokenBucket(bucket.changed(changes)?),
            Self::Gcra(bucket) => Self::Gcra(bucket.changed(changes)?),
            Self::FixedWindow(window) => Self::FixedWindow(window.changed(changes)?),
            Self::SlidingWindowLog(window) => Self::SlidingWindowLog(window.changed(changes)?),
            Self::SlidingWindowCounter(window) => Self::SlidingWindowCounter(window.changed(changes)?),
            Self::LeakyBucket(bucket) => Self::LeakyBucket(bucket.changed(changes)?),
            Self::Quota(quota) => Self::Quota(quota.changed(changes)?),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::{
        Align, Calendar, CalendarUnit, FixedWindow, LeakyBucket, Quota, SlidingWindowCounter, SlidingWindowLog,
        TokenBucket,
    };
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn rules() -> Vec<Rule> {
        let month = || Calendar::new(CalendarUnit::Month, "Europe/Berlin").unwrap();
        let bucket = TokenBucket::new(3, MINUTE, 9).unwrap();
        vec![
            Rule::TokenBucket(bucket.clone()),
            Rule::Gcra(bucket),
            FixedWindow::new(5, MINUTE, Align::Clock).unwrap().into(),
            FixedWindow::on_calendar(5, month()).unwrap().into(),
            SlidingWindowLog::new(5, MINUTE).unwrap().into(),
            SlidingWindowCounter::new(5, MINUTE).unwrap().into(),
            LeakyBucket::new(3, MINUTE, MINUTE, 9).unwrap().warm_up(MINUTE).unwrap().into(),
            Quota::new(5).unwrap().into(),
            Quota::resetting(5, month()).unwrap().into(),
        ]
    }

    #[test]
    fn each_number_of_the_table_can_change_alone() {
        for algorithm in Algorithm::ALL {
            assert!(rules().iter().any(|rule| rule.algorithm() == algorithm), "{algorithm:?} is not tested");
        }
        for rule in rules() {
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
