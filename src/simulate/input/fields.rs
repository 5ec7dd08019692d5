//! Entry under construction, from the fields of a line.

use std::borrow::Cow;
use std::net::IpAddr;

use http::{HeaderValue, Method};

use super::entry::{Entry, LogTime, Logged, LoggedVerdict};
use super::map::Slot;
use super::time;

/// Upper bound of times in microseconds since 1970, in the year 2255. Sums with windows and periods stay in range.
const MAX_TIME_US: u64 = 1 << 53;

/// Value of a JSON field.
#[derive(Debug, PartialEq)]
pub(super) enum Value<'a> {
    Text(Cow<'a, str>),
    Number(f64),
    Whole(u64),
    List(Vec<u64>),
    Pairs(Vec<(String, String)>),
    Other,
}

/// Entry under construction.
#[derive(Debug, Default)]
pub(super) struct Fields {
    time_us: Option<u64>,
    decided_us: Vec<u64>,
    decided_order: Vec<u64>,
    client: Option<IpAddr>,
    method: Option<Method>,
    target: Option<String>,
    query: Option<String>,
    host: Option<String>,
    status: Option<u16>,
    received_bytes: Option<u64>,
    headers: Vec<(http::HeaderName, HeaderValue)>,
    route: Option<String>,
    verdict: Option<LoggedVerdict>,
    reason: Option<String>,
    rule: Option<String>,
    key: Option<String>,
    keys: Vec<(String, String)>,
}

impl Fields {
    /// Sets a part.
    ///
    /// # Errors
    /// The value does not fit.
    pub(super) fn set(&mut self, slot: &Slot, value: Value<'_>) -> Result<(), &'static str> {
        match slot {
            Slot::Time => self.time_us = Some(microseconds(&value).ok_or("the time is not readable")?),
            Slot::Decided => {
                if let Value::List(times) = value
                    && times.is_sorted()
                    && times.last().is_some_and(|time| *time < MAX_TIME_US)
                {
                    self.decided_us = times;
                }
            }
            Slot::DecidedOrder => {
                if let Value::List(order) = value {
                    self.decided_order = order;
                }
            }
            Slot::Client => self.client = text(&value).and_then(|text| address(&text)),
            Slot::Method => {
                let method = text(&value).and_then(|text| Method::from_bytes(text.as_bytes()).ok());
                self.method = Some(method.ok_or("the method is not a token")?);
            }
            Slot::Target => self.target = text(&value).map(Cow::into_owned),
            Slot::Query => self.query = text(&value).map(Cow::into_owned),
            Slot::Request => self.request_line(&text(&value).ok_or("the request line is not text")?)?,
            Slot::Host => self.host = text(&value).map(Cow::into_owned).filter(|host| !host.is_empty() && host != "-"),
            Slot::Status => self.status = whole(&value).and_then(|status| u16::try_from(status).ok()),
            Slot::ReceivedBytes => self.received_bytes = whole(&value),
            Slot::Route => self.route = text(&value).map(Cow::into_owned),
            Slot::Verdict => self.verdict = text(&value).and_then(|verdict| logged_verdict(&verdict)),
            Slot::Reason => self.reason = text(&value).map(Cow::into_owned),
            Slot::Rule => self.rule = text(&value).map(Cow::into_owned),
            Slot::Key => self.key = text(&value).map(Cow::into_owned),
            Slot::Keys => {
                if let Value::Pairs(pairs) = value {
                    self.keys = pairs;
                }
            }
            Slot::Header(name) => {
                let value = text(&value).filter(|value| value != "-");
                if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
                    self.headers.push((name.clone(), value));
                }
            }
        }
        Ok(())
    }

    /// Sets method and target from a request line such as `GET /a HTTP/1.1`.
    ///
    /// # Errors
    /// It has no such form.
    pub(super) fn request_line(&mut self, line: &str) -> Result<(), &'static str> {
        let mut parts = line.split(' ');
        let (Some(method), Some(target)) = (parts.next(), parts.next()) else {
            return Err("no readable request line");
        };
        self.method = Some(Method::from_bytes(method.as_bytes()).map_err(|_| "no readable request line")?);
        self.target = Some(target.to_owned());
        Ok(())
    }

    /// Returns the entry.
    ///
    /// # Errors
    /// The line lacks a time or a target.
    pub(super) fn finish(self) -> Result<Box<Entry>, &'static str> {
        let mut target = self.target.ok_or("no path")?;
        if let Some(query) = self.query.filter(|query| !query.is_empty() && !target.contains('?')) {
            target.push('?');
            target.push_str(query.trim_start_matches('?'));
        }
        let order = self.decided_order.into_iter().chain(std::iter::repeat(0));
        let decided = self.decided_us.into_iter().zip(order).map(|(us, order)| LogTime { us, order }).collect();
        let mut keys = self.keys;
        if let (Some(rule), Some(key), true) = (self.rule, self.key, keys.is_empty()) {
            keys.push((rule, key));
        }
        Ok(Box::new(Entry {
            time_us: self.time_us.ok_or("no time")?,
            decided,
            client: self.client,
            method: self.method.unwrap_or(Method::GET),
            target,
            host: self.host,
            status: self.status,
            received_bytes: self.received_bytes,
            headers: self.headers,
            logged: Logged { route: self.route, verdict: self.verdict, reason: self.reason, keys },
        }))
    }
}

fn text<'v>(value: &'v Value<'_>) -> Option<Cow<'v, str>> {
    match value {
        Value::Text(text) => Some(Cow::Borrowed(text)),
        Value::Whole(number) => Some(number.to_string().into()),
        Value::Number(number) => Some(number.to_string().into()),
        Value::List(_) | Value::Pairs(_) | Value::Other => None,
    }
}

fn whole(value: &Value<'_>) -> Option<u64> {
    match value {
        Value::Whole(number) => Some(*number),
        Value::Text(text) => text.parse().ok(),
        _ => None,
    }
}

fn microseconds(value: &Value<'_>) -> Option<u64> {
    let time = match value {
        Value::Text(text) => time::parse(text),
        #[expect(clippy::cast_precision_loss, reason = "the rounding error is below a microsecond until the year 2255")]
        Value::Whole(number) => time::from_number(*number as f64),
        Value::Number(number) => time::from_number(*number),
        _ => None,
    };
    time.filter(|time| *time < MAX_TIME_US)
}

/// Parses an address, with or without a port.
pub(super) fn address(text: &str) -> Option<IpAddr> {
    let parsed = text.parse().ok();
    parsed.or_else(|| text.parse::<std::net::SocketAddr>().ok().map(|address| address.ip()))
}

fn logged_verdict(text: &str) -> Option<LoggedVerdict> {
    match text {
        "allowed" | "exempt" => Some(LoggedVerdict::Passed),
        "denied" | "blocked" => Some(LoggedVerdict::Refused),
        _ => None,
    }
}
