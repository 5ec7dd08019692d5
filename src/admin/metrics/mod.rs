//! `/metrics`, in the format that the client accepts.

mod format;
mod process;
mod redis;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{self, DescriptorEncoder};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;

use self::format::Format;
use self::process::ProcessCollector;
use self::redis::RedisSnapshot;
use crate::admin::reply::{problem, reply};
use crate::admin::state::AdminState;
use tollgate_proxy::telemetry::caches::CacheCollector;
use tollgate_proxy::telemetry::certificates::CertificateCollector;
use tollgate_proxy::telemetry::concurrency::ConcurrencyCollector;
use tollgate_proxy::telemetry::connections::ConnectionCollector;
use tollgate_proxy::telemetry::requests::RequestCollector;
use tollgate_proxy::telemetry::resilience::{BreakerCollector, RetryCollector};
use tollgate_proxy::telemetry::upstream_times::UpstreamTimesCollector;
use tollgate_proxy::telemetry::upstreams::UpstreamCollector;
use tollgate_telemetry::encode::{NO_LABELS, family, gauge};
use tollgate_telemetry::logs::{self, repeats};
use tollgate_telemetry::otlp::exporter::SpanCollector;
use tollgate_telemetry::reloads::ReloadCollector;

/// Returns the current value of every metric, in the format that `headers` accept.
pub(super) fn scrape(state: &AdminState, headers: &HeaderMap) -> Response<Full<Bytes>> {
    match state.metrics.scraped(|| page(state)) {
        Ok(page) => {
            let format = Format::accepted(headers);
            reply(StatusCode::OK, format.content_type(), format.convert(page).into())
        }
        Err(fmt::Error) => problem(StatusCode::INTERNAL_SERVER_ERROR, "cannot encode the metrics"),
    }
}

fn page(state: &AdminState) -> Result<String, fmt::Error> {
    let config = state.config.load();
    let common = config.management.tags.iter().map(|(name, value)| (name.clone().into(), value.clone().into()));
    let mut registry = Registry::with_labels(common);
    registry.register_collector(Box::new(ProcessCollector { started: state.started }));
    registry.register_collector(Box::new(ReloadCollector::of(&state.last_reload)));
    registry.register_collector(Box::new(CertificateCollector::of(&config)));
    registry.register_collector(Box::new(ConnectionCollector(Arc::clone(&state.connections))));
    let metrics = &state.metrics;
    let has_redis = config.redis.is_some();
    registry.register_collector(Box::new(RequestCollector {
        metrics: Arc::clone(metrics),
        series: config.request_series.clone(),
        has_redis,
    }));
    registry.register_collector(Box::new(ConcurrencyCollector { metrics: Arc::clone(metrics), has_redis }));
    registry.register_collector(Box::new(UpstreamCollector(Arc::clone(&state.upstreams))));
    registry.register_collector(Box::new(UpstreamTimesCollector(Arc::clone(metrics))));
    registry.register_collector(Box::new(RetryCollector(Arc::clone(metrics))));
    registry.register_collector(Box::new(BreakerCollector(state.stores.circuit_breakers().all())));
    registry.register_collector(Box::new(Snapshot::of(state)));
    if let Some(spans) = &state.spans {
        registry.register_collector(Box::new(SpanCollector(Arc::clone(spans))));
    }
    let caches = state.stores.response_caches().all();
    if !caches.is_empty() {
        registry.register_collector(Box::new(CacheCollector(caches)));
    }
    if let Some(redis) = RedisSnapshot::of(&state.stores) {
        registry.register_collector(Box::new(redis));
    }
    let mut page = String::new();
    encoding::text::encode(&mut page, &registry)?;
    Ok(page)
}

/// Counters and gauges of the process, read once per scrape.
#[derive(Debug)]
struct Snapshot {
    counters: Vec<(&'static str, &'static str, u64)>,
    gauges: Vec<(&'static str, &'static str, usize)>,
}

impl Snapshot {
    fn of(state: &AdminState) -> Self {
        let memory = state.stores.memory();
        let mut counters = vec![
            ("tollgate_reloads", "Configurations applied on reload", state.reloads.load(Relaxed)),
            ("tollgate_failed_reloads", "Configurations refused on reload", state.failed_reloads.load(Relaxed)),
            (
                "tollgate_memory_overflowed",
                "Decisions on buckets that keys without room share, past memory.max-keys",
                memory.overflowed(),
            ),
        ];
        if let Some(log) = &state.log {
            counters.push(("tollgate_access_log_lost_lines", "Access log lines dropped or not written", log.lost()));
        }
        counters.extend([
            ("tollgate_log_lost_lines", "Lines of the gateway's log dropped or not written", logs::lost()),
            (
                "tollgate_log_suppressed_lines",
                "Repeated warnings and errors left out of the log",
                repeats::suppressed(),
            ),
        ]);
        let mut gauges = vec![("tollgate_memory_keys", "Buckets in memory", memory.len())];
        let usage = state.stores.ledger().status();
        counters.extend([
            ("tollgate_metering_counted_requests", "Requests counted by RequestCounter", usage.counted),
            ("tollgate_metering_flushed_requests", "Counted requests written to Redis", usage.flushed),
            ("tollgate_metering_lost_requests", "Counted requests dropped before they reached Redis", usage.lost),
            (
                "tollgate_metering_overflowed_requests",
                "Requests counted without their key, past metering.max-cells",
                usage.overflowed,
            ),
            ("tollgate_metering_failed_flushes", "Failed writes to Redis, each retried", usage.failed_sends),
        ]);
        gauges.push(("tollgate_metering_waiting_batches", "Usage batches queued for Redis", usage.waiting_batches));
        gauges.push(("tollgate_metering_cells", "Usage counters in memory", usage.cells));
        Self { counters, gauges }
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, value) in &self.counters {
            family(&mut encoder, name, help, [(NO_LABELS, ConstCounter::new(*value))])?;
        }
        for (name, help, value) in &self.gauges {
            family(&mut encoder, name, help, [(NO_LABELS, gauge(*value))])?;
        }
        Ok(())
    }
}
