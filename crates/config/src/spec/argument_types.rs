//! Types of arguments, each with its check and its schema.

use std::num::NonZeroU32;
use std::ops::Deref;
use std::time::Duration;

use http::header::HeaderName;
use http::{Method, StatusCode};
use serde::Deserialize;

use crate::de::{described_by, parse_size, parse_status, parse_time, read_by};

/// Largest whole number that Lua and Redis keep exactly: 2^53 - 1.
pub(crate) const MAX_COUNT: u64 = tollgate_limiter::rule::MAX_SAFE_INTEGER;

/// A whole number that Redis keeps exactly: up to 2^53 - 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count(pub(crate) u64);

/// An exact decimal number per period: `10`, `0.5`, `2.25`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Whole number of tokens, as a [`Count`].
    pub(crate) tokens: u64,
    /// Number of periods in which they are added. It has no common divisor with `tokens`.
    pub(crate) periods: u32,
}

/// Most digits behind the point of a [`Rate`].
const MAX_FRACTION_DIGITS: usize = 4;

/// A time above 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeArgument {
    pub(crate) time: Duration,
    /// The number, if it is written without a unit.
    pub(crate) bare_millis: Option<u64>,
}

/// A point in time since 1970, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instant(pub(crate) u64);

/// A percentage from 0 to 100; a `%` may follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Percent(pub(crate) f64);

/// A number from 0 to 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fraction(pub(crate) f64);

/// A status by number or name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub StatusCode);

/// A valid header name.
#[derive(Clone, Debug)]
pub(crate) struct FieldName(pub(crate) HeaderName);

/// A text, or a number or flag that is read as text.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Text(pub(crate) String);

/// A text that is a header name.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct HeaderText(String);

/// A number of segments of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segments(pub(crate) u32);

/// A request method.
#[derive(Clone, Debug)]
pub(crate) struct MethodName(pub(crate) Method);

/// Bytes of each request that the gateway may hold in memory: at most 64 MB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferSize(pub(crate) usize);

/// A number that is parsed as a `T`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number<T>(pub(crate) T);

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Deref for HeaderText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

read_by! {
    Count: count;
    Rate: rate;
    TimeArgument: time_argument;
    Instant: |text| {
        let micros = text.parse::<jiff::Timestamp>().ok().and_then(|time| u64::try_from(time.as_microsecond()).ok());
        let expected = || format!("expected a time since 1970 such as `2027-01-01T00:00:00Z`, found `{text}`");
        micros.map(Instant).ok_or_else(expected)
    };
    Percent: percent;
    Fraction: |text| match text.parse() {
        Ok(fraction) if (0.0..=1.0).contains(&fraction) => Ok(Fraction(fraction)),
        _ => Err(format!("expected a number from 0 to 1, found `{text}`")),
    };
    Status: |text| parse_status(text).map(Status);
    FieldName: |text| header_name(text).map(FieldName);
    Segments: |text| text.parse().map(Segments).map_err(|_| format!("expected a number of path segments, found `{text}`"));
    MethodName: |text| {
        let method = Method::from_bytes(text.to_ascii_uppercase().as_bytes());
        method.map(MethodName).map_err(|_| format!("`{text}` is not a valid method"))
    };
    BufferSize: buffer_size;
    Number<f32>: |text| number(text, "a number");
    Number<u32>: |text| number(text, "a whole number");
    Number<NonZeroU32>: |text| number(text, "a whole number from 1");
}

described_by! {
    Count: "Count" {"type": "integer", "minimum": 0, "maximum": 9_007_199_254_740_991_u64};
    Rate: "Rate" {
        "type": ["number", "string"],
        "minimum": 0,
        "maximum": 9_007_199_254_740_991_u64,
        "pattern": r"^\s*[0-9]*(\.[0-9]+)?\s*$|\$\{",
        "examples": [10, 0.5]
    };
    TimeArgument: "PositiveDuration" {
        "type": ["string", "integer"],
        "description": "`500ms`, `5s`, `1h`, `PT1S`; a bare number is milliseconds; more than 0",
        "pattern": r"^\s*[0-9Pp]|\$\{",
        "minimum": 1,
        "examples": ["1s", "1m"]
    };
    Instant: "Instant" {
        "type": "string",
        "description": "a time since 1970 with its offset",
        "pattern": r"^\s*[0-9]{4}-[0-9]{2}-|\$\{",
        "examples": ["2027-01-01T00:00:00Z"]
    };
    Percent: "Percent" {"type": ["number", "string"], "minimum": 0, "maximum": 100, "pattern": r"^\s*[0-9.]+\s*%?\s*$|\$\{"};
    Fraction: "Fraction" {"type": ["number", "string"], "minimum": 0, "maximum": 1, "pattern": r"^\s*[0-9.]+\s*$|\$\{"};
    Status: "Status" {
        "type": ["integer", "string"],
        "description": "a number, or a name such as `TOO_MANY_REQUESTS`",
        "minimum": 200,
        "maximum": 999,
        "examples": [429, 503]
    };
    FieldName: "HeaderName" {"type": "string", "pattern": r"^\s*[!#$%&'*+.^_`|~0-9A-Za-z-]+\s*$|\$\{"};
    Text: "Text" {"type": ["string", "integer", "number", "boolean"]};
    HeaderText: "HeaderName" {"type": "string", "pattern": r"^\s*[!#$%&'*+.^_`|~0-9A-Za-z-]+\s*$|\$\{"};
    Segments: "Segments" {"type": "integer", "minimum": 0};
    MethodName: "Method" {"type": "string", "examples": ["GET", "POST"]};
    BufferSize: "BufferSize" {
        "type": ["string", "integer"],
        "description": "bytes: `5000`, `64KB`, `5MB`, in powers of 1024; at most 64MB",
        "pattern": r"^\s*[0-9]|\$\{",
        "examples": ["64KB", "5MB"]
    };
    Number<f32>: "Number" {"type": ["number", "string"], "pattern": r"^\s*[0-9.]+\s*$|\$\{"};
    Number<u32>: "WholeNumber" {"type": "integer", "minimum": 0};
    Number<NonZeroU32>: "PositiveNumber" {"type": "integer", "minimum": 1};
}

