//! Formats of trace contexts in header fields.

use http::{HeaderMap, HeaderName};
use tollgate_config::TraceFormat;

use crate::b3;
use crate::trace_context::{CallerContext, TRACEPARENT, TRACESTATE, TraceContext};

/// Fields of the trace context of W3C.
static W3C_FIELDS: [HeaderName; 2] = [TRACEPARENT, TRACESTATE];

/// Reads the context of the caller in `format`. Missing, repeated and invalid fields are no context.
#[must_use]
pub fn read(format: TraceFormat, headers: &HeaderMap) -> Option<CallerContext> {
    match format {
        TraceFormat::W3c => {
            let TraceContext { trace_id, span_id, is_sampled, is_random } = TraceContext::of(headers)?;
            Some(CallerContext { ids: Some((trace_id, span_id)), is_sampled: Some(is_sampled), is_random })
        }
        TraceFormat::B3 => b3::single(headers),
        TraceFormat::B3Multi => b3::several(headers),
    }
}

/// Writes `context` in each of `formats`.
pub fn write(formats: &[TraceFormat], context: &TraceContext, headers: &mut HeaderMap) {
    for format in formats {
        match format {
            TraceFormat::W3c => drop(headers.insert(TRACEPARENT, context.header())),
            TraceFormat::B3 => b3::write_single(headers, context),
            TraceFormat::B3Multi => b3::write_several(headers, context),
        }
    }
}

/// Removes the fields of `format`.
pub fn remove(format: TraceFormat, headers: &mut HeaderMap) {
    fields(format).iter().for_each(|name| drop(headers.remove(name)));
}

/// Returns true if `headers` have a field of one of `formats`.
#[must_use]
pub fn is_in(headers: &HeaderMap, formats: &[TraceFormat]) -> bool {
    formats.iter().any(|format| fields(*format).iter().any(|name| headers.contains_key(name)))
}

fn fields(format: TraceFormat) -> &'static [HeaderName] {
    match format {
        TraceFormat::W3c => &W3C_FIELDS,
        TraceFormat::B3 => &b3::FIELD,
        TraceFormat::B3Multi => &b3::FIELDS,
    }
}
