//! Entry under construction, from the fields of a line.

use std::borrow::Cow;
use std::net::IpAddr;

use bytes::BytesMut;
use http::Method;

use super::entry::{Entry, LogTime, LoggedVerdict, Span};
use super::map::Slot;
use super::names::FieldNames;
use super::time;

/// Upper bound of times in microseconds since 1970, in the year 2255. Sums with windows and periods stay in range.
const MAX_TIME_US: u64 = 1 << 53;

/// Size of the buffers that the texts of many entries share.
const BUFFER_BYTES: usize = 64 * 1024;

/// Value of a JSON field.
#[derive(Debug, PartialEq)]
pub(super) enum Value<'a> {
    Text(Cow<'a, str>),
    Number(f64),
    Whole(u64),
    List(Cow<'a, [u64]>),
    Pairs(Vec<(String, String)>),
    Other,
}

/// Entry under construction. Each line begins with [`clear`](Self::clear).
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// Texts of this line; those of earlier ones were split off.
    text: BytesMut,
    parts: Parts,
    decided_us: Vec<u64>,
    decided_order: Vec<u64>,
    headers: Vec<(http::HeaderName, Span)>,
    keys: Vec<(Span, Span)>,
    /// Names of the fields of earlier lines.
    pub(super) names: FieldNames,
    /// Entry whose memory the next one takes.
    pub(super) spare: Option<Box<Entry>>,
}

#[derive(Debug, Default)]
struct Parts {
    time_us: Option<u64>,
    client: Option<IpAddr>,
    method: Option<Method>,
    target: Option<Span>,
    query: Option<Span>,
    host: Option<Span>,
    status: Option<u16>,
    received_bytes: Option<u64>,
    route: Option<Span>,
    verdict: Option<LoggedVerdict>,
    reason: Option<Span>,
    rule: Option<Span>,
    key: Option<Span>,
}

