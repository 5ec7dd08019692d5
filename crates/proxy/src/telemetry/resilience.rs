//! Metrics of retries and circuit breakers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tollgate_filters::circuit_breaker::{Breaker, CallKind, State};
use tollgate_filters::retry::Event;

use crate::telemetry::metrics::Metrics;
use tollgate_telemetry::encode::family;

/// Outcomes of a failed attempt, with their label values.
const EVENTS: [(Event, &str); 3] =
    [(Event::Retried, "retried"), (Event::BudgetExhausted, "over_budget"), (Event::LimitReached, "gave_up")];

/// Retries of one route on one worker.
#[derive(Debug)]
pub struct RetryMetrics {
    route: Arc<str>,
    counts: [AtomicU64; EVENTS.len()],
}

/// Collector of retries.
#[derive(Debug)]
pub struct RetryCollector(pub Arc<Metrics>);

/// Collector of circuit breakers.
#[derive(Debug)]
pub struct BreakerCollector(pub Vec<Arc<Breaker>>);

impl RetryMetrics {
    pub(super) fn new(route: &Arc<str>) -> Self {
        Self { route: Arc::clone(route), counts: Default::default() }
    }

    /// Counts the outcome of a failed attempt.
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
        self.0.retries.for_each(|series| {
            let sums = sums.entry(Arc::clone(&series.route)).or_default();
            for (sum, count) in sums.iter_mut().zip(&series.counts) {
                *sum += count.load(Relaxed);
            }
        });
        let series = sums.iter().flat_map(|(route, sums)| {
            let labels = |outcome| [("route", &**route), ("outcome", outcome)];
            EVENTS.iter().zip(sums).map(move |((_, outcome), sum)| (labels(*outcome), ConstCounter::new(*sum)))
        });
        family(&mut encoder, "tollgate_retries", "Failed attempts of Retry filters by outcome", series)
    }
}

impl Collector for BreakerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let states = self.0.iter().flat_map(|breaker| {
            let now = breaker.state();
            [State::Closed, State::HalfOpen, State::Open].map(|state| {
                let labels = [("name", &**breaker.name()), ("state", state.as_str())];
                (labels, ConstGauge::new(i64::from(state == now)))
            })
        });
        let help = "1 for the current state of a circuit breaker, 0 for others";
        family(&mut encoder, "tollgate_circuit_breaker_state", help, states)?;
        let forced = self.0.iter().map(|breaker| {
            let is_forced = breaker.forced().is_some();
            ([("name", &**breaker.name())], ConstGauge::new(i64::from(is_forced)))
        });
        let help = "1 while an operator forces the state of a circuit breaker";
        family(&mut encoder, "tollgate_circuit_breaker_forced", help, forced)?;
        let calls = self.0.iter().flat_map(|breaker| {
            CallKind::ALL.into_iter().map(|kind| {
                let labels = [("name", &**breaker.name()), ("kind", kind.as_str())];
                (labels, ConstCounter::new(breaker.calls(kind)))
            })
        });
        let help = "Calls by circuit breaker and outcome; slow calls count twice, also by outcome";
        family(&mut encoder, "tollgate_circuit_breaker_calls", help, calls)?;
        let rates = self
            .0
            .iter()
            .filter_map(|breaker| Some(([("name", &**breaker.name())], ConstGauge::new(breaker.failure_rate()?))));
        let help = "Share of failed calls in percent, once the minimum number of calls is reached";
        family(&mut encoder, "tollgate_circuit_breaker_failure_rate", help, rates)
    }
}
