//! `/metrics`, in the OpenMetrics text that Prometheus reads.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text::encode};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use tollgate_filters::limiter::store::redis::{BreakerState, CallSizes};

use super::{AdminState, reply};
use crate::telemetry::concurrency::ConcurrencyCollector;
use crate::telemetry::metrics::RequestCollector;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything there is to count, as of now.
pub(super) fn scrape(state: &AdminState) -> Response<Full<Bytes>> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(RequestCollector(Arc::clone(&state.metrics))));
    registry.register_collector(Box::new(ConcurrencyCollector(Arc::clone(&state.metrics))));
    registry.register_collector(Box::new(Snapshot::of(state)));
    let mut page = String::new();
    match encode(&mut page, &registry) {
        Ok(()) => reply(StatusCode::OK, OPEN_METRICS, page.into()),
        Err(fmt::Error) => super::text(StatusCode::INTERNAL_SERVER_ERROR, "cannot encode the metrics\n"),
    }
}

/// Gauges and counters that others keep, read once for a scrape.
#[derive(Debug)]
struct Snapshot {
    counters: Vec<(&'static str, &'static str, u64)>,
    gauges: Vec<(&'static str, &'static str, i64)>,
    redis_errors: BTreeMap<&'static str, u64>,
    call_sizes: Option<CallSizes>,
}

impl Snapshot {
    fn of(state: &AdminState) -> Self {
        let memory = state.limits.memory();
        let clients = state.limits.redis();
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let mut redis_errors = BTreeMap::new();
        for (kind, errors) in clients.iter().flat_map(|client| client.failures) {
            *redis_errors.entry(kind.as_str()).or_default() += errors;
        }
        let mut counters = vec![
            ("tollgate_reloads", "Configurations taken over", state.reloads.load(Relaxed)),
            ("tollgate_failed_reloads", "Configurations refused on reload", state.failed_reloads.load(Relaxed)),
            (
                "tollgate_memory_overflowed",
                "Decisions that shared the overflow bucket at max-keys",
                memory.overflowed(),
            ),
        ];
        if let Some(log) = &*state.log.lock() {
            counters.push(("tollgate_access_log_lost_lines", "Access-log lines that could not be written", log.lost()));
        }
        let mut gauges = vec![("tollgate_memory_keys", "Buckets kept in memory", count(memory.len()))];
        let usage = state.limits.ledger().status();
        counters.extend([
            ("tollgate_metering_counted_requests", "Requests counted by RequestCounter", usage.counted),
            ("tollgate_metering_flushed_requests", "Requests whose counts are in Redis", usage.flushed),
            ("tollgate_metering_lost_requests", "Requests whose counts never reach Redis", usage.lost),
            ("tollgate_metering_overflowed_requests", "Requests counted without a key at max-cells", usage.overflowed),
            ("tollgate_metering_failed_flushes", "Pipelines that failed and are sent again", usage.failed_sends),
        ]);
        gauges.push(("tollgate_metering_waiting_batches", "Batches that wait for Redis", count(usage.waiting_batches)));
        gauges.push(("tollgate_metering_cells", "Counts told apart in memory", count(usage.cells)));
        if !clients.is_empty() {
            let misses = clients.iter().map(|client| client.script_misses).sum();
            counters.push(("tollgate_script_misses", "Script calls that Redis had forgotten the script of", misses));
            let denied = clients.iter().map(|client| client.denied_from_memory).sum();
            counters.push(("tollgate_denial_cache_hits", "Requests denied without a call of Redis", denied));
            let paid = clients.iter().map(|client| client.paid_in_advance).sum();
            counters.push(("tollgate_leased_requests", "Requests that were paid for in advance", paid));
            let connected = clients.iter().filter(|client| client.connected).count();
            gauges.push(("tollgate_redis_connections", "Workers connected to Redis", count(connected)));
            let open = clients.iter().any(|client| client.breaker == BreakerState::Open);
            gauges.push(("tollgate_breaker_state", "1 while Redis is not asked, 0 otherwise", i64::from(open)));
        }
        let call_sizes = clients.iter().map(|client| client.call_sizes).reduce(CallSizes::plus);
        Self { counters, gauges, redis_errors, call_sizes }
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, value) in &self.counters {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(*value).encode(metric)?;
        }
        for (name, help, value) in &self.gauges {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(*value).encode(metric)?;
        }
        if let Some(CallSizes { calls, requests }) = self.call_sizes {
            let (name, help) = ("tollgate_redis_requests_per_call", "Requests that a call of Redis decided");
            let bounds = (0..calls.len() as i32).map(|n| 2_f64.powi(n));
            let buckets: Vec<(f64, u64)> = bounds.chain([f64::INFINITY]).zip(calls.into_iter().chain([0])).collect();
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
            #[expect(clippy::cast_precision_loss, reason = "a count of requests, as histograms have it")]
            let sum = requests as f64;
            metric.encode_histogram::<[(&str, &str); 0]>(sum, calls.iter().sum(), &buckets, None)?;
        }
        let mut family = encoder.encode_descriptor(
            "tollgate_redis_errors",
            "Decisions that Redis did not make, by why",
            None,
            MetricType::Counter,
        )?;
        for (kind, errors) in &self.redis_errors {
            ConstCounter::new(*errors).encode(family.encode_family(&[("kind", *kind)])?)?;
        }
        Ok(())
    }
}
