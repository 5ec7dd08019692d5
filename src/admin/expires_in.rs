//! `expires-in`: time of a temporary change.

use std::time::Duration;

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Shortest and longest time of a temporary change.
const TIMES: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(30 * 24 * 60 * 60);

/// Time after which a change ends by itself, with a unit, from `1s` to `30d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(extend("examples" = ["15m"]))]
pub(super) struct ExpiresIn(#[schemars(with = "String")] pub(super) Duration);

impl<'de> Deserialize<'de> for ExpiresIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time = humantime::parse_duration(&text).ok().filter(|time| TIMES.contains(time));
        time.map(Self).ok_or_else(|| {
            D::Error::custom(format!("expected a time of 1s to 30d with a unit, such as `15m`, got `{text}`"))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_time_needs_a_unit_and_has_bounds() {
        let parse = |text: &str| serde_json::from_value::<ExpiresIn>(json!(text)).ok().map(|ExpiresIn(time)| time);
        assert_eq!(parse("15m"), Some(Duration::from_secs(900)));
        assert_eq!(parse("30d"), Some(Duration::from_secs(30 * 24 * 60 * 60)));
        for text in ["", "0s", "999ms", "60", "31d", "soon", "-1s", "99999999999999999999y"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(serde_json::from_value::<ExpiresIn>(json!(60)).is_err());
    }
}
