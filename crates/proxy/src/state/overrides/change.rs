//! Changed numbers of a rule.

use std::fmt;
use std::time::Duration;

use humantime::format_duration;
use serde::de::{DeserializeSeed, Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use thiserror::Error;
use tollgate_config::{time_with_unit, with_keys};
use tollgate_limiter::rule::{Algorithm, Number, NumberKind, NumberSpec, Rule, RuleError};

/// Numbers that replace those of a rule, under the names of the configuration. Absent ones stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleChange {
    /// In the order of [`NumberSpec::all`].
    numbers: Vec<(&'static str, Number)>,
}

/// Reason why a rule cannot have the changed numbers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChangeError {
    /// A field of another algorithm, or of none.
    #[error("`{field}` is not a number of `{algorithm}` that can be overridden; those are {numbers}")]
    Foreign {
        /// The field.
        field: String,
        /// Algorithm of the rule.
        algorithm: &'static str,
        /// Fields of the algorithm.
        numbers: String,
    },
    /// No number.
    #[error("give the numbers of `{algorithm}` that change ({numbers}), or `unlimited` or `block`")]
    Empty {
        /// Algorithm of the rule.
        algorithm: &'static str,
        /// Fields of the algorithm.
        numbers: String,
    },
    /// A rate without its period.
    #[error("`period` is required with a rate, because the period of the rule is {}, not a second", format_duration(*.0))]
    NeedsPeriod(Duration),
    /// Numbers that the algorithm does not support.
    #[error("{}", with_keys(.0))]
    Rule(#[from] RuleError),
}

impl RuleChange {
    /// Returns the change of every number of `rule` to its present value.
    pub fn of(rule: &Rule) -> Self {
        Self { numbers: rule.numbers() }
    }

    /// Returns the change that multiplies the counts and rates of `rule` by `factor`, within the same times.
    pub fn scaled(rule: &Rule, factor: u64) -> Self {
        let scale = |(name, number)| match number {
            Number::Count(count) => (name, Number::Count(count.saturating_mul(factor))),
            Number::Time(time) => (name, Number::Time(time)),
        };
        Self { numbers: rule.numbers().into_iter().map(scale).collect() }
    }

    /// Adds the period of `rule` to a rate without one, if that is not a second: the override then says what the rate is per.
    #[must_use]
    pub fn with_period_of(mut self, rule: &Rule) -> Self {
        let numbers = rule.algorithm().spec().numbers;
        if let Err(ChangeError::NeedsPeriod(period)) = self.check_period(rule, numbers) {
            self.numbers.push((PERIOD, Number::Time(period)));
            self.numbers.sort_by_key(|(name, _)| NumberSpec::all().position(|spec| spec.name == *name));
        }
        self
    }

    /// Returns `rule` with the changed numbers.
    ///
    /// # Errors
    /// A number belongs to another algorithm, or is out of range.
    pub fn apply(&self, rule: &Rule) -> Result<Rule, ChangeError> {
        let numbers = rule.algorithm().spec().numbers;
        self.check_fields(rule.algorithm(), numbers)?;
        self.check_period(rule, numbers)?;
        Ok(rule.with_numbers(&self.numbers)?)
    }

    fn check_fields(&self, algorithm: Algorithm, numbers: &[NumberSpec]) -> Result<(), ChangeError> {
        check_names(algorithm, self.numbers.iter().map(|(field, _)| *field))?;
        let algorithm = algorithm.as_str();
        if self.numbers.is_empty() { Err(ChangeError::Empty { algorithm, numbers: listed(numbers) }) } else { Ok(()) }
    }

    /// Checks the unit of a rate. A rate alone is per second, as in the configuration. For a rule with another period, a
    /// rate without `period` is ambiguous.
    fn check_period(&self, rule: &Rule, numbers: &[NumberSpec]) -> Result<(), ChangeError> {
        let has = |name| self.numbers.iter().any(|(field, _)| *field == name);
        let has_rate = numbers.iter().any(|number| number.kind == NumberKind::Rate && has(number.name));
        let period = rule.numbers().into_iter().find(|(name, _)| *name == PERIOD);
        match period {
            Some((_, Number::Time(period))) if has_rate && !has(PERIOD) && period != Duration::from_secs(1) => {
                Err(ChangeError::NeedsPeriod(period))
            }
            _ => Ok(()),
        }
    }
}

/// Checks that `names` are numbers of `algorithm`.
///
/// # Errors
/// One of them is not.
pub fn check_names<'n>(algorithm: Algorithm, names: impl IntoIterator<Item = &'n str>) -> Result<(), ChangeError> {
    let numbers = algorithm.spec().numbers;
    match names.into_iter().find(|name| numbers.iter().all(|number| number.name != *name)) {
        Some(field) => Err(ChangeError::Foreign {
            field: field.to_owned(),
            algorithm: algorithm.as_str(),
            numbers: listed(numbers),
        }),
        None => Ok(()),
    }
}

