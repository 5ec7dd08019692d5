//! Arguments of limiters with a few words as values, such as `mode: observe`, or with a number or a word, such as `window`.

use serde::Deserialize;
use tollgate_filters::request_rate_limiter::{CostSource, ErrorBody};
#[cfg(test)]
use tollgate_limiter::rule::Algorithm;
use tollgate_limiter::rule::CalendarUnit;
use tollgate_limiter::store::OnStoreFailure;

use crate::de::{described_by, parse_size, read_by};
use crate::rate_limiter::model::GatewayNumber;
use crate::spec::{MAX_COUNT, TimeArgument, time_argument};

/// `mode`. YAML 1.1 reads `off` as false.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    #[default]
    Enforce,
    Observe,
    #[serde(alias = "false")]
    Off,
}

/// `align`.
#[word]
pub(crate) enum Align {
    First,
    Clock,
}

/// `refill`.
#[word(Default)]
pub(crate) enum RefillWord {
    /// Continuously.
    #[default]
    Smooth,
    /// After each period of a key.
    Interval,
    /// After each period, at the same time for all keys.
    Aligned,
}

/// `error-body`.
#[word(Default)]
pub(crate) enum ErrorBodyWord {
    /// A problem document (RFC 9457), or text.
    #[default]
    Problem,
    /// No body.
    Empty,
}

/// `upstream-headers`.
#[word]
pub(crate) enum UpstreamHeadersWord {
    /// Fields of upstreams follow those of the limiter.
    Keep,
    /// Fields of upstreams are removed.
    Replace,
}

/// `atomicity`.
#[word]
pub(crate) enum AtomicityWord {
    Script,
    Lock,
}

/// `lock.retry`.
#[word]
pub(crate) enum LockRetryWord {
    Fixed,
    Exponential,
}

/// `on-store-failure`.
#[word]
pub(crate) enum OnStoreFailureWord {
    /// Limits in memory.
    Local,
    /// Lets requests pass.
    Allow,
    /// Denies requests.
    Deny,
}

impl From<ErrorBodyWord> for ErrorBody {
    fn from(word: ErrorBodyWord) -> Self {
        match word {
            ErrorBodyWord::Problem => Self::Problem,
            ErrorBodyWord::Empty => Self::Empty,
        }
    }
}

impl From<OnStoreFailureWord> for OnStoreFailure {
    fn from(word: OnStoreFailureWord) -> Self {
        match word {
            OnStoreFailureWord::Local => Self::Local,
            OnStoreFailureWord::Allow => Self::Allow,
            OnStoreFailureWord::Deny => Self::Deny,
        }
    }
}

/// `window`: a length, or a unit of the calendar.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Window {
    Calendar(CalendarWord),
    Length(TimeArgument),
}

/// A unit of the calendar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CalendarWord(pub(crate) CalendarUnit);

/// Names of the units of the calendar.
const CALENDAR: [(&str, CalendarUnit); 5] = [
    ("hour", CalendarUnit::Hour),
    ("day", CalendarUnit::Day),
    ("week", CalendarUnit::Week),
    ("month", CalendarUnit::Month),
    ("year", CalendarUnit::Year),
];

impl CalendarWord {
    fn parse(text: &str) -> Option<Self> {
        CALENDAR.iter().find(|(word, _)| *word == text).map(|(_, unit)| Self(*unit))
    }

    /// Returns the name.
    pub(crate) fn word(self) -> &'static str {
        CALENDAR.iter().find(|(_, unit)| *unit == self.0).map_or("", |(word, _)| word)
    }
}

/// `cost`: a fixed number, or a source of numbers.
#[derive(Clone, Debug)]
pub(crate) enum CostArg {
    Tokens(u64),
    Source(CostSource),
}

/// `on-limit`: `deny`, or a normalized path.
#[derive(Clone, Debug)]
pub(crate) enum OnLimitArg {
    Deny,
    Forward(String),
}

/// Names of algorithms, for the schema.
#[cfg(test)]
pub(crate) struct AlgorithmName;

