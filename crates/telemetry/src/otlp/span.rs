//! Finished spans with the attributes of OpenTelemetry's semantic conventions.

use std::borrow::Cow;

/// Kind of a span, with its number in OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work within the gateway.
    Internal = 1,
    /// Request of a client.
    Server = 2,
    /// Request of the gateway to another server.
    Client = 3,
}

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text.
    Text(Cow<'static, str>),
    /// Number.
    Number(i64),
}

/// Attribute of a span.
pub type Attribute = (&'static str, Value);

/// Finished span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Id of the span.
    pub id: u64,
    /// Id of the parent; `None` for a root.
    pub parent: Option<u64>,
    /// Name of the operation.
    pub name: Cow<'static, str>,
    /// Kind.
    pub kind: SpanKind,
    /// Start in nanoseconds since the Unix epoch.
    pub start: u64,
    /// End in nanoseconds since the Unix epoch.
    pub end: u64,
    /// Attributes.
    pub attributes: Vec<Attribute>,
    /// True if the operation failed.
    pub is_error: bool,
}

/// Finished spans of one request.
#[derive(Debug)]
pub struct Trace {
    /// Id of the trace.
    pub id: u128,
    /// Field `tracestate` of the client.
    pub state: Option<Box<str>>,
    /// Spans, the one of the server last.
    pub spans: Vec<Span>,
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}
