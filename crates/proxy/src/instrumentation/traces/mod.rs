//! Traces: spans of sampled requests, sent to a collector over OTLP.
//!
//! [`Tracing::decide`] takes, continues or starts the trace context of a request. A sampled request collects its
//! spans in a [`RequestTrace`]; its end hands them to a [`SpanQueue`], which never waits.

pub mod request;
pub mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::HeaderMap;
use http::request::Parts;

use tollgate_config::{OtlpExport, TraceFormat};
use tollgate_telemetry::otlp::SpanQueue;
use tollgate_telemetry::trace_context::{self, TRACEPARENT, TraceContext};

use self::request::RequestTrace;
use self::server::ServerInfo;

/// Sampling and export of the traces of one worker.
#[derive(Debug)]
pub struct Tracing {
    /// Share of the traces that start here and are sampled.
    probability: f64,
    /// Sampled traces have an id that is below this bound if it is shifted right by one bit. Collectors and services that
    /// sample by the id decide alike.
    bound: u64,
    /// Requests that are left until the next sampled one. A draw for each sampled request costs less than one for each
    /// request, and gives the same distribution.
    unsampled: AtomicU64,
    formats: Arc<TraceFormats>,
    queue: SpanQueue,
}

/// Formats of trace contexts.
#[derive(Debug)]
pub(crate) struct TraceFormats {
    /// Formats of the contexts of callers.
    consume: Vec<TraceFormat>,
    /// Those among them besides that of W3C.
    consume_others: Vec<TraceFormat>,
    /// Formats of the context that upstreams get.
    produce: Vec<TraceFormat>,
}

impl Clone for Tracing {
    /// Returns a sampler of its own: it draws its first sampled request anew.
    fn clone(&self) -> Self {
        Self::sampling(self.probability, Arc::clone(&self.formats), self.queue.clone())
    }
}

/// Largest number of header fields whose names are compared one by one, which costs less than a hash.
const FEW_FIELDS: usize = 8;

