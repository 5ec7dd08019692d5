//! Access log: one line per request, in NCSA combined format or JSON.

mod combined;
pub mod fields;
mod json;
mod text;

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Version, header};

use self::text::FormattedTime;
use crate::http::body::UploadProgress;
use crate::http::facts::RequestFacts;
use crate::http::handler::ConnectionInfo;
use crate::http::proxy_header::ProxyHeader;
use tollgate_config::AccessLogFormat;
use tollgate_filters::api_key::Settings;
use tollgate_filters::query::masked;
use tollgate_telemetry::log_writer::LogWriter;
use tollgate_telemetry::trace_context::{TRACEPARENT, TraceContext};
use tollgate_transport::executor::spawn_boxed;

/// Size in bytes at which a worker sends its lines to the writing thread.
const CHUNK_BYTES: usize = 32 * 1024;
/// Age at which a worker sends its lines, whatever their size.
const CHUNK_AGE: Duration = Duration::from_millis(100);

/// Fields of a line that are known when the request arrives.
#[derive(Debug)]
pub struct LogLine {
    /// Client address.
    pub client: IpAddr,
    /// Path and query in normal form; as received if the request was refused for them.
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
    /// Fields of JSON lines only.
    pub details: Option<Details>,
}

/// Fields that only JSON lines have.
#[derive(Debug, Default)]
pub struct Details {
    /// `Host` field.
    pub host: Option<HeaderValue>,
    /// Version of TLS, such as `TLSv1.3`.
    pub tls: Option<&'static str>,
    /// Subject of the client's certificate.
    pub client_subject: Option<Arc<str>>,
    /// PROXY header of the connection.
    pub proxy_header: Option<Rc<ProxyHeader>>,
    /// Valid `traceparent` field of the client, or that of the sampled trace.
    pub traceparent: Option<HeaderValue>,
    /// Request id.
    pub request_id: Option<HeaderValue>,
    /// Progress of the request body.
    pub upload: Option<Rc<UploadProgress>>,
    /// Reason for which a request got 400.
    pub detail: Option<Arc<str>>,
    /// Facts that layers report.
    pub facts: Option<Box<RequestFacts>>,
}

/// Fields of a line that are known when the response has been sent.
#[derive(Clone, Copy, Debug)]
pub struct Completion<'a> {
    /// Method of the request.
    pub method: &'a Method,
    /// Status of the response.
    pub status: u16,
    /// Bytes of the response body that were sent.
    pub sent_bytes: u64,
    /// Time from the request head to the last byte of the response.
    pub duration: Duration,
    /// Reason code of a local response.
    pub reason: Option<&'static str>,
}

impl LogLine {
    /// Copies the fields of both formats from a request head.
    #[must_use]
    pub fn new(client: IpAddr, target: &str, version: Version, headers: &HeaderMap) -> Box<Self> {
        let (mut referer, mut user_agent) = (None, None);
        // Comparing the names of a head costs less than two look-ups.
        for (name, value) in headers {
            if *name == header::REFERER {
                referer.get_or_insert(value);
            } else if *name == header::USER_AGENT {
                user_agent.get_or_insert(value);
            }
        }
        Box::new(Self {
            client,
            target: target.into(),
            version,
            referer: referer.cloned(),
            user_agent: user_agent.cloned(),
            route: None,
            is_degraded: false,
            details: None,
        })
    }

    /// Masks API keys in the target and in `Referer`.
    pub fn mask(&mut self, keys: &Settings) {
        if let Some(target) = masked(&self.target, keys.parameters()) {
            self.target = target.into();
        }
        let referer = self.referer.as_ref().and_then(|referer| referer.to_str().ok());
        if let Some(masked) = referer.and_then(|referer| masked(referer, keys.parameters())) {
            // A part of the field's text, which was a valid value.
            self.referer = HeaderValue::try_from(masked).ok();
        }
    }

    /// Starts the line of a request with the head as received. JSON lines have details.
    #[must_use]
    pub fn start(
        head: &Parts,
        connection: &ConnectionInfo,
        request_id: Option<&HeaderValue>,
        has_details: bool,
    ) -> Box<Self> {
        let target = head.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let mut line = Self::new(connection.peer.ip(), target, head.version, &head.headers);
        if has_details {
            let host = || HeaderValue::from_str(head.uri.authority()?.as_str()).ok();
            let traceparent = || head.headers.get(TRACEPARENT).cloned();
            line.details = Some(Details {
                host: head.headers.get(header::HOST).cloned().or_else(host),
                tls: connection.tls_version,
                client_subject: None,
                proxy_header: connection.proxy_header.clone(),
                traceparent: TraceContext::of(&head.headers).and_then(|_| traceparent()),
                request_id: request_id.cloned(),
                upload: None,
                detail: None,
                facts: Some(Box::default()),
            });
        }
        line
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
    time: FormattedTime,
}

impl AccessLog {
    /// Creates the access log of a worker, in `format`.
    #[must_use]
    pub fn new(writer: LogWriter, format: AccessLogFormat) -> Rc<Self> {
        Rc::new_cyclic(|this| Self { writer, format, buffer: RefCell::default(), this: this.clone() })
    }

    /// Returns true if lines have [`Details`].
    #[must_use]
    pub fn has_details(&self) -> bool {
        self.format == AccessLogFormat::Json
    }

    /// Writes the line of a finished request.
    pub fn write(&self, line: &LogLine, completion: &Completion<'_>) {
        let mut buffer = self.buffer.borrow_mut();
        let LineBuffer { text, time, .. } = &mut *buffer;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        match self.format {
            AccessLogFormat::Combined => {
                combined::write(text, time.of(now.as_secs(), combined::TIME_FORMAT), line, completion);
            }
            AccessLogFormat::Json => json::write(text, time, now, line, completion),
        }
        buffer.lines += 1;
        if buffer.text.len() >= CHUNK_BYTES {
            self.send(&mut buffer);
        } else if buffer.lines == 1
            && let Some(this) = self.this.upgrade()
        {
            spawn_boxed(async move {
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
