//! One line per request: NCSA combined format, or JSON.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderValue, Method, Version, header};

use crate::telemetry::log_writer::LogWriter;
use tollgate_config::AccessLogFormat;

/// A worker's lines are handed over when they fill this many bytes …
const CHUNK_BYTES: usize = 32 * 1024;
/// … or are this old.
const CHUNK_AGE: Duration = Duration::from_millis(100);

/// What a line says of a request's head.
#[derive(Debug)]
pub struct Line {
    /// The client's address.
    pub client: IpAddr,
    /// Path and query as received.
    pub target: Box<str>,
    /// The protocol's version.
    pub version: Version,
    /// The `Referer` field.
    pub referer: Option<HeaderValue>,
    /// The `User-Agent` field.
    pub user_agent: Option<HeaderValue>,
    /// The matched route's id.
    pub route: Option<Arc<str>>,
    /// A limit was decided without the Redis that keeps it.
    pub is_degraded: bool,
}

impl Line {
    /// Takes down what the line needs of a head that is about to be given away.
    #[must_use]
    pub fn new(client: IpAddr, target: &str, version: Version, headers: &HeaderMap) -> Box<Self> {
        Box::new(Self {
            client,
            target: target.into(),
            version,
            referer: headers.get(header::REFERER).cloned(),
            user_agent: headers.get(header::USER_AGENT).cloned(),
            route: None,
            is_degraded: false,
        })
    }
}

/// One worker's access log: lines gather in a buffer and go to the [`LogWriter`]'s thread in chunks.
#[derive(Debug)]
pub struct AccessLog {
    writer: LogWriter,
    format: AccessLogFormat,
    buffer: RefCell<Buffer>,
    this: std::rc::Weak<Self>,
}

#[derive(Debug, Default)]
struct Buffer {
    text: String,
    lines: u64,
    second: u64,
    timestamp: String,
}

impl AccessLog {
    /// A worker's log, in `format`.
    #[must_use]
    pub fn new(writer: LogWriter, format: AccessLogFormat) -> Rc<Self> {
        Rc::new_cyclic(|this| Self { writer, format, buffer: RefCell::default(), this: this.clone() })
    }

    /// Adds the line of a request that is over. `reason` says why the gateway itself answered, if it did.
    pub fn write(
        &self,
        line: &Line,
        method: &Method,
        status: u16,
        bytes: u64,
        took: Duration,
        reason: Option<&'static str>,
    ) {
        let mut buffer = self.buffer.borrow_mut();
        buffer.tell_time(self.format);
        let Buffer { text, timestamp, .. } = &mut *buffer;
        // Writing to a String cannot fail.
        let _ = match self.format {
            AccessLogFormat::Combined => combined(text, timestamp, line, method, status, bytes),
            AccessLogFormat::Json => json(text, timestamp, line, method, status, bytes, took, reason),
        };
        buffer.lines += 1;
        if buffer.text.len() >= CHUNK_BYTES {
            self.hand_over(&mut buffer);
        } else if buffer.lines == 1
            && let Some(this) = self.this.upgrade()
        {
            tokio::task::spawn_local(async move {
                tokio::time::sleep(CHUNK_AGE).await;
                this.flush();
            });
        }
    }

    /// Hands over what has gathered.
    pub fn flush(&self) {
        self.hand_over(&mut self.buffer.borrow_mut());
    }

    fn hand_over(&self, buffer: &mut Buffer) {
        if buffer.lines > 0 {
            let text = std::mem::replace(&mut buffer.text, String::with_capacity(CHUNK_BYTES + 1024));
            self.writer.write(text.into_bytes(), std::mem::take(&mut buffer.lines));
        }
    }
}

impl Drop for AccessLog {
    /// The lines of requests that are cut off when the worker ends come last.
    fn drop(&mut self) {
        self.flush();
    }
}

impl Buffer {
    /// Formats the time once a second.
    fn tell_time(&mut self, format: AccessLogFormat) {
        let now = SystemTime::now();
        let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if second == self.second && !self.timestamp.is_empty() {
            return;
        }
        self.second = second;
        self.timestamp.clear();
        if let Ok(time) = jiff::Timestamp::try_from(now) {
            let pattern = match format {
                AccessLogFormat::Combined => "%d/%b/%Y:%H:%M:%S +0000",
                AccessLogFormat::Json => "%Y-%m-%dT%H:%M:%SZ",
            };
            let _ = write!(self.timestamp, "{}", time.strftime(pattern));
        }
    }
}

