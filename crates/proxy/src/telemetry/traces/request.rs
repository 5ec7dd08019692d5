//! Spans of one sampled request while it runs.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use http::request::Parts;
use parking_lot::Mutex;

use crate::http::attempts::{AttemptObserver, AttemptOutcome};
use crate::telemetry::traces::context::{TRACEPARENT, TraceContext};
use crate::telemetry::traces::exporter::SpanQueue;
use crate::telemetry::traces::new_span_id;
use crate::telemetry::traces::server::{ServerInfo, attributes, joined_state, known};
use crate::telemetry::traces::span::{Attribute, Span, SpanKind, Trace, Value};

/// Most spans of one request. Retries and loops over routes could add any number.
const MAX_SPANS: usize = 64;

/// Spans of one sampled request. Requests carry it in their extensions; all clones share it.
#[derive(Debug)]
pub struct RequestTrace {
    context: TraceContext,
    parent: Option<u64>,
    state: Option<Box<str>>,
    started: Instant,
    /// `started` in nanoseconds since the Unix epoch.
    epoch: u64,
    method: &'static str,
    name: String,
    attributes: Mutex<Vec<Attribute>>,
    spans: Mutex<Spans>,
    queue: SpanQueue,
}

/// Finished spans, and those that run.
#[derive(Debug, Default)]
struct Spans {
    finished: Vec<Span>,
    /// Limiters that have not decided, the innermost last.
    limiters: Vec<Span>,
    attempt: Option<Span>,
    attempts: i64,
}

/// Extension of a sampled request.
#[derive(Clone, Debug)]
pub struct TraceHandle(pub Arc<RequestTrace>);

thread_local! {
    /// Trace of the request whose limiter is polled.
    static CURRENT: RefCell<Option<Arc<RequestTrace>>> = const { RefCell::new(None) };
}

impl RequestTrace {
    pub(super) fn new(
        context: TraceContext,
        parent: Option<u64>,
        head: &Parts,
        info: &ServerInfo<'_>,
        queue: SpanQueue,
    ) -> Self {
        let method = known(&head.method);
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch = epoch.saturating_sub(info.started.elapsed());
        let name = if method == "_OTHER" { "HTTP" } else { method };
        Self {
            context,
            parent,
            state: parent.and_then(|_| joined_state(&head.headers)),
            started: info.started,
            epoch: u64::try_from(epoch.as_nanos()).unwrap_or(u64::MAX),
            method,
            name: info.pattern.map_or_else(|| name.to_owned(), |pattern| format!("{name} {pattern}")),
            attributes: Mutex::new(attributes(head, method, info)),
            spans: Mutex::default(),
            queue,
        }
    }

    /// Starts the span of a limiter of `route`.
    pub fn limiter_started(&self, route: &str) {
        let mut spans = self.spans.lock();
        if spans.limiters.len() < MAX_SPANS {
            let span =
                self.span("RequestRateLimiter", SpanKind::Internal, vec![("tollgate.route", route.to_owned().into())]);
            spans.limiters.push(span);
        }
    }

    /// Returns the number of limiters that have not decided.
    #[must_use]
    pub fn open_limiters(&self) -> usize {
        self.spans.lock().limiters.len()
    }

    /// Ends the spans of limiters until `open` of them are left.
    pub fn limiters_ended(&self, open: usize) {
        let now = self.now();
        let mut spans = self.spans.lock();
        while spans.limiters.len() > open
            && let Some(span) = spans.limiters.pop()
        {
            finish(&mut spans, span, now);
        }
    }

    /// Adds the verdict of a rule to the innermost limiter. The span is a call of Redis if Redis was called.
    fn verdict(&self, rule: &str, verdict: &'static str, source: &'static str) {
        let mut spans = self.spans.lock();
        let Some(span) = spans.limiters.last_mut() else { return };
        match source {
            "redis" | "fallback" if span.kind == SpanKind::Internal => {
                span.kind = SpanKind::Client;
                span.attributes.push(("db.system.name", "redis".into()));
                if source == "fallback" {
                    span.is_error = true;
                    span.attributes.push(("error.type", "redis-unavailable".into()));
                }
            }
            _ => {}
        }
        // Of several rules, one that denies is the one to show.
        let is_shown = span.attributes.iter().any(|(name, _)| *name == "tollgate.rule");
        if is_shown && verdict == "allowed" {
            return;
        }
        span.attributes.retain(|(name, _)| !["tollgate.rule", "tollgate.verdict", "tollgate.source"].contains(name));
        span.attributes.extend([
            ("tollgate.rule", rule.to_owned().into()),
            ("tollgate.verdict", verdict.into()),
            ("tollgate.source", source.into()),
        ]);
    }

