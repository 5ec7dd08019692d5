//! Finished spans with the attributes of OpenTelemetry's semantic conventions, and the requests that export them in protobuf.
//! They are written without a library: the messages are few and only written. Field numbers:
//! `opentelemetry/proto/trace/v1/trace.proto`.

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

/// Wire types of protobuf.
const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const FIXED32: u8 = 5;

/// Code of a failed span.
const STATUS_ERROR: u64 = 2;
/// Usual size of a span.
const SPAN_BYTES: usize = 512;
/// Flag of a sampled trace.
const SAMPLED: u32 = 1;

/// Returns an `ExportTraceServiceRequest` with the spans of `traces`.
pub(super) fn export_request(resource: &[(String, String)], traces: &[Trace]) -> Vec<u8> {
    let spans: usize = traces.iter().map(|trace| trace.spans.len()).sum();
    let mut request = Message(Vec::with_capacity(SPAN_BYTES * spans));
    request.message(1, |resource_spans| {
        resource_spans.message(1, |message| {
            for (name, value) in resource {
                message.message(1, |attribute| {
                    attribute.bytes(1, name.as_bytes());
                    attribute.message(2, |text| text.bytes(1, value.as_bytes()));
                });
            }
        });
        resource_spans.message(2, |scope_spans| {
            scope_spans.message(1, |scope| {
                scope.bytes(1, b"tollgate");
                scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
            });
            for trace in traces {
                for span in &trace.spans {
                    scope_spans.message(2, |message| message.span(trace, span));
                }
            }
        });
    });
    request.0
}

/// Encoded message.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn span(&mut self, trace: &Trace, span: &Span) {
        self.bytes(1, &trace.id.to_be_bytes());
        self.bytes(2, &span.id.to_be_bytes());
        if let Some(state) = &trace.state {
            self.bytes(3, state.as_bytes());
        }
        if let Some(parent) = span.parent {
            self.bytes(4, &parent.to_be_bytes());
        }
        self.bytes(5, span.name.as_bytes());
        self.number(6, span.kind as u64);
        self.fixed64(7, span.start);
        self.fixed64(8, span.end);
        for (name, value) in &span.attributes {
            self.message(9, |attribute| {
                attribute.bytes(1, name.as_bytes());
                attribute.message(2, |any| match value {
                    Value::Text(text) => any.bytes(1, text.as_bytes()),
                    Value::Number(number) => any.number(3, number.cast_unsigned()),
                });
            });
        }
        if span.is_error {
            self.message(15, |status| status.number(3, STATUS_ERROR));
        }
        self.key(16, FIXED32);
        self.0.extend(SAMPLED.to_le_bytes());
    }

    fn key(&mut self, field: u64, wire_type: u8) {
        self.varint(field << 3 | u64::from(wire_type));
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7F) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.key(field, VARINT);
        self.varint(value);
    }

    fn fixed64(&mut self, field: u64, value: u64) {
        self.key(field, FIXED64);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.key(field, BYTES);
        self.varint(value.len() as u64);
        self.0.extend(value);
    }

    /// Writes a message in place: with one byte for its length, and more if it turns out to be longer.
    fn message(&mut self, field: u64, write: impl FnOnce(&mut Self)) {
        self.key(field, BYTES);
        let start = self.0.len();
        self.0.push(0);
        write(self);
        let mut length = self.0.len() - start - 1;
        let mut at = start;
        while length >= 0x80 {
            self.0.insert(at, (length & 0x7F) as u8 | 0x80);
            length >>= 7;
            at += 1;
        }
        self.0[at] = length as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_message_takes_as_many_bytes_as_it_needs() {
        for (length, prefix) in [
            (0, &[0x0A, 0][..]),
            (127, &[0x0A, 127]),
            (128, &[0x0A, 0x80, 1]),
            (16_383, &[0x0A, 0xFF, 0x7F]),
            (16_384, &[0x0A, 0x80, 0x80, 1]),
            (2_097_152, &[0x0A, 0x80, 0x80, 0x80, 1]),
        ] {
            let mut message = Message::default();
            message.message(1, |inner| inner.0.resize(inner.0.len() + length, 7));
            assert!(message.0.starts_with(prefix), "{length}");
            assert_eq!(message.0[prefix.len()..], vec![7; length], "{length}");
        }
    }
}