fn listed(numbers: &[NumberSpec]) -> String {
    numbers.iter().map(|number| format!("`{}`", number.name)).collect::<Vec<_>>().join(", ")
}

/// Name of the period of rates.
const PERIOD: &str = "period";

impl fmt::Display for RuleChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, number)) in self.numbers.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            match number {
                Number::Count(count) => write!(f, "{separator}{name} {count}")?,
                Number::Time(time) => write!(f, "{separator}{name} {}", format_duration(*time))?,
            }
        }
        Ok(())
    }
}

impl Serialize for RuleChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.numbers.len()))?;
        for (name, number) in &self.numbers {
            match number {
                Number::Count(count) => map.serialize_entry(name, count)?,
                Number::Time(time) => map.serialize_entry(name, &format_duration(*time).to_string())?,
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for RuleChange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Numbers)
    }
}

/// Reader of numbers by name.
struct Numbers;

impl<'de> Visitor<'de> for Numbers {
    type Value = RuleChange;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("numbers of a rule by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<RuleChange, A::Error> {
        let mut numbers: Vec<(&'static str, Number)> = Vec::new();
        while let Some(name) = access.next_key::<String>()? {
            let spec = NumberSpec::find(&name).ok_or_else(|| A::Error::custom(format!("unknown field `{name}`")))?;
            if numbers.iter().any(|(earlier, _)| *earlier == spec.name) {
                return Err(A::Error::duplicate_field(spec.name));
            }
            let number = access.next_value_seed(Unit(spec.kind));
            numbers.push((spec.name, number.map_err(|error| A::Error::custom(format!("`{name}`: {error}")))?));
        }
        numbers.sort_by_key(|(name, _)| NumberSpec::all().position(|spec| spec.name == *name));
        Ok(RuleChange { numbers })
    }
}

/// Reader of one number.
struct Unit(NumberKind);

impl<'de> DeserializeSeed<'de> for Unit {
    type Value = Number;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Number, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let number = match (self.0, &value) {
            (NumberKind::Time, Value::String(text)) => time_with_unit(text).map(Number::Time),
            (NumberKind::Time, _) => Err(format!("expected a time with a unit such as `10s`, got {value}")),
            (NumberKind::Rate, Value::Number(rate)) if rate.as_u64().is_none() => {
                Err(format!("expected a whole number, got {rate}; a rate of 0.5 is 1 with twice the `period`"))
            }
            (NumberKind::Count | NumberKind::Rate, _) => {
                value.as_u64().map(Number::Count).ok_or_else(|| format!("expected a whole number, got {value}"))
            }
        };
        number.map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;
    use tollgate_limiter::rule::{LeakyBucket, Quota, SlidingWindowCounter, TokenBucket};

    use super::*;

