//! Changed numbers of a rule.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;
use tollgate_limiter::rule::{
    Algorithm, FixedWindow, LeakyBucket, Quota, Rule, RuleError, SlidingWindowCounter, SlidingWindowLog, TokenBucket,
};

/// Numbers that replace those of a rule, under the names of the configuration. Absent ones stay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RuleChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    replenish_rate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst_capacity: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_wait: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_queue: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowance: Option<u64>,
}

/// Time with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Time(Duration);

/// Reason why a rule cannot have the changed numbers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChangeError {
    /// A field of another algorithm.
    #[error("`{field}` is not a number of `{algorithm}` that can be overridden; those are {own}")]
    Foreign {
        /// The field.
        field: &'static str,
        /// Algorithm of the rule.
        algorithm: &'static str,
        /// Fields of the algorithm.
        own: String,
    },
    /// No number.
    #[error("give the numbers of `{algorithm}` that change ({own}), or `unlimited` or `block`")]
    Empty {
        /// Algorithm of the rule.
        algorithm: &'static str,
        /// Fields of the algorithm.
        own: String,
    },
    /// A rate without its period.
    #[error("`period` is required with a rate, because the period of the rule is {0}, not a second")]
    NeedsPeriod(String),
    /// Numbers that the algorithm does not support.
    #[error(transparent)]
    Rule(#[from] RuleError),
}

impl RuleChange {
    /// Returns `rule` with the changed numbers.
    ///
    /// # Errors
    /// A number belongs to another algorithm, or is out of range.
    pub fn apply(&self, rule: &Rule) -> Result<Rule, ChangeError> {
        self.check_fields(rule.algorithm())?;
        Ok(match rule {
            Rule::TokenBucket(bucket) => Rule::TokenBucket(self.bucket(bucket)?),
            Rule::Gcra(bucket) => Rule::Gcra(self.bucket(bucket)?),
            Rule::FixedWindow(window) => {
                let limit = self.limit.unwrap_or(window.limit());
                Rule::FixedWindow(match window.calendar() {
                    Some(calendar) => FixedWindow::on_calendar(limit, calendar.clone())?,
                    None => FixedWindow::new(limit, window.window(), window.align())?,
                })
            }
            Rule::SlidingWindowLog(window) => {
                SlidingWindowLog::new(self.limit.unwrap_or(window.limit()), window.window())?.into()
            }
            Rule::SlidingWindowCounter(window) => {
                SlidingWindowCounter::new(self.limit.unwrap_or(window.limit()), window.window())?.into()
            }
            Rule::LeakyBucket(bucket) => {
                let period = self.period(self.rate, bucket.period())?;
                let max_wait = self.max_wait.map_or(bucket.max_wait(), |time| time.0);
                let max_queue = self.max_queue.unwrap_or(bucket.max_queue());
                LeakyBucket::new(self.rate.unwrap_or(bucket.rate()), period, max_wait, max_queue)?
                    .warm_up(bucket.warm_up_time())?
                    .into()
            }
            Rule::Quota(quota) => {
                let allowance = self.allowance.unwrap_or(quota.allowance());
                Rule::Quota(match quota.reset() {
                    Some(reset) => Quota::resetting(allowance, reset.clone())?,
                    None => Quota::new(allowance)?,
                })
            }
        })
    }

    fn bucket(&self, bucket: &TokenBucket) -> Result<TokenBucket, ChangeError> {
        let period = self.period(self.replenish_rate, bucket.period())?;
        let rate = self.replenish_rate.unwrap_or(bucket.replenish_rate());
        Ok(TokenBucket::new(rate, period, self.burst_capacity.unwrap_or(bucket.burst_capacity()))?)
    }

    /// Returns the period. A rate alone is per second, as in the configuration. For a rule with another period, a rate
    /// without `period` is ambiguous.
    fn period(&self, rate: Option<u64>, configured: Duration) -> Result<Duration, ChangeError> {
        match (rate, self.period) {
            (_, Some(Time(period))) => Ok(period),
            (Some(_), None) if configured != Duration::from_secs(1) => {
                Err(ChangeError::NeedsPeriod(humantime::format_duration(configured).to_string()))
            }
            (_, None) => Ok(configured),
        }
    }

    fn check_fields(&self, algorithm: Algorithm) -> Result<(), ChangeError> {
        let own = fields(algorithm);
        let listed = || own.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ");
        let given = self.given();
        let algorithm = algorithm.as_str();
        if let Some(&field) = given.iter().find(|field| !own.contains(field)) {
            return Err(ChangeError::Foreign { field, algorithm, own: listed() });
        }
        if given.is_empty() { Err(ChangeError::Empty { algorithm, own: listed() }) } else { Ok(()) }
    }

    /// Names of the given numbers.
    fn given(&self) -> Vec<&'static str> {
        let all = [
            ("replenish-rate", self.replenish_rate.is_some()),
            ("burst-capacity", self.burst_capacity.is_some()),
            ("rate", self.rate.is_some()),
            ("period", self.period.is_some()),
            ("max-wait", self.max_wait.is_some()),
            ("max-queue", self.max_queue.is_some()),
            ("limit", self.limit.is_some()),
            ("allowance", self.allowance.is_some()),
        ];
        all.into_iter().filter(|(_, is_given)| *is_given).map(|(field, _)| field).collect()
    }
}

/// Numbers of a rule that an override may change. Windows and calendars stay: another window would begin without what
/// was spent.
fn fields(algorithm: Algorithm) -> &'static [&'static str] {
    match algorithm {
        Algorithm::TokenBucket | Algorithm::Gcra => &["replenish-rate", "period", "burst-capacity"],
        Algorithm::FixedWindow | Algorithm::SlidingWindowLog | Algorithm::SlidingWindowCounter => &["limit"],
        Algorithm::LeakyBucket => &["rate", "period", "max-wait", "max-queue"],
        Algorithm::Quota => &["allowance"],
    }
}

impl fmt::Display for RuleChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut numbers = |name: &str, value: Option<String>| match value {
            Some(value) => write!(f, "{}{name} {value}", std::mem::replace(&mut separator, ", ")),
            None => Ok(()),
        };
        let number = |value: Option<u64>| value.map(|value| value.to_string());
        let time = |value: Option<Time>| value.map(|Time(time)| humantime::format_duration(time).to_string());
        numbers("replenish-rate", number(self.replenish_rate))?;
        numbers("burst-capacity", number(self.burst_capacity))?;
        numbers("rate", number(self.rate))?;
        numbers("period", time(self.period))?;
        numbers("max-wait", time(self.max_wait))?;
        numbers("max-queue", number(self.max_queue))?;
        numbers("limit", number(self.limit))?;
        numbers("allowance", number(self.allowance))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(self.0))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom(format!("expected a time with a unit such as `10s`, got `{text}`"));
        humantime::parse_duration(&text).map(Self).map_err(|_| wrong())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

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
                LeakyBucket::new(10, second, second, 100).unwrap().into(),
                json!({"rate": 20, "max-wait": "2s"}),
                LeakyBucket::new(20, second, 2 * second, 100).unwrap().into(),
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
        assert!(message(json!({})).starts_with("give the numbers of `gcra` that change"));
        assert!(message(json!({"burst-capacity": u64::MAX})).contains("`burst-capacity` must be at most"));
        assert!(serde_json::from_value::<RuleChange>(json!({"replenish-rate": -1})).is_err());
        assert!(serde_json::from_value::<RuleChange>(json!({"period": "5"})).is_err());
    }
}
