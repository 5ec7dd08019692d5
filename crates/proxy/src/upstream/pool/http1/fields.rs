//! Fields of a response head or of trailers, and the framing that follows from them (RFC 9112 §6.3).

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};

use crate::http::fields::has_token;
use crate::upstream::pool::http1::error::Http1Error;

/// Framing of a body, and reuse of the connection, by the fields of a head.
#[derive(Debug, Default)]
pub(super) struct Framing {
    pub(super) length: Length,
    /// Number of fields with transfer codings.
    pub(super) codings: usize,
    pub(super) is_chunked: bool,
    pub(super) is_close: bool,
    pub(super) is_keep_alive: bool,
}

/// Length of a body by the fields `Content-Length`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Length {
    /// There is no such field.
    #[default]
    Unknown,
    Known(u64),
    /// The fields contradict each other, or are no numbers.
    Invalid,
}

impl Framing {
    /// Notes a field.
    pub(super) fn note(&mut self, name: &HeaderName, value: &HeaderValue) {
        if *name == CONTENT_LENGTH {
            for part in value.as_bytes().split(|byte| *byte == b',') {
                let length = parse_length(part.trim_ascii());
                self.length = match self.length {
                    Length::Unknown => length,
                    before if before == length => length,
                    _ => Length::Invalid,
                };
            }
        } else if *name == TRANSFER_ENCODING {
            self.codings += 1;
            self.is_chunked = value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
        } else if *name == CONNECTION {
            self.is_close |= has_token(value, b"close");
            self.is_keep_alive |= has_token(value, b"keep-alive");
        }
    }
}

fn parse_length(digits: &[u8]) -> Length {
    let text = if digits.iter().all(u8::is_ascii_digit) { std::str::from_utf8(digits).ok() } else { None };
    text.and_then(|digits| digits.parse().ok()).map_or(Length::Invalid, Length::Known)
}

/// Adds `fields`, parsed from `parsed`, to `headers`. `bytes` is a copy of what was parsed, which the values share. Calls
/// `note` with each.
pub(super) fn append_fields(
    headers: &mut HeaderMap,
    bytes: &Bytes,
    parsed: &[u8],
    fields: &[httparse::Header<'_>],
    mut note: impl FnMut(&HeaderName, &HeaderValue),
) -> Result<(), Http1Error> {
    headers.reserve(fields.len());
    for field in fields {
        let invalid = || Http1Error::Invalid("a field");
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| invalid())?;
        let start = field.value.as_ptr().addr().wrapping_sub(parsed.as_ptr().addr());
        let value = bytes.get(start..start.saturating_add(field.value.len())).unwrap_or_default();
        let value = HeaderValue::from_maybe_shared(bytes.slice_ref(value)).map_err(|_| invalid())?;
        note(&name, &value);
        headers.append(name, value);
    }
    Ok(())
}
