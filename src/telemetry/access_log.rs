//! Access log: one line per request, in NCSA combined format or JSON.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderValue, Method, Version, header};

use crate::telemetry::log_writer::LogWriter;
use tollgate_config::AccessLogFormat;

/// Size in bytes at which a worker sends its lines to the writing thread.
const CHUNK_BYTES: usize = 32 * 1024;
/// Age at which a worker sends its lines, whatever their size.
const CHUNK_AGE: Duration = Duration::from_millis(100);

/// Fields of a line that come from the request.
#[derive(Debug)]
pub struct LogLine {
    /// Client address.
    pub client: IpAddr,
    /// Path and query, as received.
    pub target: Box<str>,
    /// Protocol version.
    pub version: Version,
    /// `Referer` field.
    pub referer: Option<HeaderValue>,
    /// `User-Agent` field.
    pub user_agent: Option<HeaderValue>,
    /// Id of the matched route.
    pub route: Option<Arc<str>>,
    /// True if a limit was decided by the fallback, without Redis.
    pub is_degraded: bool,
}

impl LogLine {
    /// Copies the fields from a request head.
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

/// Access log of one worker. Lines are buffered, and sent to the thread of the [`LogWriter`] in chunks.
#[derive(Debug)]
pub struct AccessLog {
    writer: LogWriter,
    format: AccessLogFormat,
    buffer: RefCell<LineBuffer>,
    this: std::rc::Weak<Self>,
}

#[derive(Debug, Default)]
struct LineBuffer {
    text: String,
    lines: u64,
    second: u64,
    timestamp: String,
}

impl AccessLog {
    /// Creates the access log of a worker, in `format`.
    #[must_use]
    pub fn new(writer: LogWriter, format: AccessLogFormat) -> Rc<Self> {
        Rc::new_cyclic(|this| Self { writer, format, buffer: RefCell::default(), this: this.clone() })
    }

    /// Writes the line of a finished request. `reason` is the reason code of a local response.
    pub fn write(
        &self,
        line: &LogLine,
        method: &Method,
        status: u16,
        bytes: u64,
        duration: Duration,
        reason: Option<&'static str>,
    ) {
        let mut buffer = self.buffer.borrow_mut();
        buffer.update_time(self.format);
        let LineBuffer { text, timestamp, .. } = &mut *buffer;
        // Writing to a `String` cannot fail.
        let _ = match self.format {
            AccessLogFormat::Combined => combined(text, timestamp, line, method, status, bytes),
            AccessLogFormat::Json => json(text, timestamp, line, method, status, bytes, duration, reason),
        };
        buffer.lines += 1;
        if buffer.text.len() >= CHUNK_BYTES {
            self.send(&mut buffer);
        } else if buffer.lines == 1
            && let Some(this) = self.this.upgrade()
        {
            tokio::task::spawn_local(async move {
                tokio::time::sleep(CHUNK_AGE).await;
                this.flush();
            });
        }
    }

    /// Sends the buffered lines to the writing thread.
    pub fn flush(&self) {
        self.send(&mut self.buffer.borrow_mut());
    }

    fn send(&self, buffer: &mut LineBuffer) {
        if buffer.lines > 0 {
            let text = std::mem::replace(&mut buffer.text, String::with_capacity(CHUNK_BYTES + 1024));
            self.writer.write(text.into_bytes(), std::mem::take(&mut buffer.lines));
        }
    }
}

impl Drop for AccessLog {
    /// Sends the lines of requests that were aborted when the worker ended.
    fn drop(&mut self) {
        self.flush();
    }
}

impl LineBuffer {
    /// Formats the current time, once a second.
    fn update_time(&mut self, format: AccessLogFormat) {
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

fn combined(
    out: &mut String,
    time: &str,
    line: &LogLine,
    method: &Method,
    status: u16,
    bytes: u64,
) -> std::fmt::Result {
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

/// Escapes quotes, backslashes and bytes outside printable ASCII as `\xHH`, so that client input cannot end a field
/// or a line, or control a terminal.
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
    line: &LogLine,
    method: &Method,
    status: u16,
    bytes: u64,
    duration: Duration,
    reason: Option<&'static str>,
) -> std::fmt::Result {
    write!(out, "{{\"time\":\"{time}\",\"client\":\"{}\",\"method\":", line.client)?;
    quoted(out, method.as_str().as_bytes());
    out.push_str(",\"target\":");
    quoted(out, line.target.as_bytes());
    write!(out, ",\"protocol\":\"{:?}\",\"status\":{status},\"bytes\":{bytes}", line.version)?;
    write!(out, ",\"duration_us\":{}", duration.as_micros())?;
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

    fn line() -> Box<LogLine> {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_bytes(b"a\"b\\\xff").unwrap());
        LogLine::new("192.0.2.1".parse().unwrap(), "/a?b=\"\u{7f}", Version::HTTP_11, &headers)
    }

    #[test]
    fn client_input_cannot_break_a_combined_line() {
        let mut out = String::new();
        combined(&mut out, "21/Nov/2026:10:00:00 +0000", &line(), &Method::GET, 200, 12).unwrap();
        let expected = "192.0.2.1 - - [21/Nov/2026:10:00:00 +0000] \"GET /a?b=\\x22\\x7F HTTP/1.1\" 200 12 \"-\" \
                        \"a\\x22b\\x5C\\xFF\"\n";
        assert_eq!(out, expected);
    }

    #[test]
    fn a_json_line_parses_for_any_client_input() {
        let mut out = String::new();
        let duration = Duration::from_micros(1500);
        json(&mut out, "2026-11-21T10:00:00Z", &line(), &Method::GET, 429, 0, duration, Some("rate-limited")).unwrap();
        let value: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(value["status"], 429);
        assert_eq!(value["duration_us"], 1500);
        assert_eq!(value["reason"], "rate-limited");
        assert_eq!(value["user_agent"], "a\"b\\\u{fffd}");
        assert!(value.get("referer").is_none() && value.get("degraded").is_none());
    }
}
