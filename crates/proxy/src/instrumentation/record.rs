//! Record of one request, from its head to the last byte of the response.

use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Method, StatusCode, Uri};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;

use crate::http::body::BodyError;
use crate::http::facts::RequestFacts;
use crate::http::failure::Failure;
use crate::http::handler::ResponseBody;
use crate::http::request_id::RequestId;
use crate::instrumentation::access_log::{AccessLog, Completion, Details, LogLine, Target};
use crate::instrumentation::metrics::RouteMetrics;
use crate::instrumentation::traces::request::RequestTrace;
use tollgate_filters::api_key::Settings;

/// Status recorded for a client that disconnected before the response. The code is nginx's; it is never sent.
pub const CLIENT_CLOSED_REQUEST: u16 = 499;

/// Reason code of a response that was cut because the client disconnected.
const CLIENT_DISCONNECTED: &str = "client-disconnected";
/// Reason code of a response that was cut because the client took no byte of it in time.
const WRITE_TIMEOUT: &str = "write-timeout";

/// Record of one request. It is dropped when the response has been sent or the client has disconnected. The drop counts
/// the request and writes its log line.
#[derive(Debug)]
pub struct Record {
    started: Instant,
    metrics: Arc<RouteMetrics>,
    method: Method,
    status: u16,
    sent_bytes: u64,
    /// The line is boxed: without an access log, the record is small.
    log: Option<(Rc<AccessLog>, Box<LogLine>)>,
    failure: Option<&'static str>,
    is_counted: bool,
    request_id: Option<RequestId>,
    trace: Option<Arc<RequestTrace>>,
}

/// Response body with the record of its request, which is closed when the body has been sent or is dropped.
#[derive(Debug)]
pub struct RecordedBody<B> {
    body: B,
    has_ended: bool,
    record: Option<Box<Record>>,
}

impl Record {
    /// Starts the record of a request with a head read at `started`. It is counted in `metrics` until a route is
    /// found.
    #[must_use]
    pub fn new(started: Instant, metrics: Arc<RouteMetrics>, method: Method) -> Box<Self> {
        Box::new(Self {
            started,
            metrics,
            method,
            status: CLIENT_CLOSED_REQUEST,
            sent_bytes: 0,
            log: None,
            failure: None,
            is_counted: false,
            request_id: None,
            trace: None,
        })
    }

    /// Returns the time at which the request head was read.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Sets the route.
    pub fn routed(&mut self, id: &Arc<str>, metrics: &Arc<RouteMetrics>) {
        self.metrics = Arc::clone(metrics);
        if let Some((_, line)) = &mut self.log {
            line.route = Some(Arc::clone(id));
        }
    }

    /// Sets the request id.
    pub fn identified(&mut self, id: RequestId) {
        self.request_id = Some(id);
    }

    /// Request id; `None` if requests have none.
    #[must_use]
    pub fn request_id(&self) -> Option<&RequestId> {
        self.request_id.as_ref()
    }

    /// Writes `line` to `log` at the end of the request.
    pub fn logged(&mut self, log: Rc<AccessLog>, line: LogLine) {
        self.log = Some((log, Box::new(line)));
    }

    /// Writes no line at the end of the request.
    pub fn unlogged(&mut self) {
        self.log = None;
    }

    /// Sets the target in normal form.
    pub fn normalized(&mut self, target: &Uri, keys: Option<&Settings>) {
        if let Some((_, line)) = &mut self.log {
            line.target = Target::of(target);
            if let Some(keys) = keys {
                line.mask(keys);
            }
        }
    }

    /// Returns true if a line will be written.
    #[must_use]
    pub fn is_logged(&self) -> bool {
        self.log.is_some()
    }

    /// Returns the fields that only JSON lines have; `None` if no such line will be written.
    pub fn details(&mut self) -> Option<&mut Details> {
        self.log.as_mut()?.1.details.as_mut()
    }

    /// Takes the facts that layers have reported, to collect more in them. They are put back with
    /// [`set_facts`](Self::set_facts).
    pub fn take_facts(&mut self) -> Option<Box<RequestFacts>> {
        self.details()?.facts.take()
    }

    /// Puts back the facts that layers have reported.
    pub fn set_facts(&mut self, facts: Option<Box<RequestFacts>>) {
        if let Some(details) = self.details() {
            details.facts = facts;
        }
    }

    /// Ends `trace` with the request.
    pub fn traced(&mut self, trace: Arc<RequestTrace>) {
        self.trace = Some(trace);
    }

