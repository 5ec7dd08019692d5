//! Times, addresses, numbers and strings of lines, without intermediate strings.

use std::io::Write as _;
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
pub(super) fn number(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Writes milliseconds with three decimals.
pub(super) fn milliseconds(out: &mut Vec<u8>, duration: Duration) {
    let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    number(out, us / 1000);
    out.push(b'.');
    out.extend_from_slice(&digits::<3>(us % 1000));
}

/// Returns the last `N` decimal digits of `value`.
pub(super) fn digits<const N: usize>(mut value: u64) -> [u8; N] {
    let mut text = [0; N];
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
    text
}

/// Writes a client address.
pub(super) fn address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            for (position, octet) in address.octets().into_iter().enumerate() {
                if position > 0 {
                    out.push(b'.');
                }
                number(out, octet);
            }
        }
        // Writing to memory cannot fail.
        IpAddr::V6(address) => drop(write!(out, "{address}")),
    }
}

/// Returns true if no format escapes any of `bytes`: they are printable ASCII without quotes and backslashes.
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    let Some(last) = bytes.last_chunk::<8>() else { return bytes.iter().all(|byte| is_plain_word([*byte; 8])) };
    // The last word may have bytes of the one before it.
    bytes.as_chunks::<8>().0.iter().chain([last]).all(|word| is_plain_word(*word))
}

/// Compares eight bytes at once. A byte that is compared sets its highest bit in a result, and may set those above it.
fn is_plain_word(word: [u8; 8]) -> bool {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHEST: u64 = EACH << 7;
    let word = u64::from_le_bytes(word);
    let below = |word: u64, limit: u64| word.wrapping_sub(EACH * limit) & !word;
    let is = |byte: u8| below(word ^ (EACH * u64::from(byte)), 1);
    (word | below(word, u64::from(b' ')) | is(b'"') | is(b'\\') | is(0x7f)) & HIGHEST == 0
}

/// Writes a JSON string. Bytes that are not UTF-8 become U+FFFD; characters that a terminal would obey are escaped.
pub(super) fn quoted(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    match is_plain(bytes) {
        true => out.extend_from_slice(bytes),
        false => out.extend_from_slice(escaped(bytes).as_bytes()),
    }
    out.push(b'"');
}

#[cold]
fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.find(|char: char| matches!(char, '"' | '\\') || is_unsafe(char)) {
            let (plain, from) = rest.split_at(at);
            out.push_str(plain);
            let mut chars = from.chars();
            match chars.next() {
                Some(mark @ ('"' | '\\')) => out.extend(['\\', mark]),
                Some(control) => escape_json(control, &mut out),
                None => {}
            }
            rest = chars.as_str();
        }
        out.push_str(rest);
        if !chunk.invalid().is_empty() {
            out.push('\u{fffd}');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn json(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        quoted(&mut out, bytes);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strings_survive_as_json_and_control_nothing() {
        for bytes in [
            &b"plain"[..],
            b"",
            b"\"\\\"",
            b"a\nb\x1b[31m\x7f",
            "é \u{85}\u{2028}\u{202e}\u{200f}\u{200b}\u{e0041}".as_bytes(),
        ] {
            let out = json(bytes);
            assert_eq!(serde_json::from_str::<String>(&out).ok().as_deref().map(str::as_bytes), Some(bytes), "{out}");
            assert!(!out.contains(is_unsafe), "{out}");
        }
        assert_eq!(json(b"a\xff\xfeb"), "\"a\u{fffd}\u{fffd}b\"");
    }

    #[test]
    fn addresses_are_written_as_rust_does() {
        for text in ["0.0.0.0", "192.0.2.255", "::1", "2001:db8::a:1", "::ffff:192.0.2.1"] {
            let mut out = Vec::new();
            address(&mut out, text.parse().unwrap());
            assert_eq!(out, text.as_bytes());
        }
    }

    #[test]
    fn bytes_that_a_format_escapes_are_not_plain() {
        for byte in 0..=u8::MAX {
            let is_escaped = !(b' '..=b'~').contains(&byte) || [b'"', b'\\'].contains(&byte);
            for at in [0, 1, 7, 16, 40] {
                let mut text = [b'a'; 41];
                text[at] = byte;
                assert_eq!(is_plain(&text), !is_escaped, "{byte} at {at}");
                assert_eq!(is_plain(&text[..=at]), !is_escaped, "{byte} at {at}");
            }
        }
        assert!(is_plain(b""));
    }

    #[test]
    fn milliseconds_have_three_decimals() {
        for (nanos, text) in [(12_034_999, "12.034"), (0, "0.000"), (999_999_000, "999.999"), (7_000, "0.007")] {
            let mut out = Vec::new();
            milliseconds(&mut out, Duration::from_nanos(nanos));
            assert_eq!(out, text.as_bytes());
        }
    }
}
