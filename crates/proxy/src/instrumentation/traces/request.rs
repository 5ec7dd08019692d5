//! Spans of one sampled request while it runs.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;

use crate::http::attempts::{AttemptObserver, AttemptOutcome};
use crate::instrumentation::traces::server::{ServerInfo, attributes, joined_state, known_method};
use crate::instrumentation::traces::{TraceFormats, new_span_id};
use tollgate_telemetry::otlp::SpanQueue;
use tollgate_telemetry::otlp::span::{Attribute, Span, SpanKind, Trace, Value};
use tollgate_telemetry::trace_context::{self, TraceContext};

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
    formats: Arc<TraceFormats>,
    queue: SpanQueue,
}

/// Finished spans, and those that run.
#[derive(Debug, Default)]
struct Spans {
    finished: Vec<Span>,
    /// The latest limiter. One ends before the next starts.
    limiter: Option<LimiterSpan>,
    attempt: Option<Span>,
    attempts: i64,
}

/// Span of a limiter.
#[derive(Debug)]
struct LimiterSpan {
    span: Span,
    /// Scope of the limiter.
    scope: Arc<str>,
    /// True if `span.end` is the time of the decision.
    has_decided: bool,
}

thread_local! {
    /// Trace of the sampled request that is polled.
    static CURRENT: RefCell<Option<Arc<RequestTrace>>> = const { RefCell::new(None) };
    /// True if there is one. It needs no destructor, so that a read is one instruction.
    static IS_SAMPLED: Cell<bool> = const { Cell::new(false) };
}

impl RequestTrace {
    pub(super) fn new(
        (context, parent): (TraceContext, Option<u64>),
        head: &Parts,
        info: &ServerInfo<'_>,
        formats: Arc<TraceFormats>,
        queue: SpanQueue,
    ) -> Self {
        let method = known_method(&head.method);
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
            formats,
            queue,
        }
    }

    /// Returns the context of the server's span, as a field value.
    pub fn traceparent(&self) -> HeaderValue {
        self.context.header()
    }

    /// Starts the span of the limiter called `scope`, or continues it with a further call.
    pub fn limiter_started(&self, route: &str, scope: &Arc<str>) {
        let mut spans = self.spans.lock();
        self.limiter_of(&mut spans, route, scope).has_decided = false;
    }

    /// Ends the span of the limiter now. Its verdict follows.
    pub fn limiter_decided(&self) {
        let now = self.now();
        if let Some(limiter) = &mut self.spans.lock().limiter {
            limiter.span.end = now;
            limiter.has_decided = true;
        }
    }

    /// Returns the span of the limiter called `scope`, after ending that of another limiter. A new one has no duration.
    fn limiter_of<'s>(&self, spans: &'s mut Spans, route: &str, scope: &Arc<str>) -> &'s mut LimiterSpan {
        if spans.limiter.as_ref().is_some_and(|limiter| limiter.scope != *scope) {
            self.limiter_ended(spans);
        }
        spans.limiter.get_or_insert_with(|| {
            let attributes = vec![("tollgate.route", route.to_owned().into())];
            let span = self.span("RequestRateLimiter", SpanKind::Internal, attributes);
            LimiterSpan { span, scope: Arc::clone(scope), has_decided: true }
        })
    }

    /// Finishes the span of the latest limiter. One that has not decided ends now.
    fn limiter_ended(&self, spans: &mut Spans) {
        if let Some(LimiterSpan { span, has_decided, .. }) = spans.limiter.take() {
            let end = if has_decided { span.end } else { self.now() };
            finish(spans, span, end);
        }
    }

    /// Adds the verdict of a rule to the span of its limiter. The span is a call of Redis if Redis was called.
    fn verdict(&self, (route, scope): (&str, &Arc<str>), rule: &str, verdict: &'static str, source: &'static str) {
        let mut spans = self.spans.lock();
        let span = &mut self.limiter_of(&mut spans, route, scope).span;
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

    /// Makes this the trace that layers find as [`current`], until the result is dropped.
    pub fn enter(self: &Arc<Self>) -> Scope {
        IS_SAMPLED.set(true);
        Scope { outer: CURRENT.replace(Some(Arc::clone(self))) }
    }

    /// Ends the span of the server, and hands all spans to the exporter.
    pub fn finish(&self, status: u16, reason: Option<&'static str>) {
        self.end(AttemptOutcome::Failed("canceled"));
        self.limiter_ended(&mut self.spans.lock());
        let now = self.now();
        let mut attributes = std::mem::take(&mut *self.attributes.lock());
        attributes.push(("http.response.status_code", status.into()));
        let is_error = status >= 500;
        if is_error || matches!(reason, Some("client-disconnected" | "write-timeout")) {
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
        let mut spans = self.spans.lock();
        // A limiter in front of a retry decides again.
        self.limiter_ended(&mut spans);
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
        trace_context::write(&self.formats.produce, &TraceContext { span_id, ..self.context }, headers);
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

/// Returns the trace of the request that is polled; `None` if it is not sampled.
pub fn current() -> Option<Arc<RequestTrace>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Returns true if the request that is polled is sampled.
#[inline]
pub fn is_current_sampled() -> bool {
    IS_SAMPLED.get()
}

/// Reports the verdict of a rule, of the limiter called `scope`, to the trace of the request that is polled.
pub fn report_verdict(route: &str, scope: &Arc<str>, rule: &str, verdict: &'static str, source: &'static str) {
    if let Some(trace) = current() {
        trace.verdict((route, scope), rule, verdict, source);
    }
}

/// Time in which a trace is [`current`]. Its end restores the outer trace, after a panic too.
#[derive(Debug)]
#[must_use]
pub struct Scope {
    outer: Option<Arc<RequestTrace>>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        IS_SAMPLED.set(self.outer.is_some());
        CURRENT.set(self.outer.take());
    }
}

fn finish(spans: &mut Spans, mut span: Span, now: u64) {
    if spans.finished.len() < MAX_SPANS {
        span.end = now;
        spans.finished.push(span);
    }
}
