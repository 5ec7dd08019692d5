//! Traces: spans of sampled requests, sent to a collector over OTLP.
//!
//! [`Tracing::decide`] takes, continues or starts the trace context of a request ([`context`]). A sampled request collects
//! its spans in a [`RequestTrace`]; its end hands them to the [`exporter`]'s queue, which never waits.

pub mod context;
pub mod exporter;
mod post;
mod protobuf;
pub mod request;
pub mod server;
pub mod span;

use std::sync::Arc;

use http::HeaderMap;
use http::request::Parts;

use self::context::{TRACEPARENT, TRACESTATE, TraceContext};
use self::exporter::SpanQueue;
use self::request::RequestTrace;
use self::server::ServerInfo;

/// Sampling and export of the traces of one worker.
#[derive(Clone, Debug)]
pub struct Tracing {
    /// Traces whose id, shifted right by one bit, is below this bound are sampled.
    bound: u64,
    queue: SpanQueue,
}

impl Tracing {
    /// Samples the share `probability` of the traces that start here.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a probability of 63 bits")]
    pub fn new(probability: f64, queue: SpanQueue) -> Self {
        Self { bound: (probability.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64, queue }
    }

    /// Takes the context of the client, or starts a trace. Returns the context of a sampled request with its parent.
    ///
    /// The decision of the client holds, and an unsampled context is passed on as it is. A request without a context
    /// that is not sampled gets none: the field would cost each of them 4 % of its instructions.
    pub fn decide(&self, headers: &mut HeaderMap) -> Option<(TraceContext, Option<u64>)> {
        if headers.contains_key(TRACEPARENT) {
            if let Some(caller) = TraceContext::of(headers) {
                let context = TraceContext { span_id: new_span_id(), ..caller };
                return caller.is_sampled.then_some((context, Some(caller.span_id)));
            }
            // An invalid pair must not be forwarded (W3C Trace Context §3.3.1.1).
            headers.remove(TRACEPARENT);
            headers.remove(TRACESTATE);
        }
        let trace_id = fastrand::u128(1..);
        #[expect(clippy::cast_possible_truncation, reason = "the low 64 bits decide")]
        let is_sampled = (trace_id as u64) >> 1 < self.bound;
        is_sampled.then(|| (TraceContext { trace_id, span_id: new_span_id(), is_sampled }, None))
    }

    /// Starts the trace of a sampled request.
    #[must_use]
    pub fn start(
        &self,
        (context, parent): (TraceContext, Option<u64>),
        head: &Parts,
        info: &ServerInfo<'_>,
    ) -> Arc<RequestTrace> {
        Arc::new(RequestTrace::new(context, parent, head, info, self.queue.clone()))
    }
}

/// Returns a random id, never 0.
fn new_span_id() -> u64 {
    fastrand::u64(1..)
}
