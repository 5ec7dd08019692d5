//! `/metrics`, in the format that the client accepts. Metrics of the process and of the build have the names that Prometheus'
//! client libraries use.

mod format;
mod redis;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, StatusCode};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{self, DescriptorEncoder};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use self::format::Format;
use crate::admin::admin_state::AdminState;
use crate::admin::reply::{Reply, problem, reply};
use crate::version;
use tollgate_config::{ApiKeys, Config};
use tollgate_proxy::instrumentation::state_metrics::{
    encode_breakers, encode_caches, encode_certificates, encode_connections, encode_retries,
};
use tollgate_proxy::instrumentation::{concurrency, requests, upstreams};
use tollgate_telemetry::encode::{NO_LABELS, family, gauge};
use tollgate_telemetry::logs::{self, repeats};

/// Returns the current value of every metric, in the format that `headers` accept.
pub(super) fn scrape(state: &Arc<AdminState>, headers: &HeaderMap) -> Reply {
    match state.metrics.scraped(|| page(state)) {
        Ok(page) => {
            let format = Format::accepted(headers);
            reply(StatusCode::OK, format.content_type(), format.convert(page).into())
        }
        Err(fmt::Error) => problem(StatusCode::INTERNAL_SERVER_ERROR, "cannot encode the metrics"),
    }
}

fn page(state: &Arc<AdminState>) -> Result<String, fmt::Error> {
    let config = state.config.load_full();
    let tags = config.management.tags.iter().map(|(name, value)| (name.clone().into(), value.clone().into()));
    let mut registry = Registry::with_labels(tags);
    registry.register_collector(Box::new(MetricsPage { state: Arc::clone(state), config }));
    let mut page = String::new();
    encoding::text::encode(&mut page, &registry)?;
    Ok(page)
}

/// Every metric of the gateway under a configuration.
#[derive(Debug)]
struct MetricsPage {
    state: Arc<AdminState>,
    config: Arc<Config>,
}

impl Collector for MetricsPage {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (Self { state, config }, encoder) = (self, &mut encoder);
        let (metrics, has_redis) = (&*state.metrics, config.redis.is_some());
        encode_process(encoder, state.started)?;
        state.last_reload.encode(encoder)?;
        encode_certificates(encoder, config)?;
        encode_connections(encoder, &state.connections)?;
        requests::encode(encoder, metrics, &config.request_series, has_redis)?;
        concurrency::encode(encoder, metrics, has_redis)?;
        upstreams::encode(encoder, &state.upstreams)?;
        upstreams::encode_times(encoder, metrics)?;
        encode_retries(encoder, metrics)?;
        encode_breakers(encoder, &state.stores.circuit_breakers.all())?;
        encode_totals(encoder, state)?;
        encode_refusals(encoder, state)?;
        if let Some(spans) = &state.spans {
            spans.encode(encoder)?;
        }
        let caches = state.stores.response_caches.all();
        if !caches.is_empty() {
            encode_caches(encoder, &caches)?;
        }
        if let Some(keys) = &config.api_keys {
            encode_keys(encoder, state, keys)?;
        }
        redis::encode(encoder, &state.stores)
    }
}

/// Encodes the number of keys, once it is known.
fn encode_keys(encoder: &mut DescriptorEncoder<'_>, state: &AdminState, keys: &ApiKeys) -> fmt::Result {
    let Some(counts) = state.stores.api_keys.counts(&keys.store) else { return Ok(()) };
    family(encoder, "tollgate_api_keys", "API keys of the file or the Redis hash", [(NO_LABELS, gauge(counts.keys))])?;
    let help = "API keys that expire within 14 days";
    family(encoder, "tollgate_api_keys_expiring", help, [(NO_LABELS, gauge(counts.expiring))])
}

fn encode_refusals(encoder: &mut DescriptorEncoder<'_>, state: &AdminState) -> fmt::Result {
    let refusals =
        state.refusals.counts().map(|(reason, count)| ([("reason", reason.as_str())], ConstCounter::new(count)));
    let help = "Requests to the admin port that were refused, by reason";
    family(encoder, "tollgate_admin_refused_requests", help, refusals)
}

