//! Access log: one line per request, in NCSA combined format or JSON.

mod combined;
pub mod fields;
mod json;
mod text;

use std::borrow::Cow;
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Uri, Version, header};

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
/// Number of facts whose memory a worker keeps.
const MAX_SPARE_FACTS: usize = 256;

/// Fields of a line that are known when the request arrives.
#[derive(Debug)]
pub struct LogLine {
    /// Client address.
    pub client: IpAddr,
    /// Path and query in normal form; as received if the request was refused for them.
    pub target: Target,
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

/// Target of a request in its line.
#[derive(Debug)]
pub enum Target {
    /// Path and query.
    Path(PathAndQuery),
    /// Other text: a target with masked keys, `/` for one without a path, `-` for an unreadable head.
    Text(Cow<'static, str>),
}

/// Fields of a head that lines show.
#[derive(Debug, Default)]
struct HeadFields<'h> {
    host: Option<&'h HeaderValue>,
    referer: Option<&'h HeaderValue>,
    user_agent: Option<&'h HeaderValue>,
    traceparent: Option<&'h HeaderValue>,
}

impl Target {
    /// Returns the target of `uri`.
    #[must_use]
    pub fn of(uri: &Uri) -> Self {
        uri.path_and_query().cloned().map_or(Self::Text("/".into()), Self::Path)
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Path(path) => path.as_str(),
            Self::Text(text) => text,
        }
    }
}

impl<'h> HeadFields<'h> {
    /// Comparing the names of a head costs less than a look-up for each field.
    fn of(headers: &'h HeaderMap) -> Self {
        let mut fields = Self::default();
        for (name, value) in headers {
            if *name == header::HOST {
                fields.host.get_or_insert(value);
            } else if *name == header::REFERER {
                fields.referer.get_or_insert(value);
            } else if *name == header::USER_AGENT {
                fields.user_agent.get_or_insert(value);
            } else if *name == TRACEPARENT {
                fields.traceparent.get_or_insert(value);
            }
        }
        fields
    }
}

impl LogLine {
    /// Creates the line of a request whose head has not been read.
    #[must_use]
    pub fn new(client: IpAddr, target: Target, version: Version) -> Self {
        Self {
            client,
            target,
            version,
            referer: None,
            user_agent: None,
            route: None,
            is_degraded: false,
            details: None,
        }
    }

    /// Masks API keys in the target and in `Referer`.
    pub fn mask(&mut self, keys: &Settings) {
        if let Some(target) = masked(self.target.as_str(), keys.parameters()) {
            self.target = Target::Text(target.into());
        }
        let referer = self.referer.as_ref().and_then(|referer| referer.to_str().ok());
        if let Some(masked) = referer.and_then(|referer| masked(referer, keys.parameters())) {
            // A part of the field's text, which was a valid value.
            self.referer = HeaderValue::try_from(masked).ok();
        }
    }
}

/// Access log of one worker. Lines are buffered, and sent to the thread of the [`LogWriter`] in chunks.
#[derive(Debug)]
pub struct AccessLog {
    writer: LogWriter,
    format: AccessLogFormat,
    buffer: RefCell<LineBuffer>,
    /// Empty facts, whose memory later requests use.
    #[expect(clippy::vec_box, reason = "a request takes the box, and the box is the memory that is kept")]
    spare_facts: RefCell<Vec<Box<RequestFacts>>>,
    this: std::rc::Weak<Self>,
}

#[derive(Debug, Default)]
struct LineBuffer {
    text: Vec<u8>,
    lines: u64,
    time: FormattedTime,
}

impl AccessLog {
    /// Creates the access log of a worker, in `format`.
    #[must_use]
    pub fn new(writer: LogWriter, format: AccessLogFormat) -> Rc<Self> {
        Rc::new_cyclic(|this| Self {
            writer,
            format,
            buffer: RefCell::default(),
            spare_facts: RefCell::default(),
            this: this.clone(),
        })
    }

    /// Returns true if lines have [`Details`].
    #[must_use]
    pub fn has_details(&self) -> bool {
        self.format == AccessLogFormat::Json
    }

    /// Starts the line of a request with the head as received.
    #[must_use]
    pub fn start(&self, head: &Parts, connection: &ConnectionInfo, request_id: Option<&HeaderValue>) -> LogLine {
        let fields = HeadFields::of(&head.headers);
        let mut line = LogLine::new(connection.peer.ip(), Target::of(&head.uri), head.version);
        line.referer = fields.referer.cloned();
        line.user_agent = fields.user_agent.cloned();
        if self.has_details() {
            let authority = || HeaderValue::from_str(head.uri.authority()?.as_str()).ok();
            line.details = Some(Details {
                host: fields.host.cloned().or_else(authority),
                tls: connection.tls_version,
                proxy_header: connection.proxy_header.clone(),
                traceparent: fields.traceparent.filter(|_| TraceContext::of(&head.headers).is_some()).cloned(),
                request_id: request_id.cloned(),
                facts: Some(self.spare_facts.borrow_mut().pop().unwrap_or_default()),
                ..Details::default()
            });
        }
        line
    }

    /// Writes the line of a finished request.
    pub fn write(&self, line: LogLine, completion: &Completion<'_>) {
        let mut buffer = self.buffer.borrow_mut();
        let LineBuffer { text, time, .. } = &mut *buffer;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        match self.format {
            AccessLogFormat::Combined => {
                combined::write(text, time.of(now.as_secs(), combined::TIME_FORMAT), &line, completion);
            }
            AccessLogFormat::Json => json::write(text, time, now, &line, completion),
        }
        if let Some(facts) = line.details.and_then(|details| details.facts) {
            self.keep(facts);
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

    /// Keeps the memory of `facts` for another request.
    fn keep(&self, mut facts: Box<RequestFacts>) {
        let mut spare = self.spare_facts.borrow_mut();
        if spare.len() < MAX_SPARE_FACTS {
            facts.clear();
            spare.push(facts);
        }
    }

    fn send(&self, buffer: &mut LineBuffer) {
        if buffer.lines > 0 {
            let text = std::mem::replace(&mut buffer.text, Vec::with_capacity(CHUNK_BYTES + 1024));
            self.writer.write(text, std::mem::take(&mut buffer.lines));
        }
    }
}

impl Drop for AccessLog {
    /// Sends the lines of requests that were aborted when the worker ended.
    fn drop(&mut self) {
        self.flush();
    }
}
