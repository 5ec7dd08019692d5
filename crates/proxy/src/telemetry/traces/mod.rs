//! Traces: spans of sampled requests, sent to a collector over OTLP.
//!
//! [`Tracing::decide`] takes, continues or starts the trace context of a request ([`context`]). A sampled request collects
//! its spans in a [`RequestTrace`]; its end hands them to the [`exporter`]'s queue, which never waits.

pub mod context;
pub mod exporter;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use tollgate_config::OtlpExport;

    use super::*;

    const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    fn tracing(probability: f64) -> Tracing {
        let settings = OtlpExport {
            probability,
            endpoint: "http://127.0.0.1:9/v1/traces".parse().unwrap(),
            headers: Vec::new(),
            timeout: Duration::from_secs(1),
            resource: Vec::new(),
        };
        Tracing::new(probability, SpanQueue::start(&settings).unwrap())
    }

    /// Returns the number of sampled requests among `count`, each with this `traceparent`.
    fn sampled(tracing: &Tracing, count: u32, parent: Option<&str>) -> u32 {
        let is_sampled = |_: &u32| {
            let mut headers = HeaderMap::new();
            if let Some(parent) = parent {
                headers.insert(TRACEPARENT, parent.parse().unwrap());
            }
            tracing.decide(&mut headers).is_some()
        };
        u32::try_from((0..count).filter(is_sampled).count()).unwrap()
    }

    #[test]
    fn the_share_of_sampled_traces_is_the_probability() {
        const COUNT: u32 = 100_000;
        fastrand::seed(20_261_123);
        for probability in [0.001, 0.01, 0.1, 0.5, 0.9] {
            let sampled = f64::from(sampled(&tracing(probability), COUNT, None));
            let count = f64::from(COUNT);
            // Four standard deviations of the binomial distribution.
            let bound = 4.0 * (count * probability * (1.0 - probability)).sqrt();
            assert!((sampled - count * probability).abs() < bound, "{probability}: {sampled} of {COUNT}");
        }
        assert_eq!([0.0, 1.0].map(|probability| sampled(&tracing(probability), 1000, None)), [0, 1000]);
    }

    #[test]
    fn the_decision_of_the_caller_holds_at_every_probability() {
        for probability in [0.0, 0.5, 1.0] {
            let tracing = tracing(probability);
            assert_eq!(sampled(&tracing, 1000, Some(SAMPLED)), 1000, "{probability}");
            assert_eq!(sampled(&tracing, 1000, Some(UNSAMPLED)), 0, "{probability}");
        }
        let invalid = SAMPLED.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32));
        assert_eq!(sampled(&tracing(0.0), 1000, Some(&invalid)), 0, "an invalid context decides nothing");
        assert_eq!(sampled(&tracing(1.0), 1000, Some(&invalid)), 1000);
    }
}