    /// Trace of the request; `None` if it is not sampled.
    #[must_use]
    #[inline]
    pub fn trace(&self) -> Option<&Arc<RequestTrace>> {
        self.trace.as_ref()
    }

    /// Sets the client address, as trusted proxies report it.
    pub fn client(&mut self, ip: IpAddr) {
        if let Some((_, line)) = &mut self.log {
            line.client = ip;
        }
    }

    /// Sets the status, and the reason code of a local response.
    pub fn answered(&mut self, status: StatusCode, reason: Option<&'static str>) {
        self.status = status.as_u16();
        self.failure = reason;
    }

    /// Sets the reason for which a request was refused.
    pub fn refused(&mut self, detail: impl FnOnce() -> Arc<str>) {
        if let Some(details) = self.details() {
            details.detail = Some(detail());
        }
    }

    /// Marks a limit that was decided by the fallback, without Redis.
    pub fn degraded(&mut self) {
        if let Some((_, line)) = &mut self.log {
            line.is_degraded = true;
        }
    }

    /// Returns true if the response has a body for the client.
    fn sends_body(&self) -> bool {
        self.method != Method::HEAD && self.status != 204 && self.status != 304
    }

    /// Counts the request now, because the response has opened a tunnel. The log line follows when the record is dropped.
    pub fn tunnel_opened(&mut self) {
        self.metrics.observe(&self.method, self.status, self.started.elapsed());
        self.is_counted = true;
    }

    /// Records that the idle limit closed the tunnel.
    pub fn tunnel_timed_out(&mut self) {
        self.failure = Some("tunnel-idle-timeout");
    }

    /// Adds `bytes` of the response body, sent to the client connection.
    pub fn sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
    }

    /// Records that the response body ended early.
    pub fn body_failed(&mut self, error: &BodyError) {
        self.failure = Some(match error {
            BodyError::UpstreamStalled => "read-timeout",
            BodyError::Upload(failure) => Failure::from(*failure).reason(),
            _ => "upstream-broke-off",
        });
    }
}

impl<B> RecordedBody<B> {
    /// Records `reason` if the response is dropped before its end and has no reason yet.
    fn record_cut(&mut self, reason: &'static str) {
        if let Some(record) = &mut self.record
            && !self.has_ended
            && record.sends_body()
        {
            record.failure.get_or_insert(reason);
        }
    }
}

impl<B> Drop for RecordedBody<B> {
    /// Marks a response that was dropped before its end: the client disconnected or reset the stream.
    fn drop(&mut self) {
        self.record_cut(CLIENT_DISCONNECTED);
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let now = Instant::now();
        let duration = now.saturating_duration_since(self.started);
        if !self.is_counted {
            self.metrics.observe(&self.method, self.status, duration);
        }
        if let Some(trace) = self.trace.take() {
            // The trace may have started here.
            if let Some(details) = self.details() {
                details.traceparent = Some(trace.traceparent());
            }
            trace.finish(self.status, self.failure);
        }
        if let Some((log, line)) = self.log.take() {
            let Self { method, status, sent_bytes, failure: reason, .. } = self;
            log.write(
                *line,
                &Completion { method, status: *status, sent_bytes: *sent_bytes, duration, reason: *reason },
            );
        }
    }
}

impl<B: HttpBody> RecordedBody<B> {
    /// Attaches `record` to `body`.
    #[must_use]
    pub fn new(body: B, record: Option<Box<Record>>) -> Self {
        Self { has_ended: body.is_end_stream(), body, record }
    }
}

impl<B: HttpBody<Data = Bytes, Error = BodyError> + Unpin + 'static> ResponseBody for RecordedBody<B> {
    fn client_stalled(&mut self) {
        self.record_cut(WRITE_TIMEOUT);
    }
}

impl<B: HttpBody<Data = Bytes, Error = BodyError> + Unpin> HttpBody for RecordedBody<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        // A server asks for no frame behind trailers, or behind the announced length.
        let is_last = frame.as_ref().is_none_or(|frame| frame.as_ref().is_ok_and(Frame::is_trailers));
        self.has_ended = is_last || self.body.is_end_stream();
        if let Some(record) = &mut self.record {
            match &frame {
                Some(Ok(frame)) => record.sent(frame.data_ref().map_or(0, Bytes::len)),
                Some(Err(error)) => record.body_failed(error),
                None => {}
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