fn whole(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number <= MAX_COUNT)
}

fn count(text: &str) -> Result<Count, String> {
    whole(text).map(Count).ok_or_else(|| format!("expected a whole number up to {MAX_COUNT}, found `{text}`"))
}

fn rate(text: &str) -> Result<Rate, String> {
    let (before, after) = text.split_once('.').unwrap_or((text, "0"));
    let after = match after.trim_end_matches('0') {
        "" if !after.is_empty() => "",
        digits if (1..=MAX_FRACTION_DIGITS).contains(&digits.len()) => digits,
        _ => return Err(bad_rate(text)),
    };
    let digits = format!("{before}{after}");
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let mut tokens = whole(&digits).filter(|_| is_number).ok_or_else(|| bad_rate(text))?;
    let mut periods = 10_u32.pow(after.len() as u32);
    for prime in [2, 5] {
        while periods.is_multiple_of(prime) && tokens.is_multiple_of(prime.into()) {
            (tokens, periods) = (tokens / u64::from(prime), periods / prime);
        }
    }
    Ok(Rate { tokens, periods })
}

fn bad_rate(text: &str) -> String {
    let advice = match text.split_once('/') {
        Some((rate, unit)) if rate.trim().parse::<f64>().is_ok() => {
            let unit = unit.trim();
            let period = if unit.starts_with(|first: char| first.is_ascii_digit()) {
                unit.to_owned()
            } else {
                format!("1{unit}")
            };
            let period = if parse_time(&period).is_ok() { period } else { "1s".to_owned() };
            format!("write the rate {} and `period: {period}`", rate.trim())
        }
        _ => "rate 1 and period 1m is one a minute".to_owned(),
    };
    format!(
        "expected a number up to {MAX_COUNT} with at most {MAX_FRACTION_DIGITS} digits behind the point, found `{text}`; {advice}"
    )
}

pub(crate) fn time_argument(text: &str) -> Result<TimeArgument, String> {
    match parse_time(text)? {
        Duration::ZERO => Err("must be longer than 0".to_owned()),
        time => Ok(TimeArgument { time, bare_millis: text.parse().ok() }),
    }
}

/// Parses a time above 0 with a unit, such as `10s`, for readers that cannot be warned of a bare number.
///
/// # Errors
/// The text is no such time; the error says what to write.
pub fn time_with_unit(text: &str) -> Result<Duration, String> {
    match time_argument(text.trim())? {
        TimeArgument { bare_millis: Some(number), .. } => {
            Err(format!("`{number}` has no unit: write `{number}s` or `{number}ms`"))
        }
        TimeArgument { time, .. } => Ok(time),
    }
}

fn percent(text: &str) -> Result<Percent, String> {
    match text.trim_end_matches('%').trim().parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Percent(percent)),
        _ => Err(format!("expected a percentage from 0 to 100, found `{text}`")),
    }
}

fn header_name(text: &str) -> Result<HeaderName, String> {
    HeaderName::from_bytes(text.as_bytes()).map_err(|_| format!("`{text}` is not a valid header name"))
}

fn buffer_size(text: &str) -> Result<BufferSize, String> {
    const MAX: u64 = 64 * 1024 * 1024;
    let bytes = parse_size(text)?;
    match usize::try_from(bytes) {
        Ok(size) if bytes <= MAX => Ok(BufferSize(size)),
        _ => Err(format!("at most 64MB of each request may be held in memory, found `{text}`")),
    }
}

fn number<T: std::str::FromStr>(text: &str, wanted: &str) -> Result<Number<T>, String> {
    text.parse().map(Number).map_err(|_| format!("expected {wanted}, found `{text}`"))
}
