//! Lines in NCSA combined format.

use std::io::Write as _;

use http::HeaderValue;

use super::text::{address, is_plain};
use crate::instrumentation::access_log::{Completion, LogLine};

/// Format of the time of a line.
pub(super) const TIME_FORMAT: &str = "%d/%b/%Y:%H:%M:%S +0000";

/// Writes the line of a request that ended at `time`.
pub(super) fn write(out: &mut Vec<u8>, time: &str, line: &LogLine, completion: &Completion<'_>) {
    address(out, line.client);
    for part in [" - - [", time, "] \""] {
        out.extend_from_slice(part.as_bytes());
    }
    escape(out, completion.method.as_str().as_bytes());
    out.push(b' ');
    escape(out, line.target.as_str().as_bytes());
    // Writing to memory cannot fail.
    let _ = write!(out, " {:?}\" {} {} \"", line.version, completion.status, completion.sent_bytes);
    escape(out, line.referer.as_ref().map_or(b"-", HeaderValue::as_bytes));
    out.extend_from_slice(b"\" \"");
    escape(out, line.user_agent.as_ref().map_or(b"-", HeaderValue::as_bytes));
    out.extend_from_slice(b"\"\n");
}

/// Escapes quotes, backslashes and bytes outside printable ASCII as `\xHH`, so that client input cannot end a field
/// or a line, or control a terminal.
fn escape(out: &mut Vec<u8>, bytes: &[u8]) {
    if is_plain(bytes) {
        return out.extend_from_slice(bytes);
    }
    for &byte in bytes {
        match byte {
            b'"' | b'\\' | 0..=0x1f | 0x7f.. => {
                let _ = write!(out, "\\x{byte:02X}");
            }
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use http::{Method, Version};

    use super::*;
    use crate::instrumentation::access_log::Target;

    #[test]
    fn client_input_cannot_break_a_combined_line() {
        let target = Target::Text("/a?b=\"\u{7f}".into());
        let mut line = LogLine::new("192.0.2.1".parse().unwrap(), target, Version::HTTP_11);
        line.user_agent = HeaderValue::from_bytes(b"a\"b\\\xff").ok();
        let completion =
            Completion { method: &Method::GET, status: 200, sent_bytes: 12, duration: Duration::ZERO, reason: None };
        let mut out = Vec::new();
        write(&mut out, "21/Nov/2026:10:00:00 +0000", &line, &completion);
        let expected = "192.0.2.1 - - [21/Nov/2026:10:00:00 +0000] \"GET /a?b=\\x22\\x7F HTTP/1.1\" 200 12 \"-\" \
                        \"a\\x22b\\x5C\\xFF\"\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
