//! Values that are texts: durations and sizes as Spring writes them, and the reading of all such types.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// A duration: `100ms`, `5s`, `30m`, `PT1S`, units in any case, as in Spring; a bare number is milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub struct Time(pub Duration);

/// A timeout: a duration, or `0` or a negative one for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timeout(pub Option<Duration>);

/// A whole number of seconds: `3600`, `30m`, `PT1H`; a bare number is seconds, and may be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seconds(pub i64);

/// A number of bytes: `5000`, `64KB`, `5MB`; K, M and G are powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub struct Size(pub u64);

/// An address to listen on, with or without brackets, or `localhost`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address(pub IpAddr);

/// A decimal number.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Number(pub f64);

/// Text of a time, whose name tells the deserializer that it is one.
#[derive(Deserialize)]
#[serde(rename = "$tollgate::Time")]
struct TimeText(String);

/// Least bare number of milliseconds that files mean, with few exceptions.
pub(crate) const LEAST_BARE_MILLIS: u64 = 100;

/// Returns a number without a unit from 1 to below `least`.
pub(crate) fn bare_millis(text: &str, least: u64) -> Option<u64> {
    text.trim().parse().ok().filter(|number| (1..least).contains(number))
}

/// Reads a time with `parse`.
fn read_time<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    parse(TimeText::deserialize(deserializer)?.0.trim()).map_err(D::Error::custom)
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_time(deserializer, |text| parse_time(text).map(Self))
    }
}

impl<'de> Deserialize<'de> for Timeout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_time(deserializer, |text| parse_timeout(text).map(Self))
    }
}

/// Reads a scalar with `parse`.
pub(crate) fn read_text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    parse(String::deserialize(deserializer)?.trim()).map_err(D::Error::custom)
}

/// Implements `Deserialize` by a function of the trimmed text.
macro_rules! read_by {
    ($($type:ty: $parse:expr;)*) => {$(
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::de::read_text(deserializer, $parse)
            }
        }
    )*};
}

/// Implements `JsonSchema` by a literal.
macro_rules! described_by {
    ($($type:ty: $name:literal $schema:tt;)*) => {$(
        #[cfg(test)]
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    )*};
}

pub(crate) use {described_by, read_by};

read_by! {
    Seconds: |text| {
        let time = || i64::try_from(parse_time(text).ok()?.as_secs()).ok();
        let seconds = text.parse().ok().or_else(time).map(Seconds);
        seconds.ok_or_else(|| format!("expected seconds, or a time such as `30m`, found `{text}`"))
    };
    Size: |text| parse_size(text).map(Size);
    Number: |text| {
        let number = text.parse().ok().filter(|number: &f64| number.is_finite()).map(Number);
        number.ok_or_else(|| format!("expected a number such as `50` or `12.5`, found `{text}`"))
    };
    Address: |text| {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let address = match text {
            "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            _ => bare.map_or_else(|| text.parse().ok(), |bare| bare.parse().ok().map(IpAddr::V6)),
        };
        let address = address.map(Address);
        address.ok_or_else(|| format!("expected an IP address such as `127.0.0.1` or `::`, found `{text}`"))
    };
}

described_by! {
    Time: "Duration" {"type": ["string", "integer"], "description": "`500ms`, `5s`, `PT1S`; a bare number is milliseconds", "examples": ["500ms", "5s"]};
    Timeout: "Timeout" {"type": ["string", "integer"], "description": "`500ms`, `5s`, `PT1S`; a bare number is milliseconds; `0` or `-1`: none", "examples": ["5s", 0]};
    Seconds: "Seconds" {"type": ["integer", "string"], "description": "`3600`, `30m`, `PT1H`; a bare number is seconds", "examples": [3600, "1h"]};
    Size: "Size" {"type": ["string", "integer"], "description": "bytes: `5000`, `64KB`, `5MB`, in powers of 1024", "examples": ["64KB", "5MB"]};
    Number: "Number" {"type": ["number", "string"], "description": "`50`, `12.5`", "examples": [50, 12.5]};
}

