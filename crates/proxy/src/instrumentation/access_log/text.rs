//! Times, addresses, numbers and strings of lines, without intermediate strings.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;

use tollgate_telemetry::logs::fields::{escape_json, is_unsafe};

/// Text of one second, formatted again for another one only.
#[derive(Debug, Default)]
pub(super) struct FormattedTime {
    second: u64,
    text: String,
}

impl FormattedTime {
    /// Returns the text of a `second` since the Unix epoch, in a `format` that is the same for all of them.
    pub(super) fn of(&mut self, second: u64, format: &str) -> &str {
        if second != self.second || self.text.is_empty() {
            self.second = second;
            let time = i64::try_from(second).ok().and_then(|second| Timestamp::from_second(second).ok());
            self.text = time.map(|time| time.strftime(format).to_string()).unwrap_or_default();
        }
        &self.text
    }
}

/// Writes a whole number.
pub(super) fn number(out: &mut String, value: impl itoa::Integer) {
    out.push_str(itoa::Buffer::new().format(value));
}

/// Writes milliseconds with three decimals.
pub(super) fn milliseconds(out: &mut String, duration: Duration) {
    let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    number(out, us / 1000);
    out.push('.');
    padded(out, us % 1000, 3);
}

/// Writes `value` with at least `digits` digits.
pub(super) fn padded(out: &mut String, value: u64, digits: usize) {
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(value);
    for _ in text.len()..digits {
        out.push('0');
    }
    out.push_str(text);
}

/// Writes a client address.
pub(super) fn address(out: &mut String, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            for (position, octet) in address.octets().into_iter().enumerate() {
                if position > 0 {
                    out.push('.');
                }
                number(out, octet);
            }
        }
        // Writing to a `String` cannot fail.
        IpAddr::V6(address) => drop(write!(out, "{address}")),
    }
}

/// Bytes that no format escapes: printable ASCII without quotes and backslashes.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = b' ';
    while byte <= b'~' {
        plain[byte as usize] = byte != b'"' && byte != b'\\';
        byte += 1;
    }
    plain
};

/// Returns true if no format escapes any of `bytes`.
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| PLAIN[usize::from(*byte)])
}

/// Writes a JSON string. Bytes that are not UTF-8 become U+FFFD; characters that a terminal would obey are escaped.
pub(super) fn quoted(out: &mut String, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => quoted_text(out, text),
        Err(_) => escaped(out, bytes),
    }
}

/// Writes a JSON string, as [`quoted`] does.
pub(super) fn quoted_text(out: &mut String, text: &str) {
    if !is_plain(text.as_bytes()) {
        return escaped(out, text.as_bytes());
    }
    out.push('"');
    out.push_str(text);
    out.push('"');
}

#[cold]
fn escaped(out: &mut String, bytes: &[u8]) {
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.find(|char: char| matches!(char, '"' | '\\') || is_unsafe(char)) {
            let (plain, from) = rest.split_at(at);
            out.push_str(plain);
            let mut chars = from.chars();
            match chars.next() {
                Some(mark @ ('"' | '\\')) => out.extend(['\\', mark]),
                Some(control) => escape_json(control, out),
                None => {}
            }
            rest = chars.as_str();
        }
        out.push_str(rest);
        if !chunk.invalid().is_empty() {
            out.push('\u{fffd}');
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn strings_survive_as_json_and_control_nothing() {
        for bytes in [
            &b"plain"[..],
            b"",
            b"\"\\\"",
            b"a\nb\x1b[31m\x7f",
            "é \u{85}\u{2028}\u{202e}\u{200f}\u{200b}\u{e0041}".as_bytes(),
        ] {
            let mut out = String::new();
            quoted(&mut out, bytes);
            assert_eq!(serde_json::from_str::<String>(&out).ok().as_deref().map(str::as_bytes), Some(bytes), "{out}");
            assert!(!out.contains(is_unsafe), "{out}");
        }
        let mut out = String::new();
        quoted(&mut out, b"a\xff\xfeb");
        assert_eq!(out, "\"a\u{fffd}\u{fffd}b\"");
    }

    #[test]
    fn addresses_are_written_as_rust_does() {
        for text in ["0.0.0.0", "192.0.2.255", "::1", "2001:db8::a:1", "::ffff:192.0.2.1"] {
            let mut out = String::new();
            address(&mut out, text.parse().unwrap());
            assert_eq!(out, text);
        }
    }

    #[test]
    fn bytes_that_a_format_escapes_are_not_plain() {
        for byte in 0..=u8::MAX {
            let is_escaped = !(b' '..=b'~').contains(&byte) || [b'"', b'\\'].contains(&byte);
            assert_eq!(is_plain(&[b'a', byte, b'b']), !is_escaped, "{byte}");
        }
        assert!(is_plain(b""));
    }

    #[test]
    fn milliseconds_have_three_decimals() {
        let mut out = String::new();
        milliseconds(&mut out, Duration::from_nanos(12_034_999));
        assert_eq!(out, "12.034");
    }
}
