//! `/metrics`, in the OpenMetrics text that Prometheus reads.

mod redis;

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

use self::redis::RedisSnapshot;
use crate::admin::{AdminState, reply};
use crate::telemetry::caches::CacheCollector;
use crate::telemetry::concurrency::ConcurrencyCollector;
use crate::telemetry::metrics::RequestCollector;
use crate::telemetry::resilience::{BreakerCollector, RetryCollector};
use crate::telemetry::upstreams::UpstreamCollector;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything there is to count, as of now.
pub(super) fn scrape(state: &AdminState) -> Response<Full<Bytes>> {
    let config = state.config.load();
    let common = config.management.tags.iter().map(|(name, value)| (name.clone().into(), value.clone().into()));
    let mut registry = Registry::with_labels(common);
    registry.register_collector(Box::new(RequestCollector(Arc::clone(&state.metrics), config.request_series.clone())));
    registry.register_collector(Box::new(ConcurrencyCollector(Arc::clone(&state.metrics))));
    registry.register_collector(Box::new(UpstreamCollector(Arc::clone(&state.upstreams))));
    registry.register_collector(Box::new(RetryCollector(Arc::clone(&state.metrics))));
    registry.register_collector(Box::new(BreakerCollector(Arc::clone(&state.limits))));
    registry.register_collector(Box::new(Snapshot::of(state)));
    let caches = state.limits.caches().all();
    if !caches.is_empty() {
        registry.register_collector(Box::new(CacheCollector(caches)));
    }
    if let Some(redis) = RedisSnapshot::of(&state.limits) {
        registry.register_collector(Box::new(redis));
    }
    let mut page = String::new();
    match encode(&mut page, &registry) {
        Ok(()) => reply(StatusCode::OK, OPEN_METRICS, page.into()),
        Err(fmt::Error) => crate::admin::text(StatusCode::INTERNAL_SERVER_ERROR, "cannot encode the metrics\n"),
    }
}

/// Gauges and counters that others keep, read once for a scrape.
#[derive(Debug)]
struct Snapshot {
    counters: Vec<(&'static str, &'static str, u64)>,
    gauges: Vec<(&'static str, &'static str, i64)>,
}

impl Snapshot {
    fn of(state: &AdminState) -> Self {
        let memory = state.limits.memory();
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
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
        Self { counters, gauges }
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
        Ok(())
    }
}
