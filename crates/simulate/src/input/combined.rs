//! Lines in NCSA common or combined format.

use super::fields::{Fields, address};
use super::log_entry::LogEntry;
use super::map::Slot;

/// Parses `ADDRESS IDENT USER [TIME] "REQUEST" STATUS BYTES "REFERER" "USER-AGENT"`; the last two may be absent.
///
/// # Errors
/// The line has no such form.
pub(super) fn parse(line: &[u8], fields: &mut Fields) -> Result<Box<LogEntry>, String> {
    let text = std::str::from_utf8(line).map_err(|_| "no UTF-8 text")?;
    let malformed = || "neither JSON nor common or combined format".to_owned();
    let (before, rest) = text.split_once('[').ok_or_else(malformed)?;
    let (time, rest) = rest.split_once("] \"").ok_or_else(malformed)?;
    let client = before.split(' ').next().unwrap_or_default();
    let (request, rest) = quoted(rest).ok_or_else(malformed)?;
    fields.clear();
    fields.set_text(&Slot::Time, time)?;
    if address(client).is_none() {
        return Err(format!("`{}` is not an address", client.escape_debug()));
    }
    fields.set_text(&Slot::Client, client)?;
    fields.request_line(&request)?;
    let (status, rest) = word(rest);
    fields.set_text(&Slot::Status, status)?;
    let (_bytes, mut rest) = word(rest);
    for name in [http::header::REFERER, http::header::USER_AGENT] {
        if let Some((value, after)) = rest.trim_start().strip_prefix('"').and_then(quoted) {
            fields.set_text(&Slot::Header(name), &value)?;
            rest = after;
        }
    }
    fields.finish().map_err(str::to_owned)
}

/// Returns the first word of a text, and the rest.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_once(' ').unwrap_or((text, ""))
}

/// Reads up to a quote, and resolves `\xHH`, `\"` and `\\`. Returns the text and the rest of the line.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut out, mut rest) = (String::new(), text);
    loop {
        let at = rest.find(['"', '\\'])?;
        out.push_str(&rest[..at]);
        if rest.as_bytes()[at] == b'"' {
            return Some((out, &rest[at + 1..]));
        }
        let escape = &rest[at + 1..];
        let code = escape.strip_prefix('x').and_then(|digits| u8::from_str_radix(digits.get(..2)?, 16).ok());
        match code {
            Some(byte) => {
                out.push(char::from(byte));
                rest = &escape[3..];
            }
            None => {
                let next = escape.chars().next()?;
                out.push(next);
                rest = &escape[next.len_utf8()..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn common_and_combined_lines_are_read() {
        let line = b"192.0.2.1 - ada [22/Nov/2026:11:00:00 +0100] \"GET /a?b=\\x22 HTTP/1.1\" 200 12";
        let entry = parse(line, &mut Fields::default()).unwrap();
        assert_eq!((entry.time_us, &entry.target()[..]), (1_795_341_600_000_000, &b"/a?b=\""[..]));
        assert_eq!((entry.status, entry.headers().count()), (Some(200), 0));
        let line = [&line[..], b" \"-\" \"a \\\"quoted\\\" agent\""].concat();
        assert_eq!(parse(&line, &mut Fields::default()).unwrap().headers().next().unwrap().1, "a \"quoted\" agent");
    }

    #[test]
    fn broken_lines_say_what_is_wrong() {
        for (line, problem) in [
            (&b""[..], "neither JSON nor"),
            (b"hello", "neither JSON nor"),
            (b"a - - [22/Nov/2026:11:00:00 +0100] \"GET / HTTP/1.1\" 200 1", "`a` is not an address"),
            (b"192.0.2.1 - - [now] \"GET / HTTP/1.1\" 200 1", "the time is not readable"),
            (b"192.0.2.1 - - [22/Nov/2026:11:00:00 +0100] \"-\" 400 1", "no readable request line"),
            (b"192.0.2.1 - - [22/Nov/2026:11:00:00 +0100] \"GET /\\", "neither JSON nor"),
            (b"\xff", "no UTF-8 text"),
        ] {
            let error = parse(line, &mut Fields::default()).unwrap_err();
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