fn combined(out: &mut String, time: &str, line: &Line, method: &Method, status: u16, bytes: u64) -> std::fmt::Result {
    write!(out, "{} - - [{time}] \"", line.client)?;
    escape(out, method.as_str().as_bytes());
    out.push(' ');
    escape(out, line.target.as_bytes());
    write!(out, " {:?}\" {status} {bytes} \"", line.version)?;
    escape(out, line.referer.as_ref().map_or(b"-", HeaderValue::as_bytes));
    out.push_str("\" \"");
    escape(out, line.user_agent.as_ref().map_or(b"-", HeaderValue::as_bytes));
    out.push_str("\"\n");
    Ok(())
}

/// What a client sent must not end a field, a line or a terminal's colour: `\xHH` for all that is not plain.
fn escape(out: &mut String, bytes: &[u8]) {
    for &byte in bytes {
        match byte {
            b'"' | b'\\' | 0..=0x1f | 0x7f.. => {
                let _ = write!(out, "\\x{byte:02X}");
            }
            _ => out.push(char::from(byte)),
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "the fields of one line")]
fn json(
    out: &mut String,
    time: &str,
    line: &Line,
    method: &Method,
    status: u16,
    bytes: u64,
    took: Duration,
    reason: Option<&'static str>,
) -> std::fmt::Result {
    write!(out, "{{\"time\":\"{time}\",\"client\":\"{}\",\"method\":", line.client)?;
    quoted(out, method.as_str().as_bytes());
    out.push_str(",\"target\":");
    quoted(out, line.target.as_bytes());
    write!(out, ",\"protocol\":\"{:?}\",\"status\":{status},\"bytes\":{bytes}", line.version)?;
    write!(out, ",\"duration_us\":{}", took.as_micros())?;
    for (name, value) in [
        ("route", line.route.as_deref().map(str::as_bytes)),
        ("reason", reason.map(str::as_bytes)),
        ("referer", line.referer.as_ref().map(HeaderValue::as_bytes)),
        ("user_agent", line.user_agent.as_ref().map(HeaderValue::as_bytes)),
    ] {
        if let Some(value) = value {
            write!(out, ",\"{name}\":")?;
            quoted(out, value);
        }
    }
    out.push_str(if line.is_degraded { ",\"degraded\":true}\n" } else { "}\n" });
    Ok(())
}

fn quoted(out: &mut String, bytes: &[u8]) {
    match serde_json::to_string(&String::from_utf8_lossy(bytes)) {
        Ok(text) => out.push_str(&text),
        Err(_) => out.push_str("null"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn line() -> Box<Line> {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_bytes(b"a\"b\\\xff").unwrap());
        Line::new("192.0.2.1".parse().unwrap(), "/a?b=\"\u{7f}", Version::HTTP_11, &headers)
    }

    #[test]
    fn what_a_client_sent_cannot_break_a_combined_line() {
        let mut out = String::new();
        combined(&mut out, "21/Nov/2026:10:00:00 +0000", &line(), &Method::GET, 200, 12).unwrap();
        let expected = "192.0.2.1 - - [21/Nov/2026:10:00:00 +0000] \"GET /a?b=\\x22\\x7F HTTP/1.1\" 200 12 \"-\" \
                        \"a\\x22b\\x5C\\xFF\"\n";
        assert_eq!(out, expected);
    }

    #[test]
    fn a_json_line_parses_whatever_the_client_sent() {
        let mut out = String::new();
        let took = Duration::from_micros(1500);
        json(&mut out, "2026-11-21T10:00:00Z", &line(), &Method::GET, 429, 0, took, Some("rate-limited")).unwrap();
        let value: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(value["status"], 429);
        assert_eq!(value["duration_us"], 1500);
        assert_eq!(value["reason"], "rate-limited");
        assert_eq!(value["user_agent"], "a\"b\\\u{fffd}");
        assert!(value.get("referer").is_none() && value.get("degraded").is_none());
    }
}