/// A thousand years: the upper bound of durations, so that clocks can add them.
const LONGEST: Duration = Duration::from_secs(1_000 * 365 * 24 * 60 * 60);

/// Parses a flag as YAML 1.1 writes it.
pub(crate) fn parse_flag(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// Parses a duration, at most [`LONGEST`]. The error says what was expected.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if let Ok(millis) = text.parse::<u64>() {
        return Ok(Duration::from_millis(millis).min(LONGEST));
    }
    let is_month = |unit: &str| unit.trim_start_matches(|c: char| c.is_ascii_digit()) == "M";
    if !text.starts_with(['P', 'p']) && text.split_whitespace().any(is_month) {
        return Err(format!(
            "`{text}` may be minutes, as in Spring, or months: write `1m` for a minute, `30d` for a month"
        ));
    }
    let parsed = if text.starts_with(['P', 'p']) {
        text.parse::<jiff::SignedDuration>().ok().and_then(|d| Duration::try_from(d).ok())
    } else {
        humantime::parse_duration(&text.to_ascii_lowercase()).ok()
    };
    parsed
        .map(|time| time.min(LONGEST))
        .ok_or_else(|| format!("expected a duration such as `500ms`, `5s` or `PT1S`, found `{text}`"))
}

/// Parses a timeout. The error says what was expected.
pub(crate) fn parse_timeout(text: &str) -> Result<Option<Duration>, String> {
    match text.trim().strip_prefix('-').map(parse_time) {
        Some(Ok(_)) => Ok(None),
        _ => parse_time(text).map(|time| Some(time).filter(|time| !time.is_zero())),
    }
}

/// Parses a number of bytes. The error says what was expected.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let power = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => Some(0),
        "K" | "KB" | "KIB" => Some(1),
        "M" | "MB" | "MIB" => Some(2),
        "G" | "GB" | "GIB" => Some(3),
        "T" | "TB" | "TIB" => Some(4),
        _ => None,
    };
    power
        .and_then(|power| number.parse::<u64>().ok()?.checked_mul(1024_u64.pow(power)))
        .ok_or_else(|| format!("expected a size such as `5000`, `64KB` or `5MB`, found `{text}`"))
}

#[cfg(test)]
impl schemars::JsonSchema for Address {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        IpAddr::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<IpAddr>()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn durations_take_units_iso_8601_and_bare_milliseconds() {
        for (text, millis) in [
            ("250", 250),
            ("100ms", 100),
            ("5s", 5000),
            ("30m", 1_800_000),
            ("PT1S", 1000),
            ("1h", 3_600_000),
            ("5S", 5000),
            ("2H 10MS", 7_200_010),
            ("PT1M", 60_000),
        ] {
            assert_eq!(parse_time(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
        for text in ["", "soon", "-5", "5 parsecs", "-PT1S"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
        for text in ["1M", "5s 1M", "12 M"] {
            assert!(parse_time(text).unwrap_err().contains("may be minutes"), "{text}");
        }
        for text in ["18446744073709551615", "18446744073709551615s", "PT9223372036854775807S"] {
            let longest = parse_time(text).unwrap();
            assert!(std::time::Instant::now().checked_add(longest * 10).is_some(), "{text}");
        }
    }

    #[test]
    fn a_timeout_of_zero_or_less_is_none() {
        for text in ["0", "-1", "0s", "-5s", "PT0S", "-PT1S"] {
            assert_eq!(parse_timeout(text), Ok(None), "{text}");
        }
        assert_eq!(parse_timeout("5s"), Ok(Some(Duration::from_secs(5))));
        for text in ["", "-", "--1", "5-s", "soon", "-soon"] {
            assert!(parse_timeout(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in [("5000", 5000), ("64KB", 65_536), ("5MB", 5_242_880), ("1 gb", 1 << 30), ("7B", 7)] {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
        }
        for text in ["", "KB", "5XB", "-1", "99999999999999999999", "20000000TB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
