//! Lines in NCSA combined format.

use std::fmt::Write as _;

use http::HeaderValue;

use super::text::{address, is_plain};
use crate::instrumentation::access_log::{Completion, LogLine};

/// Format of the time of a line.
pub(super) const TIME_FORMAT: &str = "%d/%b/%Y:%H:%M:%S +0000";

/// Writes the line of a request that ended at `time`.
pub(super) fn write(out: &mut String, time: &str, line: &LogLine, completion: &Completion<'_>) {
    address(out, line.client);
    for part in [" - - [", time, "] \""] {
        out.push_str(part);
    }
    escape(out, completion.method.as_str().as_bytes());
    out.push(' ');
    escape(out, line.target.as_bytes());
    // Writing to a `String` cannot fail.
    let _ = write!(out, " {:?}\" {} {} \"", line.version, completion.status, completion.sent_bytes);
    escape(out, line.referer.as_ref().map_or(b"-", HeaderValue::as_bytes));
    out.push_str("\" \"");
    escape(out, line.user_agent.as_ref().map_or(b"-", HeaderValue::as_bytes));
    out.push_str("\"\n");
}

/// Escapes quotes, backslashes and bytes outside printable ASCII as `\xHH`, so that client input cannot end a field
/// or a line, or control a terminal.
fn escape(out: &mut String, bytes: &[u8]) {
    if let (true, Ok(text)) = (is_plain(bytes), std::str::from_utf8(bytes)) {
        return out.push_str(text);
    }
    for &byte in bytes {
        match byte {
            b'"' | b'\\' | 0..=0x1f | 0x7f.. => {
                let _ = write!(out, "\\x{byte:02X}");
            }
            _ => out.push(char::from(byte)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use http::{HeaderMap, Method, Version, header};

    use super::*;

    #[test]
    fn client_input_cannot_break_a_combined_line() {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_bytes(b"a\"b\\\xff").unwrap());
        let line = LogLine::new("192.0.2.1".parse().unwrap(), "/a?b=\"\u{7f}", Version::HTTP_11, &headers);
        let completion =
            Completion { method: &Method::GET, status: 200, sent_bytes: 12, duration: Duration::ZERO, reason: None };
        let mut out = String::new();
        write(&mut out, "21/Nov/2026:10:00:00 +0000", &line, &completion);
        let expected = "192.0.2.1 - - [21/Nov/2026:10:00:00 +0000] \"GET /a?b=\\x22\\x7F HTTP/1.1\" 200 12 \"-\" \
                        \"a\\x22b\\x5C\\xFF\"\n";
        assert_eq!(out, expected);
    }
}
