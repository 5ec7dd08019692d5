//! Metrics of Redis: calls as the workers see them, and statistics that the servers report.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use tollgate_limiter::store::redis::{
    BreakerState, CallSizes, Latencies, LockedStatus, Operation, RedisStats, ServerInfo,
};

use tollgate_proxy::state::redis_servers::RedisServer;
use tollgate_proxy::state::stores::SharedStores;
use tollgate_telemetry::encode::{NO_LABELS, family};

/// Metrics of Redis, read once per scrape.
#[derive(Debug)]
pub(super) struct RedisSnapshot {
    errors: BTreeMap<&'static str, u64>,
    connects: u64,
    script_misses: u64,
    denial_cache_hits: u64,
    lease_hits: u64,
    call_sizes: CallSizes,
    latencies: BTreeMap<&'static str, LatencySums>,
    nodes: BTreeMap<String, NodeState>,
    servers: BTreeMap<String, RedisServer>,
    gateways: Option<u32>,
    locks: LockedStatus,
}

/// Latencies of one operation, summed over workers.
#[derive(Debug, Default)]
struct LatencySums {
    buckets: [u64; Latencies::BOUNDS_US.len() + 1],
    sum_us: u64,
}

/// Connections and circuit breakers of one server, over all workers.
#[derive(Debug, Default)]
struct NodeState {
    connections: usize,
    is_open: bool,
}

impl RedisSnapshot {
    /// Reads the metrics; `None` if limits are kept in memory.
    pub(super) fn of(stores: &SharedStores) -> Option<Self> {
        let clients = stores.redis();
        if clients.is_empty() {
            return None;
        }
        let mut nodes: BTreeMap<String, NodeState> = BTreeMap::new();
        for status in clients.into_iter().flat_map(|client| client.nodes) {
            let node = nodes.entry(status.name).or_default();
            node.connections += status.live_connections;
            node.is_open |= status.breaker == BreakerState::Open;
        }
        let stats = stores.redis_stats();
        let locks = stores.lock_stats.status();
        let mut errors = BTreeMap::new();
        for (kind, count) in stats.iter().flat_map(|stats| stats.failures()) {
            *errors.entry(kind.as_str()).or_default() += count;
        }
        Some(Self {
            errors,
            connects: stats.iter().map(|stats| stats.connects()).sum(),
            script_misses: stats.iter().map(|stats| stats.script_misses()).sum(),
            denial_cache_hits: stats.iter().map(|stats| stats.denial_cache_hits()).sum(),
            lease_hits: stats.iter().map(|stats| stats.lease_hits()).sum(),
            call_sizes: stats.iter().map(|stats| stats.call_sizes()).fold(CallSizes::default(), CallSizes::plus),
            latencies: latencies(stats.iter().chain([&stores.usage_stats]).map(|stats| &**stats)),
            nodes,
            servers: stores.redis_servers.all(),
            gateways: stores.gateways.counted().map(NonZeroU32::get),
            locks,
        })
    }

