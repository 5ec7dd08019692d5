//! LogEntry under construction, from the fields of a line.

use std::borrow::Cow;
use std::net::IpAddr;

use bytes::BytesMut;
use http::Method;

use super::field_names::{FieldCounts, FieldNames};
use super::log_entry::{LogEntry, LogTime, LoggedVerdict, Span};
use super::map::Slot;
use super::time::{self, Clock};

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

impl From<serde_json::Value> for Value<'_> {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::String(text) => Self::Text(text.into()),
            serde_json::Value::Number(number) => match number.as_u64() {
                Some(whole) => Self::Whole(whole),
                None => number.as_f64().filter(|_| number.is_f64()).map_or(Self::Other, Self::Number),
            },
            serde_json::Value::Array(items) => {
                Self::List(items.iter().filter_map(serde_json::Value::as_u64).collect::<Vec<_>>().into())
            }
            serde_json::Value::Object(entries) => {
                let pair = |(name, value): (String, serde_json::Value)| Some((name, value.as_str()?.to_owned()));
                Self::Pairs(entries.into_iter().filter_map(pair).collect())
            }
            serde_json::Value::Null | serde_json::Value::Bool(_) => Self::Other,
        }
    }
}

/// LogEntry under construction. Each line begins with [`clear`](Self::clear).
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// Texts of this line; those of earlier ones were split off.
    text: BytesMut,
    parts: Parts,
    decided_us: Vec<u64>,
    decided_order: Vec<u64>,
    headers: Vec<(http::HeaderName, Span)>,
    keys: Vec<(Span, Span)>,
    clock: Clock,
    /// Names of the fields of earlier lines.
    pub(super) names: FieldNames,
    /// Fields that lines have.
    pub(super) counts: FieldCounts,
    /// LogEntry whose memory the next one takes.
    pub(super) spare: Option<Box<LogEntry>>,
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
        match (slot, value) {
            (Slot::Skipped, _) => {}
            (_, Value::Text(text)) => return self.set_text(slot, &text),
            (Slot::Time, value) => {
                self.parts.time_us = Some(number_of_time(&value).ok_or("the time is not readable")?);
            }
            (Slot::Decided, Value::List(times)) => {
                if times.is_sorted() && times.last().is_some_and(|time| *time < MAX_TIME_US) {
                    self.decided_us.clear();
                    self.decided_us.extend_from_slice(&times);
                }
            }
            (Slot::DecidedOrder, Value::List(order)) => {
                self.decided_order.clear();
                self.decided_order.extend_from_slice(&order);
            }
            (Slot::Status, Value::Whole(status)) => self.parts.status = u16::try_from(status).ok(),
            (Slot::ReceivedBytes, Value::Whole(bytes)) => self.parts.received_bytes = Some(bytes),
            (Slot::Status, _) => self.parts.status = None,
            (Slot::ReceivedBytes, _) => self.parts.received_bytes = None,
            (Slot::Keys, Value::Pairs(pairs)) => {
                self.clear_keys();
                pairs.iter().for_each(|(rule, key)| self.add_key(rule, key));
            }
            (_, Value::Whole(number)) => return self.set_text(slot, &number.to_string()),
            (_, Value::Number(number)) => return self.set_text(slot, &number.to_string()),
            (Slot::Method, _) => return Err("the method is not a token"),
            (Slot::Request, _) => return Err("the request line is not text"),
            (_, Value::List(_) | Value::Pairs(_) | Value::Other) => {}
        }
        Ok(())
    }

    /// Sets a part to a text.
    ///
    /// # Errors
    /// The text does not fit.
    pub(super) fn set_text(&mut self, slot: &Slot, text: &str) -> Result<(), &'static str> {
        match slot {
            Slot::Time => {
                let time = self.clock.parse(text).filter(|time| *time < MAX_TIME_US);
                self.parts.time_us = Some(time.ok_or("the time is not readable")?);
            }
            Slot::Client => self.parts.client = address(text),
            Slot::Method => {
                let method = Method::from_bytes(text.as_bytes());
                self.parts.method = Some(method.map_err(|_| "the method is not a token")?);
            }
            Slot::Target => self.parts.target = Some(self.append(text)),
            Slot::Query => self.parts.query = Some(self.append(text)),
            Slot::Request => self.request_line(text)?,
            Slot::Host => self.parts.host = (!text.is_empty() && text != "-").then(|| self.append(text)),
            Slot::Status => self.parts.status = text.parse().ok(),
            Slot::ReceivedBytes => self.parts.received_bytes = text.parse().ok(),
            Slot::Route => self.parts.route = Some(self.append(text)),
            Slot::Verdict => self.parts.verdict = logged_verdict(text),
            Slot::Reason => self.parts.reason = Some(self.append(text)),
            Slot::Rule => self.parts.rule = Some(self.append(text)),
            Slot::Key => self.parts.key = Some(self.append(text)),
            Slot::Header(name) if text != "-" => {
                let span = self.append(text);
                self.headers.push((name.clone(), span));
            }
            Slot::Skipped | Slot::Header(_) | Slot::Decided | Slot::DecidedOrder | Slot::Keys => {}
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
    pub(super) fn finish(&mut self) -> Result<Box<LogEntry>, &'static str> {
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

fn number_of_time(value: &Value<'_>) -> Option<u64> {
    let time = match value {
        #[expect(clippy::cast_precision_loss, reason = "the rounding error is below a microsecond until the year 2255")]
        Value::Whole(number) => time::from_number(*number as f64),
        Value::Number(number) => time::from_number(*number),
        Value::Text(_) | Value::List(_) | Value::Pairs(_) | Value::Other => None,
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
        "allowed" => Some(LoggedVerdict::Allowed),
        "denied" => Some(LoggedVerdict::Denied),
        "exempt" => Some(LoggedVerdict::Exempt),
        "blocked" => Some(LoggedVerdict::Blocked),
        _ => None,
    }
}