read_by! {
    Window: |text| match CalendarWord::parse(text) {
        Some(unit) => Ok(Window::Calendar(unit)),
        None => time_argument(text).map(Window::Length),
    };
    CalendarWord: |text| CalendarWord::parse(text).ok_or_else(|| {
        format!("expected one of {}, found `{text}`", CALENDAR.map(|(word, _)| word).join(", "))
    });
    CostArg: cost;
    OnLimitArg: |text| {
        let path = text.strip_prefix("forward:").map(str::trim).filter(|path| path.starts_with('/'));
        let path = path.and_then(|path| tollgate_routing::normalize(path).ok());
        match path.filter(|path| !path.contains(['?', '#'])) {
            _ if text == "deny" => Ok(OnLimitArg::Deny),
            Some(path) => Ok(OnLimitArg::Forward(path.into_owned())),
            None => Err(format!(
                "expected `forward:/path`, the path of a route of this file without a query, found `{text}`"
            )),
        }
    };
    GatewayNumber: |text| match text.parse() {
        _ if text.eq_ignore_ascii_case("auto") => Ok(GatewayNumber::Auto),
        Ok(number) => Ok(GatewayNumber::Fixed(number)),
        Err(_) => Err(format!("expected `auto` or a number from 1 to {}, found `{text}`", u32::MAX)),
    };
}

/// Reads `5`, `header:NAME` or `body-bytes/1KB`.
fn cost(text: &str) -> Result<CostArg, String> {
    let (kind, rest) = text.split_once([':', '/']).unwrap_or((text, ""));
    let rest = rest.trim();
    let name = || rest.parse().map_err(|_| format!("`{rest}` is not a valid header name"));
    match kind.trim() {
        "header" if !rest.is_empty() => name().map(CostSource::RequestHeader).map(CostArg::Source),
        "response-header" if !rest.is_empty() => name().map(CostSource::ResponseHeader).map(CostArg::Source),
        "body-bytes" => Ok(CostArg::Source(CostSource::RequestBody { unit: bytes(rest)? })),
        "response-body-bytes" => Ok(CostArg::Source(CostSource::ResponseBody { unit: bytes(rest)? })),
        _ => text.parse().ok().filter(|tokens| *tokens <= MAX_COUNT).map(CostArg::Tokens).ok_or_else(|| {
            format!(
                "expected a number, `header:NAME`, `response-header:NAME`, `body-bytes/1KB` or \
                 `response-body-bytes/1KB`, found `{text}`"
            )
        }),
    }
}

/// Bytes per token, by default 1.
fn bytes(unit: &str) -> Result<u64, String> {
    match parse_size(if unit.is_empty() { "1" } else { unit })? {
        0 => Err("a token must stand for at least 1 byte".to_owned()),
        unit => Ok(unit),
    }
}

described_by! {
    Window: "Window" {
        "type": ["string", "integer"],
        "description": "`10s`, `1m`, `PT1H`, or `hour`, `day`, `week`, `month`, `year` of the calendar",
        "pattern": r"^\s*([0-9Pp]|hour|day|week|month|year)|\$\{",
        "minimum": 1,
        "examples": ["1m", "day"]
    };
    CalendarWord: "CalendarUnit" {"enum": ["hour", "day", "week", "month", "year"]};
    CostArg: "Cost" {
        "type": ["integer", "string"],
        "minimum": 0,
        "pattern": r"^\s*([0-9]+|(response-)?header:.+|(response-)?body-bytes([:/].*)?)\s*$|\$\{",
        "examples": [1, "header:X-Cost", "body-bytes/1KB"]
    };
    OnLimitArg: "OnLimit" {"type": "string", "pattern": r"^\s*(deny|forward:\s*/.*)$|\$\{", "examples": ["deny", "forward:/busy"]};
    GatewayNumber: "Gateways" {"type": ["integer", "string"], "minimum": 1, "pattern": r"^\s*([aA][uU][tT][oO]|[0-9]+)\s*$|\$\{"};
    Mode: "Mode" {"enum": ["enforce", "observe", "off", false]};
    AlgorithmName: "Algorithm" {"enum": (Algorithm::ALL.map(Algorithm::as_str))};
}