/// Encodes counters and gauges without labels.
fn encode_totals(encoder: &mut DescriptorEncoder<'_>, state: &AdminState) -> fmt::Result {
    let (memory, usage) = (&state.stores.memory, state.stores.ledger.status());
    let lost_lines = state
        .log
        .as_ref()
        .map(|log| ("tollgate_access_log_lost_lines", "Access log lines dropped or not written", log.lost()));
    let counters = [
        ("tollgate_reloads", "Configurations applied on reload", state.reloads.load(Relaxed)),
        ("tollgate_failed_reloads", "Configurations refused on reload", state.failed_reloads.load(Relaxed)),
        (
            "tollgate_memory_overflowed",
            "Decisions on buckets that keys without room share, past memory.max-keys",
            memory.overflowed(),
        ),
    ];
    let further = [
        ("tollgate_log_lost_lines", "Lines of the gateway's log dropped or not written", logs::lost()),
        ("tollgate_log_suppressed_lines", "Repeated warnings and errors left out of the log", repeats::suppressed()),
        ("tollgate_metering_counted_requests", "Requests counted by RequestCounter", usage.counted),
        ("tollgate_metering_flushed_requests", "Counted requests written to Redis", usage.flushed),
        ("tollgate_metering_lost_requests", "Counted requests dropped before they reached Redis", usage.lost),
        (
            "tollgate_metering_overflowed_requests",
            "Requests counted without their key, past metering.max-cells",
            usage.overflowed,
        ),
        ("tollgate_metering_failed_flushes", "Failed writes to Redis, each retried", usage.failed_sends),
    ];
    for (name, help, value) in counters.into_iter().chain(lost_lines).chain(further) {
        family(encoder, name, help, [(NO_LABELS, ConstCounter::new(value))])?;
    }
    for (name, help, value) in [
        (
            "tollgate_config_needs_restart",
            "Settings of the configuration that take effect only at the next start",
            state.needs_restart(&state.config.load()).len(),
        ),
        (
            "tollgate_access_log_misplaced",
            "1 if the access log could not be opened again: lines go to a file that was moved or removed",
            usize::from(state.access_log_is_misplaced()),
        ),
        ("tollgate_memory_keys", "Buckets in memory", memory.len()),
        ("tollgate_metering_waiting_batches", "Usage batches queued for Redis", usage.waiting_batches),
        ("tollgate_metering_cells", "Usage counters in memory", usage.cells),
    ] {
        family(encoder, name, help, [(NO_LABELS, gauge(value))])?;
    }
    Ok(())
}

/// Encodes the metrics of a process that `started` then.
fn encode_process(encoder: &mut DescriptorEncoder<'_>, started: SystemTime) -> fmt::Result {
    let build = [("version", env!("CARGO_PKG_VERSION")), ("commit", version::COMMIT), ("features", version::FEATURES)];
    family(encoder, "tollgate_build_info", "Version of the gateway", [(build, gauge(1))])?;
    let cpu = ConstCounter::new(cpu_time().as_secs_f64());
    let help = "User and system CPU time of the process in seconds";
    family(encoder, "process_cpu_seconds", help, [(NO_LABELS, cpu)])?;
    let started = ConstGauge::new(started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64());
    let help = "Start time of the process since the Unix epoch in seconds";
    family(encoder, "process_start_time_seconds", help, [(NO_LABELS, started)])?;
    let (resident, virtual_memory) = memory();
    let one = |value: Option<u64>| value.map(|value| (NO_LABELS, gauge(value)));
    family(encoder, "process_resident_memory_bytes", "Resident memory size in bytes", one(resident))?;
    family(encoder, "process_virtual_memory_bytes", "Virtual memory size in bytes", one(virtual_memory))?;
    family(encoder, "process_open_fds", "Open file descriptors", one(open_descriptors()))?;
    let allowed = one(getrlimit(Resource::Nofile).current);
    family(encoder, "process_max_fds", "Maximum number of open file descriptors", allowed)
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Returns resident and virtual memory in bytes; `None` if the system does not report them.
fn memory() -> (Option<u64>, Option<u64>) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    };
    (bytes("VmRSS:"), bytes("VmSize:"))
}

/// Counts the open descriptors, without the one that lists them.
fn open_descriptors() -> Option<u64> {
    let listed = std::fs::read_dir("/proc/self/fd").ok()?.count();
    u64::try_from(listed).ok()?.checked_sub(1)
}
