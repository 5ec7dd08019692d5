//! `After`, `Before` and `Between`: the time of the request.

use std::fmt;

use jiff::Timestamp;

use crate::decision::Decision;
use crate::error::PredicateError;
use crate::predicate::Predicate;
use crate::predicate::condition::Condition;
use crate::predicate::row::{PredicateArgument, PredicateForm, PredicateRow};
use crate::request::{RequestPart, RequestView};

const DATETIME: &str = "A time such as `2027-01-20T17:42:47.789-07:00[America/Denver]`, or milliseconds since 1970.";

const EXPECTED: &str = "a date-time: write one such as 2027-01-20T17:42:47-07:00, or milliseconds since 1970";

pub(super) const AFTER: PredicateRow = PredicateRow {
    name: "After",
    doc: "The current time is after this one.",
    form: PredicateForm::One([PredicateArgument::text("datetime", DATETIME)], |text, _| Predicate::after(text)),
    remark: None,
};

pub(super) const BEFORE: PredicateRow = PredicateRow {
    name: "Before",
    doc: "The current time is before this one.",
    form: PredicateForm::One([PredicateArgument::text("datetime", DATETIME)], |text, _| Predicate::before(text)),
    remark: None,
};

pub(super) const BETWEEN: PredicateRow = PredicateRow {
    name: "Between",
    doc: "The current time is after the first and before the second.",
    form: PredicateForm::Two(
        [PredicateArgument::text("datetime1", DATETIME), PredicateArgument::text("datetime2", DATETIME)],
        Predicate::between,
    ),
    remark: None,
};

/// A range of time, its ends excluded.
#[derive(Clone, Debug, PartialEq)]
enum TimeRange {
    After(Datetime),
    Before(Datetime),
    Between(Datetime, Datetime),
}

/// A point in time with millisecond precision, displayed as configured.
#[derive(Clone, Debug, PartialEq)]
struct Datetime {
    source: Box<str>,
    epoch_ms: i64,
}

impl Predicate {
    /// `After`: the time is later than `datetime`, such as `2027-01-20T17:42:47.789-07:00[America/Denver]` or
    /// milliseconds since 1970. The offset is required; the zone is optional and ignored.
    ///
    /// # Errors
    /// Returns an error for other texts.
    pub fn after(datetime: &str) -> Result<Self, PredicateError> {
        Datetime::parse(datetime).map(|after| Self::other(TimeRange::After(after)))
    }

    /// `Before`: the time is earlier than `datetime`, written as for [`after`](Self::after).
    ///
    /// # Errors
    /// Returns an error for other texts.
    pub fn before(datetime: &str) -> Result<Self, PredicateError> {
        Datetime::parse(datetime).map(|before| Self::other(TimeRange::Before(before)))
    }

    /// `Between`: the time is later than the first and earlier than the second, each written as for
    /// [`after`](Self::after).
    ///
    /// # Errors
    /// Returns an error for other texts, or if the first time is not before the second.
    pub fn between(datetime1: &str, datetime2: &str) -> Result<Self, PredicateError> {
        let (after, before) = (Datetime::parse(datetime1)?, Datetime::parse(datetime2)?);
        if after.epoch_ms >= before.epoch_ms {
            return Err(PredicateError::Order { from: datetime1.to_owned(), to: datetime2.to_owned() });
        }
        Ok(Self::other(TimeRange::Between(after, before)))
    }
}

impl Condition for TimeRange {
    fn decide(&self, request: &RequestView<'_>) -> Decision {
        let now_ms = (request.now_ms)();
        let holds = match self {
            Self::After(after) => now_ms > after.epoch_ms,
            Self::Before(before) => now_ms < before.epoch_ms,
            Self::Between(after, before) => after.epoch_ms < now_ms && now_ms < before.epoch_ms,
        };
        holds.into()
    }

    fn observe(&self, request: &RequestView<'_>) -> String {
        let now_ms = (request.now_ms)();
        match Timestamp::from_millisecond(now_ms) {
            Ok(now) => format!("the time is {now}"),
            Err(_) => format!("the time is {now_ms} ms since 1970"),
        }
    }

    fn reads(&self) -> Vec<RequestPart<'_>> {
        vec![RequestPart::Time]
    }
}

impl fmt::Display for TimeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(after) => write!(f, "After: {}", after.source),
            Self::Before(before) => write!(f, "Before: {}", before.source),
            Self::Between(after, before) => write!(f, "Between: {} and {}", after.source, before.source),
        }
    }
}

// === impl Datetime ===

impl Datetime {
    fn parse(source: &str) -> Result<Self, PredicateError> {
        let epoch_ms = match source.parse() {
            Ok(epoch_ms) => epoch_ms,
            Err(_) => parse_zoned(source).ok_or_else(|| PredicateError::value(source, EXPECTED))?,
        };
        Ok(Self { source: source.into(), epoch_ms })
    }
}

/// Parses a date-time with an offset, to milliseconds since 1970. The offset alone defines the time, in Java as well, so
/// the zone after it is ignored.
fn parse_zoned(text: &str) -> Option<i64> {
    let without_zone = match text.split_once('[') {
        Some((before, zone)) if zone.len() > 1 && zone.find(']') == Some(zone.len() - 1) => before,
        Some(_) => return None,
        None => text,
    };
    without_zone.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}