impl Tracing {
    /// Samples traces that start here, and reads and writes contexts, as `settings` say.
    pub fn new(settings: &OtlpExport, queue: SpanQueue) -> Self {
        let OtlpExport { consume, produce, .. } = settings;
        let others = consume.iter().copied().filter(|format| *format != TraceFormat::W3c);
        let formats =
            TraceFormats { consume: consume.clone(), consume_others: others.collect(), produce: produce.clone() };
        Self::sampling(settings.probability, Arc::new(formats), queue)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a probability of 63 bits")]
    fn sampling(probability: f64, formats: Arc<TraceFormats>, queue: SpanQueue) -> Self {
        let bound = (probability.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64;
        Self { probability, bound, unsampled: AtomicU64::new(gap(probability)), formats, queue }
    }

    /// Takes the context of the client, or starts a trace. Returns the context of a sampled request with its parent.
    ///
    /// The decision of the client holds, and an unsampled context is passed on as it is. A request without a context
    /// that is not sampled gets none: the field would cost each of them 4 % of its instructions.
    #[inline]
    pub fn decide(&self, headers: &mut HeaderMap) -> Option<(TraceContext, Option<u64>)> {
        let has_context = match headers.len() {
            ..=FEW_FIELDS => headers.keys().any(|name| *name == TRACEPARENT),
            _ => headers.contains_key(TRACEPARENT),
        };
        let others = &self.formats.consume_others;
        let has_context = has_context || (!others.is_empty() && trace_context::is_in(headers, others));
        if has_context { self.join(headers) } else { self.sample() }
    }

    /// Continues the trace of the client.
    #[cold]
    fn join(&self, headers: &mut HeaderMap) -> Option<(TraceContext, Option<u64>)> {
        let TraceFormats { consume, produce, .. } = &*self.formats;
        let caller_context = consume.iter().find_map(|format| Some((*format, trace_context::read(*format, headers)?)));
        let Some((format, caller)) = caller_context else {
            // Invalid fields must not be forwarded (W3C Trace Context §3.3.1.1).
            consume.iter().for_each(|format| trace_context::remove(*format, headers));
            return self.sample();
        };
        let is_random = caller.is_random;
        let is_sampled = caller.is_sampled.unwrap_or_else(|| self.sample().is_some());
        let stale = || consume.iter().filter(|format| !produce.contains(format));
        match caller.ids {
            _ if is_sampled => {
                stale().for_each(|format| trace_context::remove(*format, headers));
                let continued = |(trace_id, span_id)| {
                    (TraceContext { trace_id, span_id: new_span_id(), is_sampled, is_random }, Some(span_id))
                };
                Some(caller.ids.map_or_else(|| (self.begin(), None), continued))
            }
            Some((trace_id, span_id)) if caller.is_sampled.is_some() && !produce.contains(&format) => {
                stale().for_each(|format| trace_context::remove(*format, headers));
                trace_context::write(produce, &TraceContext { trace_id, span_id, is_sampled, is_random }, headers);
                None
            }
            _ => None,
        }
    }

    /// Starts a trace if this request is sampled.
    #[inline]
    fn sample(&self) -> Option<(TraceContext, Option<u64>)> {
        // One worker counts: a load and a store suffice.
        if let Some(left) = self.unsampled.load(Relaxed).checked_sub(1) {
            self.unsampled.store(left, Relaxed);
            return None;
        }
        Some((self.begin(), None))
    }

    #[cold]
    fn begin(&self) -> TraceContext {
        self.unsampled.store(gap(self.probability), Relaxed);
        let low = fastrand::u64(..self.bound.max(1)) << 1 | u64::from(fastrand::bool());
        let trace_id = u128::from(fastrand::u64(1..)) << 64 | u128::from(low);
        TraceContext { trace_id, span_id: new_span_id(), is_sampled: true, is_random: true }
    }

    /// Starts the trace of a sampled request.
    pub fn start(
        &self,
        (context, parent): (TraceContext, Option<u64>),
        head: &Parts,
        info: &ServerInfo<'_>,
    ) -> Arc<RequestTrace> {
        let formats = Arc::clone(&self.formats);
        Arc::new(RequestTrace::new((context, parent), head, info, formats, self.queue.clone()))
    }
}

/// Draws the number of requests before the next sampled one, each of which is sampled with `probability`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn gap(probability: f64) -> u64 {
    if probability <= 0.0 {
        return u64::MAX;
    }
    // From 0, exclusive, to 1.
    let draw = 1.0 - fastrand::f64();
    (draw.ln() / (-probability.min(1.0)).ln_1p()) as u64
}

/// Returns a random id, never 0.
fn new_span_id() -> u64 {
    fastrand::u64(1..)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;

    const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    fn tracing(probability: f64) -> Tracing {
        let settings = OtlpExport {
            probability,
            consume: vec![TraceFormat::W3c],
            produce: vec![TraceFormat::W3c],
            endpoint: "http://127.0.0.1:9/v1/traces".parse().unwrap(),
            headers: Vec::new(),
            timeout: Duration::from_secs(1),
            resource: Vec::new(),
        };
        Tracing::new(&settings, SpanQueue::start(&settings).unwrap())
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
    fn each_request_is_sampled_with_the_same_probability_whatever_came_before() {
        fastrand::seed(20_261_123);
        let tracing = tracing(0.25);
        let samples: Vec<bool> = (0..40_000).map(|_| tracing.decide(&mut HeaderMap::new()).is_some()).collect();
        for before in [false, true] {
            let after: Vec<bool> = samples.windows(2).filter(|pair| pair[0] == before).map(|pair| pair[1]).collect();
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let share = after.iter().filter(|is_sampled| **is_sampled).count() as f64 / after.len() as f64;
            assert!((share - 0.25).abs() < 0.02, "{share} after {before}");
        }
    }

    #[test]
    fn the_id_of_a_sampled_trace_tells_that_it_is_sampled() {
        for probability in [0.01, 0.5, 1.0] {
            let tracing = tracing(probability);
            let contexts = (0..5_000).filter_map(|_| tracing.decide(&mut HeaderMap::new()));
            for (context, parent) in contexts {
                #[expect(clippy::cast_possible_truncation, reason = "the low 64 bits decide")]
                let low = context.trace_id as u64;
                assert!(low >> 1 < tracing.bound && context.is_sampled && parent.is_none(), "{context:?}");
            }
        }
    }

    #[test]
    fn a_context_is_found_among_few_and_many_fields() {
        let tracing = tracing(0.0);
        for others in [0, 3, 20] {
            let mut headers = HeaderMap::new();
            for number in 0..others {
                headers.insert(http::HeaderName::try_from(format!("x-{number}")).unwrap(), number.into());
            }
            assert!(tracing.decide(&mut headers).is_none());
            headers.insert(TRACEPARENT, SAMPLED.parse().unwrap());
            assert!(tracing.decide(&mut headers).is_some(), "{others}");
        }
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
