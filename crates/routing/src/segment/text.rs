//! The text of one segment, read without being copied.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::super::normal::{hex, is_unreserved};

/// One segment of a path, or one label of a host, as it stands in the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    /// As received, matrix parameters included.
    whole: &'a str,
    /// Without the matrix parameters.
    value: &'a str,
    /// Whether `value` holds percent-escapes.
    is_encoded: bool,
}

/// The decoded bytes of a [`Text`].
#[derive(Clone)]
pub(super) struct Bytes<'a> {
    rest: &'a [u8],
    is_encoded: bool,
}

// === impl Text ===

impl<'a> Text<'a> {
    /// A segment of a path: what follows its first `;` is left out, and escapes are decoded.
    pub(crate) fn of_path(whole: &'a str) -> Self {
        // Both are one pass each over a short text; most hold neither.
        let value = whole.bytes().position(|byte| byte == b';').map_or(whole, |at| &whole[..at]);
        Self { whole, value, is_encoded: value.bytes().any(|byte| byte == b'%') }
    }

    /// A label of a host: nothing is decoded.
    pub(crate) fn of_host(whole: &'a str) -> Self {
        Self { whole, value: whole, is_encoded: false }
    }

    /// Whether nothing at all was received, not even matrix parameters.
    pub(super) fn is_blank(self) -> bool {
        self.whole.is_empty()
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

    pub(super) fn bytes(self) -> Bytes<'a> {
        Bytes { rest: self.value.as_bytes(), is_encoded: self.is_encoded }
    }

    /// The text without matrix parameters, its escapes as they stand in the path.
    pub(crate) fn encoded(self) -> &'a str {
        self.value
    }

    /// `part` of the decoded text, with escapes as the path would have them: an encoded slash is one again.
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

    /// The decoded text. Bytes that are no UTF-8 become U+FFFD, as in Java.
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

// === impl Bytes ===

impl Bytes<'_> {
    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Steps over one character; `false` at the end.
    pub(super) fn skip_char(&mut self) -> bool {
        let any = self.next().is_some();
        let mut ahead = self.clone();
        while ahead.next().is_some_and(|byte| byte & 0xC0 == 0x80) {
            *self = ahead.clone();
        }
        any
    }

    /// Steps over `literal`, or not at all.
    pub(super) fn skip_literal(&mut self, literal: &str) -> bool {
        let mut ahead = self.clone();
        let skipped = literal.bytes().all(|byte| ahead.next() == Some(byte));
        if skipped {
            *self = ahead;
        }
        skipped
    }
}

impl Iterator for Bytes<'_> {
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
