//! What is noted of one request, from its head to the last byte of its answer.

use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;

use crate::http::body::BodyError;
use crate::telemetry::access_log::{AccessLog, Line};
use crate::telemetry::metrics::RouteMetrics;

/// The status noted for a client that left before it was answered (nginx's code for it; no answer carries it).
pub const CLIENT_CLOSED_REQUEST: u16 = 499;

/// One request's record. Dropping it, when its answer has been sent or nobody waits for it any more, counts the
/// request and writes its log line.
#[derive(Debug)]
pub struct Record {
    started: Instant,
    metrics: Arc<RouteMetrics>,
    method: Method,
    status: u16,
    sent_bytes: u64,
    log: Option<(Rc<AccessLog>, Box<Line>)>,
    failure: Option<&'static str>,
}

/// Response body with the record of its request, which is closed when the body has been sent or is dropped.
#[derive(Debug)]
pub struct RecordedBody<B> {
    body: B,
    record: Option<Box<Record>>,
}

impl Record {
    /// Starts the record of a request whose head was read at `started`; counted under `metrics` unless a route is
    /// found for it.
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
        })
    }

    /// When the request's head had been read.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.started
    }

    /// The request matched a route.
    pub fn routed(&mut self, id: &Arc<str>, metrics: &Arc<RouteMetrics>) {
        self.metrics = Arc::clone(metrics);
        if let Some((_, line)) = &mut self.log {
            line.route = Some(Arc::clone(id));
        }
    }

    /// Writes a line to `log` at the end.
    pub fn logged(&mut self, log: Rc<AccessLog>, line: Box<Line>) {
        self.log = Some((log, line));
    }

    /// Whether a line will be written.
    #[must_use]
    pub fn is_logged(&self) -> bool {
        self.log.is_some()
    }

    /// The client's address, once the proxies in between are accounted for.
    pub fn client(&mut self, ip: IpAddr) {
        if let Some((_, line)) = &mut self.log {
            line.client = ip;
        }
    }

    /// The answer's head is on its way; `reason` says why the gateway itself answered, if it did.
    pub fn answered(&mut self, status: StatusCode, reason: Option<&'static str>) {
        self.status = status.as_u16();
        self.failure = reason;
    }

    /// A limit was decided without the Redis that keeps it.
    pub fn degraded(&mut self) {
        if let Some((_, line)) = &mut self.log {
            line.is_degraded = true;
        }
    }

    /// `bytes` of the answer's body were handed to the client's connection.
    pub fn sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
    }

    /// The answer's body ended before its end.
    pub fn broke_off(&mut self, error: &BodyError) {
        self.failure = Some(match error {
            BodyError::UpstreamStalled => "upstream-stalled",
            _ => "upstream-broke-off",
        });
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.started);
        self.metrics.observe(&self.method, self.status, took);
        if let Some((log, line)) = self.log.take() {
            log.write(&line, &self.method, self.status, self.sent_bytes, took, self.failure);
        }
    }
}

impl<B> RecordedBody<B> {
    /// Attaches `record` to `body`.
    #[must_use]
    pub fn new(body: B, record: Option<Box<Record>>) -> Self {
        Self { body, record }
    }
}

impl<B: HttpBody<Data = Bytes, Error = BodyError> + Unpin> HttpBody for RecordedBody<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(record) = &mut self.record {
            match &frame {
                Some(Ok(frame)) => record.sent(frame.data_ref().map_or(0, Bytes::len)),
                Some(Err(error)) => record.broke_off(error),
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