    fn change(text: serde_json::Value) -> RuleChange {
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn given_numbers_replace_those_of_the_rule() {
        let minute = Duration::from_secs(60);
        let bucket = |rate, period, burst| Rule::TokenBucket(TokenBucket::new(rate, period, burst).unwrap());
        let second = Duration::from_secs(1);
        let window = |limit| Rule::SlidingWindowCounter(SlidingWindowCounter::new(limit, minute).unwrap());
        for (rule, numbers, changed) in [
            (bucket(1, second, 5), json!({"replenish-rate": 50}), bucket(50, second, 5)),
            (bucket(1, minute, 5), json!({"burst-capacity": 50}), bucket(1, minute, 50)),
            (bucket(1, minute, 5), json!({"replenish-rate": 2, "period": "1s"}), bucket(2, second, 5)),
            (window(5), json!({"limit": 7}), window(7)),
            (Quota::new(5).unwrap().into(), json!({"allowance": 9}), Quota::new(9).unwrap().into()),
            (
                LeakyBucket::new(10, second)
                    .unwrap()
                    .with_max_wait(second)
                    .unwrap()
                    .with_max_queue(100)
                    .unwrap()
                    .into(),
                json!({"rate": 20, "max-wait": "2s"}),
                LeakyBucket::new(20, second)
                    .unwrap()
                    .with_max_wait(2 * second)
                    .unwrap()
                    .with_max_queue(100)
                    .unwrap()
                    .into(),
            ),
        ] {
            let change = change(numbers);
            assert_eq!(change.apply(&rule), Ok(changed), "{change}");
            let text = serde_json::to_string(&change).unwrap();
            assert_eq!(serde_json::from_str::<RuleChange>(&text).unwrap(), change, "{text}");
        }
    }

    #[test]
    fn numbers_that_do_not_fit_the_rule_are_named() {
        let minute = Duration::from_secs(60);
        let bucket = Rule::Gcra(TokenBucket::new(1, minute, 5).unwrap());
        let message = |numbers| change(numbers).apply(&bucket).unwrap_err().to_string();
        assert_eq!(
            message(json!({"limit": 5})),
            "`limit` is not a number of `gcra` that can be overridden; those are `replenish-rate`, `period`, `burst-capacity`"
        );
        assert_eq!(
            message(json!({"replenish-rate": 5})),
            "`period` is required with a rate, because the period of the rule is 1m, not a second"
        );
        let with_period = change(json!({"replenish-rate": 5})).with_period_of(&bucket);
        assert_eq!(with_period.to_string(), "replenish-rate 5, period 1m");
        assert_eq!(change(json!({"burst-capacity": 5})).with_period_of(&bucket).to_string(), "burst-capacity 5");
        assert_eq!(RuleChange::scaled(&bucket, 10).to_string(), "replenish-rate 10, period 1m, burst-capacity 50");
        assert!(RuleChange::scaled(&bucket, 0).apply(&bucket).is_err());
        assert!(message(json!({})).starts_with("give the numbers of `gcra` that change"));
        assert!(message(json!({"burst-capacity": u64::MAX})).contains("`burst-capacity` must be at most"));
        assert!(serde_json::from_value::<RuleChange>(json!({"replenish-rate": -1})).is_err());
        assert!(serde_json::from_value::<RuleChange>(json!({"period": "5"})).is_err());
        assert!(serde_json::from_value::<RuleChange>(json!({"colour": 5})).is_err());
        assert!(serde_json::from_str::<RuleChange>("{\"limit\": 5, \"limit\": 6}").is_err());
    }

    #[test]
    fn the_order_of_numbers_does_not_matter() {
        let numbers = json!({"burst-capacity": 5, "replenish-rate": 1, "period": "1m"});
        let reversed: RuleChange =
            serde_json::from_str("{\"period\": \"60s\", \"burst-capacity\": 5, \"replenish-rate\": 1}").unwrap();
        assert_eq!(
            (&reversed, reversed.to_string().as_str()),
            (&change(numbers), "replenish-rate 1, period 1m, burst-capacity 5")
        );
    }
}
