//! What became of retries, and what circuit breakers do.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tollgate_filters::circuit_breaker::{CallKind, State};
use tollgate_filters::retry::Event;

use crate::state::stores::SharedLimits;
use crate::telemetry::metrics::Metrics;

/// What may become of a failed answer, and the word for it.
const EVENTS: [(Event, &str); 3] =
    [(Event::Retried, "retried"), (Event::BudgetExhausted, "over_budget"), (Event::LimitReached, "gave_up")];

/// One worker's retries of one route.
#[derive(Debug)]
pub struct RetryMetrics {
    route: Arc<str>,
    counts: [AtomicU64; EVENTS.len()],
}

/// What `/metrics` shows of retries.
#[derive(Debug)]
pub struct RetryCollector(pub Arc<Metrics>);

/// What `/metrics` shows of circuit breakers.
#[derive(Debug)]
pub struct BreakerCollector(pub Arc<SharedLimits>);

impl RetryMetrics {
    pub(super) fn new(route: &Arc<str>) -> Self {
        Self { route: Arc::clone(route), counts: Default::default() }
    }

    pub(super) fn is_of(&self, route: &str) -> bool {
        &*self.route == route
    }

    /// Counts what became of a failed answer.
    pub fn count(&self, event: Event) {
        for ((known, _), count) in EVENTS.iter().zip(&self.counts) {
            if *known == event {
                count.fetch_add(1, Relaxed);
            }
        }
    }
}

impl Collector for RetryCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sums: BTreeMap<Arc<str>, [u64; EVENTS.len()]> = BTreeMap::new();
        self.0.each_retry(|series| {
            let sums = sums.entry(Arc::clone(&series.route)).or_default();
            for (sum, count) in sums.iter_mut().zip(&series.counts) {
                *sum += count.load(Relaxed);
            }
        });
        let mut family = encoder.encode_descriptor(
            "tollgate_retries",
            "Failed answers that Retry would repeat, by what became of them",
            None,
            MetricType::Counter,
        )?;
        for (route, sums) in &sums {
            for ((_, word), sum) in EVENTS.iter().zip(sums) {
                let labels = [("route", &**route), ("outcome", word)];
                ConstCounter::new(*sum).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

impl Collector for BreakerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let breakers = self.0.circuit_breakers().all();
        let mut family = encoder.encode_descriptor(
            "tollgate_circuit_breaker_state",
            "1 for the state that a circuit breaker is in, 0 for others",
            None,
            MetricType::Gauge,
        )?;
        for breaker in &breakers {
            let now = breaker.state();
            for state in [State::Closed, State::HalfOpen, State::Open] {
                let labels = [("name", &**breaker.name()), ("state", state.as_str())];
                ConstGauge::new(i64::from(state == now)).encode(family.encode_family(&labels)?)?;
            }
        }
        let mut family = encoder.encode_descriptor(
            "tollgate_circuit_breaker_calls",
            "Calls by circuit breaker and what became of them; slow ones count besides",
            None,
            MetricType::Counter,
        )?;
        for breaker in &breakers {
            for kind in CallKind::ALL {
                let labels = [("name", &**breaker.name()), ("kind", kind.as_str())];
                ConstCounter::new(breaker.calls(kind)).encode(family.encode_family(&labels)?)?;
            }
        }
        let mut family = encoder.encode_descriptor(
            "tollgate_circuit_breaker_failure_rate",
            "Share of failed calls in percent, as soon as a circuit breaker judges by it",
            None,
            MetricType::Gauge,
        )?;
        for breaker in &breakers {
            if let Some(rate) = breaker.failure_rate() {
                ConstGauge::new(rate).encode(family.encode_family(&[("name", &**breaker.name())])?)?;
            }
        }
        Ok(())
    }
}
