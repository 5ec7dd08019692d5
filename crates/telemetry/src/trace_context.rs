//! Trace contexts in header fields: `traceparent` of W3C, read and written here, and the formats of Zipkin (`b3`).

use http::header::HeaderValue;
use http::{HeaderMap, HeaderName};

use crate::b3;
use tollgate_config::TraceFormat;

/// Field with the context of the calling span.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Field with data of tracing systems, forwarded as it is.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Flag of a sampled trace.
const SAMPLED: u8 = 1;
/// Flag of a trace id whose last 56 bits are random (level 2 of the specification, §2.3.3.5). Other flags must not be passed on.
const RANDOM: u8 = 2;
/// Length of the fields of version 00.
const LENGTH: usize = 55;

/// Identity of a span with the sampling decision of its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Id of the trace, never 0.
    pub trace_id: u128,
    /// Id of the span, never 0.
    pub span_id: u64,
    /// True if the trace is recorded.
    pub is_sampled: bool,
    /// True if the trace id is known to be random.
    pub is_random: bool,
}

/// Context of the caller, as a field of any format has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerContext {
    /// Ids of the trace and of the caller's span; `None` for a decision alone.
    pub ids: Option<(u128, u64)>,
    /// Decision about sampling; `None` leaves it to the gateway.
    pub is_sampled: Option<bool>,
    /// True if the trace id is known to be random.
    pub is_random: bool,
}

impl TraceContext {
    /// Reads the context of the caller. A missing, repeated or invalid field is no context.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let value = values.next()?;
        if values.next().is_some() {
            return None;
        }
        Self::parse(value.as_bytes())
    }

    /// Parses a field value. Later versions may have further parts behind those of version 00.
    fn parse(value: &[u8]) -> Option<Self> {
        let (version_00, rest) = value.split_at_checked(LENGTH)?;
        let [version, trace_id, span_id, flags] = parts(version_00)?;
        let version = hex(version)?;
        let is_valid = match version {
            0 => rest.is_empty(),
            0xFF => false,
            _ => rest.is_empty() || rest.starts_with(b"-"),
        };
        let (trace_id, span_id) = (hex(trace_id)?, u64::try_from(hex(span_id)?).ok()?);
        let flags = u8::try_from(hex(flags)?).ok()?;
        (is_valid && trace_id != 0 && span_id != 0).then_some(Self {
            trace_id,
            span_id,
            is_sampled: flags & SAMPLED != 0,
            is_random: flags & RANDOM != 0,
        })
    }

    /// Returns the field value, of version 00.
    pub fn header(&self) -> HeaderValue {
        let mut text = [b'-'; LENGTH];
        write_hex(&mut text[..2], 0);
        write_hex(&mut text[3..35], self.trace_id);
        write_hex(&mut text[36..52], self.span_id.into());
        let flags = (SAMPLED * u8::from(self.is_sampled)) | (RANDOM * u8::from(self.is_random));
        write_hex(&mut text[53..], flags.into());
        // Digits and dashes are always a valid value.
        HeaderValue::from_bytes(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

/// Splits the parts of version 00; `None` unless dashes separate them.
fn parts(value: &[u8]) -> Option<[&[u8]; 4]> {
    let dashes = [2, 35, 52].iter().all(|at| value[*at] == b'-');
    dashes.then(|| [&value[..2], &value[3..35], &value[36..52], &value[53..]])
}

/// Reads hexadecimal digits in lower case.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

/// Writes the last digits of `number` that fit.
fn write_hex(text: &mut [u8], mut number: u128) {
    for byte in text.iter_mut().rev() {
        *byte = b"0123456789abcdef"[(number & 0xF) as usize];
        number >>= 4;
    }
}

/// Fields of the trace context of W3C.
static W3C_FIELDS: [HeaderName; 2] = [TRACEPARENT, TRACESTATE];

/// Reads the context of the caller in `format`. Missing, repeated and invalid fields are no context.
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

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_valid_field_is_read_and_written() {
        let context = TraceContext::parse(VALID.as_bytes());
        let expected = TraceContext {
            trace_id: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c,
            span_id: 0xb7ad_6b71_6920_3331,
            is_sampled: true,
            is_random: false,
        };
        assert_eq!(context, Some(expected));
        assert_eq!(expected.header(), VALID);
        let unsampled = TraceContext { is_sampled: false, ..expected };
        assert_eq!(unsampled.header(), VALID.replace("-01", "-00").as_str());
        assert_eq!(TraceContext::parse(unsampled.header().as_bytes()), Some(unsampled));
        for (received, written) in [("-03", "-03"), ("-02", "-02"), ("-ff", "-03"), ("-05", "-01")] {
            let context = TraceContext::parse(VALID.replace("-01", received).as_bytes());
            assert_eq!(
                context.map(|context| context.header()),
                HeaderValue::try_from(VALID.replace("-01", written)).ok()
            );
        }
        for later in ["cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what", &VALID.replace("00-", "01-")] {
            assert_eq!(TraceContext::parse(later.as_bytes()), Some(expected), "{later}");
        }
        assert!(TraceContext::parse(VALID.replace("-01", "-ff").as_bytes()).is_some_and(|context| context.is_sampled));
    }

    #[test]
    fn an_invalid_field_is_no_context() {
        for invalid in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.x",
            "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01",
            "00-0af7651916cd43dd8448eb211c80319cb-7ad6b7169203331-01",
            "0g-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceContext::parse(invalid.as_bytes()), None, "{invalid}");
        }
        let mut headers = HeaderMap::new();
        headers.append(TRACEPARENT, HeaderValue::from_static(VALID));
        assert!(TraceContext::of(&headers).is_some());
        headers.append(TRACEPARENT, HeaderValue::from_static(VALID));
        assert_eq!(TraceContext::of(&headers), None, "which of the two is the caller?");
    }
}
