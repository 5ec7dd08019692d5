//! Numbers of a rule that can change while its keys keep their state.
//!
//! [`AlgorithmSpec::numbers`](crate::algorithm::AlgorithmSpec::numbers) lists them for each algorithm. Windows and calendars
//! are not among them: another window would begin without the tokens that were spent in the present one.

use super::settings::{Changes, Number, RuleSettings};
use super::{Algorithm, Rule, RuleError, by_algorithm, map_rule};

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
        map_rule!(self, settings => settings.changed(changes))
    }
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
