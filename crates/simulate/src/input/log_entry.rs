//! One request of a log.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Uri};

/// Time of an arrival or of a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogTime {
    /// Microseconds since 1970.
    pub us: u64,
    /// Position among the decisions of the same microsecond.
    pub order: u64,
}

impl LogTime {
    /// End of all times.
    pub const MAX: Self = Self { us: u64::MAX, order: u64::MAX };
}

/// Place of a text in the buffer of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

/// One request of a log. Its texts share one buffer, so that reading a line takes few allocations.
#[derive(Clone, Debug, Default)]
pub struct LogEntry {
    /// Arrival in microseconds since 1970.
    pub time_us: u64,
    /// Time of the first decision of the store; `None` if the log has none.
    pub first_decided: Option<LogTime>,
    /// Times of all decisions in their order, if there are several.
    pub decided: Vec<LogTime>,
    /// Client address.
    pub client: Option<IpAddr>,
    /// Method.
    pub method: Method,
    /// Status of the response.
    pub status: Option<u16>,
    /// Bytes of the request body.
    pub received_bytes: Option<u64>,
    /// Verdict of the limiters of the gateway that wrote the line.
    pub verdict: Option<LoggedVerdict>,
    pub(super) text: Bytes,
    pub(super) target: Span,
    pub(super) host: Option<Span>,
    pub(super) headers: Vec<(HeaderName, Span)>,
    pub(super) route: Option<Span>,
    pub(super) reason: Option<Span>,
    pub(super) keys: Vec<(Span, Span)>,
}

/// Verdict in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedVerdict {
    /// The request was allowed.
    Allowed,
    /// The request was denied.
    Denied,
    /// An access list exempted the request.
    Exempt,
    /// An access list blocked the request.
    Blocked,
}

impl LogEntry {
    /// Returns the head of the request, with the parts that the log has; `None` if its target is malformed.
    pub fn head(&self) -> Option<Parts> {
        let (mut head, ()) = Request::new(()).into_parts();
        head.method = self.method.clone();
        head.uri = Uri::from_maybe_shared(self.target()).ok()?;
        head.headers.insert(HOST, self.host().unwrap_or(HeaderValue::from_static("localhost")));
        for (name, value) in self.headers() {
            head.headers.append(name, value);
        }
        if let Some(bytes @ 1..) = self.received_bytes {
            head.headers.insert(CONTENT_LENGTH, bytes.into());
        }
        Some(head)
    }

    /// Returns the time at which the request is replayed.
    pub fn at(&self) -> LogTime {
        self.first_decided.unwrap_or(LogTime { us: self.time_us, order: 0 })
    }

    /// Moves the request to the time `us`, without times of decisions.
    pub fn move_to(&mut self, us: u64) {
        self.time_us = us;
        self.first_decided = None;
        self.decided.clear();
    }

    /// Returns the path and query.
    pub fn target(&self) -> Bytes {
        self.slice(self.target)
    }

    /// Returns the requested host; `None` if it cannot be a field value.
    pub fn host(&self) -> Option<HeaderValue> {
        self.value(self.host?)
    }

    /// Returns the header fields of the request that the log has.
    pub fn headers(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        self.headers.iter().filter_map(|(name, value)| Some((name.clone(), self.value(*value)?)))
    }

    /// Returns the id of the route that the gateway chose.
    pub fn route(&self) -> Option<&[u8]> {
        self.route.map(|span| self.bytes(span))
    }

    /// Returns the reason of a response that the gateway made; empty without one.
    pub fn reason(&self) -> &[u8] {
        self.reason.map(|span| self.bytes(span)).unwrap_or_default()
    }

    /// Returns the key that the gateway counted under `rule`.
    pub fn key_of(&self, rule: &str) -> Option<HeaderValue> {
        let (_, key) = self.keys.iter().find(|(name, _)| self.bytes(*name) == rule.as_bytes())?;
        self.value(*key)
    }

    /// Returns the names of the rules under which the gateway counted a key.
    pub fn rules_with_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|(name, _)| self.bytes(*name))
    }

    fn bytes(&self, span: Span) -> &[u8] {
        self.text.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    fn slice(&self, span: Span) -> Bytes {
        self.text.slice_ref(self.bytes(span))
    }

    /// Returns a text as a field value, without a copy.
    fn value(&self, span: Span) -> Option<HeaderValue> {
        // A log does not show the original of bytes that are not ASCII.
        self.bytes(span).is_ascii().then(|| HeaderValue::from_maybe_shared(self.slice(span)).ok())?
    }
}