    /// Runs `poll` of a limiter, whose verdicts are reported to this trace.
    pub fn scope<R>(self: &Arc<Self>, poll: impl FnOnce() -> R) -> R {
        let outer = CURRENT.replace(Some(Arc::clone(self)));
        let _restored = Restored(outer);
        poll()
    }

    /// Ends the span of the server, and hands all spans to the exporter.
    pub fn finish(&self, status: u16, reason: Option<&'static str>) {
        self.end(AttemptOutcome::Failed("canceled"));
        self.limiters_ended(0);
        let now = self.now();
        let mut attributes = std::mem::take(&mut *self.attributes.lock());
        attributes.push(("http.response.status_code", status.into()));
        let is_error = status >= 500;
        if is_error || reason == Some("client-disconnected") {
            attributes.push(("error.type", reason.map_or_else(|| status.to_string().into(), Value::from)));
        }
        if let Some(reason) = reason {
            attributes.push(("tollgate.reason", reason.into()));
        }
        let server = Span {
            id: self.context.span_id,
            parent: self.parent,
            name: Cow::Owned(self.name.clone()),
            kind: SpanKind::Server,
            start: self.epoch,
            end: now,
            attributes,
            is_error,
        };
        let mut spans = std::mem::take(&mut self.spans.lock().finished);
        spans.push(server);
        self.queue.push(Trace { id: self.context.trace_id, state: self.state.clone(), spans });
    }

    /// Returns a span that starts now, as a child of the server's.
    fn span(&self, name: &'static str, kind: SpanKind, attributes: Vec<Attribute>) -> Span {
        let start = self.now();
        let (id, parent) = (new_span_id(), Some(self.context.span_id));
        Span { id, parent, name: Cow::Borrowed(name), kind, start, end: start, attributes, is_error: false }
    }

    /// Returns the time in nanoseconds since the Unix epoch. It never goes backwards within a request.
    fn now(&self) -> u64 {
        self.epoch.saturating_add(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

impl AttemptObserver for RequestTrace {
    fn begin(&self, host: &str, port: u16) {
        self.end(AttemptOutcome::Failed("canceled"));
        // A limiter whose layer calls the next one has decided.
        self.limiters_ended(0);
        let mut spans = self.spans.lock();
        let attributes = vec![
            ("http.request.method", self.method.into()),
            ("server.address", host.to_owned().into()),
            ("server.port", port.into()),
        ];
        let name = if self.method == "_OTHER" { "HTTP" } else { self.method };
        let mut span = self.span(name, SpanKind::Client, attributes);
        if spans.attempts > 0 {
            span.attributes.push(("http.request.resend_count", Value::Number(spans.attempts)));
        }
        spans.attempts += 1;
        spans.attempt = Some(span);
    }

    fn propagate(&self, headers: &mut HeaderMap) {
        let spans = self.spans.lock();
        let span_id = spans.attempt.as_ref().map_or(self.context.span_id, |span| span.id);
        headers.insert(TRACEPARENT, TraceContext { span_id, ..self.context }.header());
    }

    fn end(&self, outcome: AttemptOutcome) {
        let now = self.now();
        let mut spans = self.spans.lock();
        let Some(mut span) = spans.attempt.take() else { return };
        match outcome {
            AttemptOutcome::Response(status) => {
                span.attributes.push(("http.response.status_code", status.as_u16().into()));
                if status.as_u16() >= 400 {
                    span.is_error = true;
                    span.attributes.push(("error.type", status.as_str().to_owned().into()));
                }
            }
            AttemptOutcome::Failed(reason) => {
                span.is_error = true;
                span.attributes.push(("error.type", reason.into()));
            }
        }
        finish(&mut spans, span, now);
    }
}

/// True if the limiter that is polled has a trace.
#[inline]
#[must_use]
pub fn is_current_sampled() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// Reports the verdict of a rule to the trace whose limiter is polled, if there is one.
pub fn report_verdict(rule: &str, verdict: &'static str, source: &'static str) {
    CURRENT.with_borrow(|current| {
        if let Some(trace) = current {
            trace.verdict(rule, verdict, source);
        }
    });
}

/// Restores the trace of the outer scope when dropped, after a panic too.
struct Restored(Option<Arc<RequestTrace>>);

impl Drop for Restored {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

fn finish(spans: &mut Spans, mut span: Span, now: u64) {
    if spans.finished.len() < MAX_SPANS {
        span.end = now;
        spans.finished.push(span);
    }
}
