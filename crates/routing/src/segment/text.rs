//! The text of one segment, decoded without being copied.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::normalize::{hex, is_unreserved};

/// One segment of a request path, or one label of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentText<'a> {
    /// As received, matrix parameters included.
    raw: &'a str,
    /// Without the matrix parameters.
    value: &'a str,
    /// True if `value` contains percent-escapes.
    is_encoded: bool,
}

/// Iterator over the decoded bytes of a [`SegmentText`].
#[derive(Clone)]
pub(super) struct DecodedBytes<'a> {
    rest: &'a [u8],
    is_encoded: bool,
}

// === impl SegmentText ===

impl<'a> SegmentText<'a> {
    /// Creates the text of a path segment: text from the first `;` on is ignored, and escapes are decoded.
    pub(crate) fn of_path(raw: &'a str) -> Self {
        // Two passes over a short text, since most segments contain neither `;` nor `%`.
        let value = raw.bytes().position(|byte| byte == b';').map_or(raw, |at| &raw[..at]);
        Self { raw, value, is_encoded: value.bytes().any(|byte| byte == b'%') }
    }

    /// Creates the text of a host label, which is not decoded.
    pub(super) fn of_host(raw: &'a str) -> Self {
        Self { raw, value: raw, is_encoded: false }
    }

    /// Returns true if the segment is empty and has no matrix parameters either.
    pub(super) fn raw_is_empty(self) -> bool {
        self.raw.is_empty()
    }

    pub(super) fn is_empty(self) -> bool {
        self.value.is_empty()
    }

    pub(super) fn equals(self, literal: &str) -> bool {
        if self.is_encoded {
            let mut bytes = self.bytes();
            bytes.skip_literal(literal) && bytes.is_at_end()
        } else {
            self.value == literal
        }
    }

    pub(super) fn bytes(self) -> DecodedBytes<'a> {
        DecodedBytes { rest: self.value.as_bytes(), is_encoded: self.is_encoded }
    }

    /// Returns the text without matrix parameters, its escapes as in the path.
    pub(super) fn encoded(self) -> &'a str {
        self.value
    }

    /// Encodes `part` of the decoded text as the path would: a decoded slash becomes `%2F` again.
    pub(super) fn encode(self, part: &str) -> String {
        if !self.is_encoded {
            return part.to_owned();
        }
        let mut out = String::with_capacity(part.len());
        for &byte in part.as_bytes() {
            if is_unreserved(byte) {
                out.push(char::from(byte));
            } else {
                let _ = write!(out, "%{byte:02X}");
            }
        }
        out
    }

    /// Returns the decoded text. Bytes that are not UTF-8 become U+FFFD, as in Java.
    pub(crate) fn decoded(self) -> Cow<'a, str> {
        if !self.is_encoded {
            return Cow::Borrowed(self.value);
        }
        let bytes: Vec<u8> = self.bytes().collect();
        Cow::Owned(
            String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
        )
    }
}

// === impl DecodedBytes ===

impl DecodedBytes<'_> {
    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Skips one character; returns false at the end.
    pub(super) fn skip_char(&mut self) -> bool {
        let any = self.next().is_some();
        let mut ahead = self.clone();
        while ahead.next().is_some_and(|byte| byte & 0xC0 == 0x80) {
            *self = ahead.clone();
        }
        any
    }

    /// Skips `literal` if the text starts with it; returns false otherwise.
    pub(super) fn skip_literal(&mut self, literal: &str) -> bool {
        let mut ahead = self.clone();
        let skipped = literal.bytes().all(|byte| ahead.next() == Some(byte));
        if skipped {
            *self = ahead;
        }
        skipped
    }
}

impl Iterator for DecodedBytes<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        if self.is_encoded
            && let [b'%', high, low, rest @ ..] = self.rest
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            self.rest = rest;
            return Some(high << 4 | low);
        }
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }
}