impl Fields {
    /// Begins a line.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.parts = Parts::default();
        self.decided_us.clear();
        self.decided_order.clear();
        self.headers.clear();
        self.keys.clear();
    }

    /// Sets a part.
    ///
    /// # Errors
    /// The value does not fit.
    pub(super) fn set(&mut self, slot: &Slot, value: Value<'_>) -> Result<(), &'static str> {
        match slot {
            Slot::Time => self.parts.time_us = Some(microseconds(&value).ok_or("the time is not readable")?),
            Slot::Decided => {
                if let Value::List(times) = value
                    && times.is_sorted()
                    && times.last().is_some_and(|time| *time < MAX_TIME_US)
                {
                    self.decided_us.clear();
                    self.decided_us.extend_from_slice(&times);
                }
            }
            Slot::DecidedOrder => {
                if let Value::List(order) = value {
                    self.decided_order.clear();
                    self.decided_order.extend_from_slice(&order);
                }
            }
            Slot::Client => self.parts.client = text(&value).and_then(|text| address(&text)),
            Slot::Method => {
                let method = text(&value).and_then(|text| Method::from_bytes(text.as_bytes()).ok());
                self.parts.method = Some(method.ok_or("the method is not a token")?);
            }
            Slot::Target => self.parts.target = self.copy(&value),
            Slot::Query => self.parts.query = self.copy(&value),
            Slot::Request => self.request_line(&text(&value).ok_or("the request line is not text")?)?,
            Slot::Host => {
                let is_known = text(&value).is_some_and(|host| !host.is_empty() && host != "-");
                self.parts.host = if is_known { self.copy(&value) } else { None };
            }
            Slot::Status => self.parts.status = whole(&value).and_then(|status| u16::try_from(status).ok()),
            Slot::ReceivedBytes => self.parts.received_bytes = whole(&value),
            Slot::Route => self.parts.route = self.copy(&value),
            Slot::Verdict => self.parts.verdict = text(&value).and_then(|verdict| logged_verdict(&verdict)),
            Slot::Reason => self.parts.reason = self.copy(&value),
            Slot::Rule => self.parts.rule = self.copy(&value),
            Slot::Key => self.parts.key = self.copy(&value),
            Slot::Keys => {
                if let Value::Pairs(pairs) = value {
                    self.clear_keys();
                    pairs.iter().for_each(|(rule, key)| self.add_key(rule, key));
                }
            }
            Slot::Header(name) => {
                if text(&value).is_some_and(|value| value != "-")
                    && let Some(span) = self.copy(&value)
                {
                    self.headers.push((name.clone(), span));
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
        self.parts.method = Some(Method::from_bytes(method.as_bytes()).map_err(|_| "no readable request line")?);
        self.parts.target = Some(self.append(target));
        Ok(())
    }

    /// Removes the keys of rules.
    pub(super) fn clear_keys(&mut self) {
        self.keys.clear();
    }

    /// Adds the key that was counted under `rule`.
    pub(super) fn add_key(&mut self, rule: &str, key: &str) {
        let pair = (self.append(rule), self.append(key));
        self.keys.push(pair);
    }

    /// Returns the entry.
    ///
    /// # Errors
    /// The line lacks a time or a target.
    pub(super) fn finish(&mut self) -> Result<Box<Entry>, &'static str> {
        let parts = std::mem::take(&mut self.parts);
        let mut target = parts.target.ok_or("no path")?;
        let time_us = parts.time_us.ok_or("no time")?;
        if let Some(query) = parts.query.filter(|query| query.start < query.end) {
            target = self.with_query(target, query);
        }
        let order = self.decided_order.iter().copied().chain(std::iter::repeat(0));
        let decided = self.decided_us.iter().copied().zip(order).map(|(us, order)| LogTime { us, order });
        if let (Some(rule), Some(key), true) = (parts.rule, parts.key, self.keys.is_empty()) {
            self.keys.push((rule, key));
        }
        let mut entry = self.spare.take().unwrap_or_default();
        entry.first_decided = decided.clone().next();
        let several = if self.decided_us.len() > 1 { self.decided_us.len() } else { 0 };
        refill(&mut entry.decided, several, decided);
        refill(&mut entry.headers, self.headers.len(), self.headers.drain(..));
        refill(&mut entry.keys, self.keys.len(), self.keys.drain(..));
        entry.time_us = time_us;
        entry.client = parts.client;
        entry.method = parts.method.unwrap_or(Method::GET);
        entry.status = parts.status;
        entry.received_bytes = parts.received_bytes;
        entry.verdict = parts.verdict;
        entry.text = self.text.split().freeze();
        entry.target = target;
        entry.host = parts.host;
        entry.route = parts.route;
        entry.reason = parts.reason;
        Ok(entry)
    }

    /// Returns `target` with `query`, unless it has one.
    fn with_query(&mut self, target: Span, query: Span) -> Span {
        let text = |span: Span| self.text.get(span.start as usize..span.end as usize).unwrap_or_default();
        if text(target).contains(&b'?') {
            return target;
        }
        let query = text(query);
        let start = query.iter().position(|byte| *byte != b'?').unwrap_or(query.len());
        let whole = [text(target), b"?", &query[start..]].concat();
        self.append_bytes(&whole)
    }

    /// Copies a text or a number.
    fn copy(&mut self, value: &Value<'_>) -> Option<Span> {
        Some(self.append(&text(value)?))
    }

    fn append(&mut self, text: &str) -> Span {
        self.append_bytes(text.as_bytes())
    }

    /// Appends to the texts of the line, which are shorter than 4 GB as lines are.
    fn append_bytes(&mut self, text: &[u8]) -> Span {
        if self.text.capacity() - self.text.len() < text.len() {
            self.text.reserve(text.len().max(BUFFER_BYTES));
        }
        let start = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        self.text.extend_from_slice(text);
        Span { start, end: u32::try_from(self.text.len()).unwrap_or(u32::MAX) }
    }
}

/// Replaces the items of a list by the first `count` of `items`, in memory of exactly their size.
fn refill<T>(list: &mut Vec<T>, count: usize, items: impl Iterator<Item = T>) {
    list.clear();
    list.reserve_exact(count);
    list.extend(items.take(count));
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