    /// Encodes the metrics.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_calls(encoder)?;
        self.encode_optimisations(encoder)?;
        self.encode_server_memory(encoder)?;
        self.encode_server_load(encoder)
    }

    /// Encodes one series per server that reports the statistic `value`.
    fn server_family<M: EncodeMetric + TypedMetric>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        value: impl Fn(&ServerInfo) -> Option<M>,
    ) -> fmt::Result {
        let series = self.servers.iter().filter_map(|(node, server)| {
            let info = server.info.as_ref().ok()?;
            Some(([("node", node)], value(info)?))
        });
        family(encoder, name, help, series)
    }

    fn encode_calls(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut histogram = encoder.encode_descriptor(
            "tollgate_redis_seconds",
            "Duration of Redis calls by operation, including queueing, until the reply or the deadline",
            None,
            MetricType::Histogram,
        )?;
        for (operation, sums) in &self.latencies {
            sums.encode(histogram.encode_family(&[("operation", *operation)])?)?;
        }
        let errors = self.errors.iter().map(|(kind, count)| ([("kind", *kind)], ConstCounter::new(*count)));
        family(encoder, "tollgate_redis_errors", "Failed Redis decisions by error kind", errors)?;
        let nodes = || self.nodes.iter().map(|(name, node)| ([("node", name)], node));
        let connections = nodes().map(|(labels, node)| (labels, ConstGauge::new(node.connections)));
        family(encoder, "tollgate_redis_connections", "Open connections of all workers", connections)?;
        let open = nodes().map(|(labels, node)| (labels, ConstGauge::new(u32::from(node.is_open))));
        family(
            encoder,
            "tollgate_breaker_state",
            "1 while the circuit breaker of a Redis server is open, 0 otherwise",
            open,
        )?;
        let connects = ConstCounter::new(self.connects);
        family(encoder, "tollgate_redis_connects", "Connections made to Redis", [(NO_LABELS, connects)])?;
        let gateways = self.gateways.map(|gateways| (NO_LABELS, ConstGauge::new(gateways)));
        family(encoder, "tollgate_gateways", "Live gateways, if a limiter counts them", gateways)
    }

    fn encode_optimisations(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let misses = ConstCounter::new(self.script_misses);
        let help = "Script calls answered with NOSCRIPT";
        family(encoder, "tollgate_script_misses", help, [(NO_LABELS, misses)])?;
        let (denied, paid) = (ConstCounter::new(self.denial_cache_hits), ConstCounter::new(self.lease_hits));
        let help = "Requests denied from the denial cache, without a Redis call";
        family(encoder, "tollgate_denial_cache_hits", help, [(NO_LABELS, denied)])?;
        let help = "Requests decided with prepaid tokens of a lease";
        family(encoder, "tollgate_leased_requests", help, [(NO_LABELS, paid)])?;
        let (name, help) = ("tollgate_redis_requests_per_call", "Requests decided per Redis call");
        encode_sizes(&self.call_sizes, encoder.encode_descriptor(name, help, None, MetricType::Histogram)?)?;
        let (contended, exhausted) = (ConstCounter::new(self.locks.contended), ConstCounter::new(self.locks.exhausted));
        let help = "Attempts to take a lock that was held";
        family(encoder, "tollgate_redis_lock_contended", help, [(NO_LABELS, contended)])?;
        let help = "Decisions that failed to take the lock in time";
        family(encoder, "tollgate_redis_lock_exhausted", help, [(NO_LABELS, exhausted)])
    }

    fn encode_server_memory(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.server_family(encoder, "tollgate_redis_used_memory_bytes", "Memory used by the server", |info| {
            info.used_memory.map(ConstGauge::new)
        })?;
        self.server_family(
            encoder,
            "tollgate_redis_max_memory_bytes",
            "Memory limit of the server, 0 for none",
            |info| info.maxmemory.map(ConstGauge::new),
        )?;
        self.server_family(
            encoder,
            "tollgate_redis_may_evict",
            "1 if the server may evict counters, 0 otherwise",
            |info| info.maxmemory_policy.is_some().then(|| ConstGauge::new(u32::from(info.may_evict()))),
        )?;
        self.server_family(encoder, "tollgate_redis_evicted_keys", "Keys evicted by the server", |info| {
            info.evicted_keys.map(ConstCounter::new)
        })?;
        self.server_family(encoder, "tollgate_redis_expired_keys", "Keys expired on the server", |info| {
            info.expired_keys.map(ConstCounter::new)
        })?;
        Ok(())
    }

    fn encode_server_load(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.server_family(encoder, "tollgate_redis_clients", "Connected clients, from all applications", |info| {
            info.connected_clients.map(ConstGauge::new)
        })?;
        self.server_family(encoder, "tollgate_redis_cpu_seconds", "CPU time used by the server", |info| {
            info.cpu.map(|cpu| ConstCounter::new(cpu.as_secs_f64()))
        })?;
        self.server_family(encoder, "tollgate_redis_script_seconds", "Time spent in scripts", |info| {
            info.in_scripts.map(|time| ConstCounter::new(time.as_secs_f64()))
        })?;
        self.server_family(
            encoder,
            "tollgate_redis_time_limit_hits",
            "Commands refused with BUSY because a script exceeded the time limit",
            |info| info.refused_busy.map(ConstCounter::new),
        )?;
        let shares = self
            .servers
            .iter()
            .filter_map(|(name, server)| Some(([("node", name)], ConstGauge::new(server.script_share?))));
        let help = "Share of CPU time spent in scripts between the last two samples";
        family(encoder, "tollgate_redis_script_cpu_share", help, shares)
    }
}

/// Sums latencies by operation; operations without calls are left out.
fn latencies<'s>(stats: impl Iterator<Item = &'s RedisStats>) -> BTreeMap<&'static str, LatencySums> {
    let mut all: BTreeMap<&'static str, LatencySums> = BTreeMap::new();
    for stats in stats {
        for operation in Operation::ALL {
            let latencies = stats.latencies(operation);
            let buckets = latencies.buckets();
            if buckets.iter().any(|count| *count > 0) {
                let sums = all.entry(operation.as_str()).or_default();
                sums.buckets.iter_mut().zip(buckets).for_each(|(sum, count)| *sum += count);
                sums.sum_us += latencies.sum_us();
            }
        }
    }
    all
}

#[expect(clippy::cast_precision_loss, reason = "a count of requests, as histograms have it")]
fn encode_sizes(sizes: &CallSizes, mut encoder: MetricEncoder<'_>) -> fmt::Result {
    let CallSizes { calls, requests } = *sizes;
    let bounds = (0..calls.len() as i32 - 1).map(|n| 2_f64.powi(n)).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(calls).collect();
    encoder.encode_histogram::<[(&str, &str); 0]>(requests as f64, calls.iter().sum(), &buckets, None)
}

impl LatencySums {
    #[expect(clippy::cast_precision_loss, reason = "microseconds in seconds")]
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let bounds = Latencies::BOUNDS_US.into_iter().map(|us| us as f64 / 1e6).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(self.buckets).collect();
        let count = self.buckets.iter().sum();
        encoder.encode_histogram::<[(&str, &str); 0]>(self.sum_us as f64 / 1e6, count, &buckets, None)
    }
}
