//! What is known of Redis: by those who call it, and by itself.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use tollgate_limiter::store::redis::{
    BreakerState, CallSizes, Latencies, LockedStatus, Operation, RedisStats, ServerInfo,
};

use crate::state::redis_monitor::Server;
use crate::state::stores::SharedLimits;

/// Read once for a scrape.
#[derive(Debug)]
pub(super) struct RedisSnapshot {
    errors: BTreeMap<&'static str, u64>,
    connects: u64,
    script_misses: u64,
    denied_from_memory: u64,
    paid_in_advance: u64,
    call_sizes: CallSizes,
    latencies: BTreeMap<&'static str, Sums>,
    nodes: BTreeMap<String, Node>,
    servers: BTreeMap<String, Server>,
    gateways: Option<u32>,
    locks: LockedStatus,
}

/// How long the calls of all workers took.
#[derive(Debug, Default)]
struct Sums {
    buckets: [u64; Latencies::BOUNDS_US.len() + 1],
    sum_us: u64,
}

/// A server as the workers see it.
#[derive(Debug, Default)]
struct Node {
    connections: usize,
    is_open: bool,
}

impl RedisSnapshot {
    /// `None` where limits are kept in memory.
    pub(super) fn of(limits: &SharedLimits) -> Option<Self> {
        let clients = limits.redis();
        if clients.is_empty() {
            return None;
        }
        let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
        for status in clients.into_iter().flat_map(|client| client.nodes) {
            let node = nodes.entry(status.name).or_default();
            node.connections += status.live_connections;
            node.is_open |= status.breaker == BreakerState::Open;
        }
        let stats = limits.redis_stats();
        let locks = limits.lock_stats().status();
        let mut errors = BTreeMap::new();
        for (kind, count) in stats.iter().flat_map(|stats| stats.failures()) {
            *errors.entry(kind.as_str()).or_default() += count;
        }
        Some(Self {
            errors,
            connects: stats.iter().map(|stats| stats.connects()).sum(),
            script_misses: stats.iter().map(|stats| stats.script_misses()).sum(),
            denied_from_memory: stats.iter().map(|stats| stats.denial_cache_hits()).sum(),
            paid_in_advance: stats.iter().map(|stats| stats.lease_hits()).sum(),
            call_sizes: stats.iter().map(|stats| stats.call_sizes()).fold(CallSizes::default(), CallSizes::plus),
            latencies: latencies(stats.iter().chain([limits.usage_stats()]).map(|stats| &**stats)),
            nodes,
            servers: limits.servers().all(),
            gateways: limits.gateways().counted().map(NonZeroU32::get),
            locks,
        })
    }

    /// A series for each server that tells its figure.
    fn figure<M: EncodeMetric + TypedMetric>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        figure: impl Fn(&ServerInfo) -> Option<M>,
    ) -> fmt::Result {
        let told = self.servers.iter().filter_map(|(node, server)| {
            let info = server.told.as_ref().ok()?;
            Some(([("node", node)], figure(info)?))
        });
        family(encoder, name, help, told)
    }

    fn encode_calls(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut histogram = encoder.encode_descriptor(
            "tollgate_redis_seconds",
            "Calls of Redis by operation, queueing included, until the answer or the deadline",
            None,
            MetricType::Histogram,
        )?;
        for (operation, sums) in &self.latencies {
            sums.encode(histogram.encode_family(&[("operation", *operation)])?)?;
        }
        let errors = self.errors.iter().map(|(kind, count)| ([("kind", *kind)], ConstCounter::new(*count)));
        family(encoder, "tollgate_redis_errors", "Decisions that Redis did not make, by why", errors)?;
        let nodes = || self.nodes.iter().map(|(name, node)| ([("node", name)], node));
        let connections = nodes().map(|(labels, node)| (labels, ConstGauge::new(node.connections)));
        family(encoder, "tollgate_redis_connections", "Live connections of all workers", connections)?;
        let open = nodes().map(|(labels, node)| (labels, ConstGauge::new(u32::from(node.is_open))));
        family(encoder, "tollgate_breaker_state", "1 while a server is not asked, 0 otherwise", open)?;
        let (connects, misses) = (ConstCounter::new(self.connects), ConstCounter::new(self.script_misses));
        family(encoder, "tollgate_redis_connects", "Connections that were made", [(NO_LABELS, connects)])?;
        let help = "Script calls that Redis had forgotten the script of";
        family(encoder, "tollgate_script_misses", help, [(NO_LABELS, misses)])?;
        let (denied, paid) = (ConstCounter::new(self.denied_from_memory), ConstCounter::new(self.paid_in_advance));
        let help = "Requests denied without a call of Redis";
        family(encoder, "tollgate_denial_cache_hits", help, [(NO_LABELS, denied)])?;
        let help = "Requests that were paid for in advance";
        family(encoder, "tollgate_leased_requests", help, [(NO_LABELS, paid)])?;
        let (name, help) = ("tollgate_redis_requests_per_call", "Requests that a call of Redis decided");
        encode_sizes(&self.call_sizes, encoder.encode_descriptor(name, help, None, MetricType::Histogram)?)?;
        let (contended, exhausted) = (ConstCounter::new(self.locks.contended), ConstCounter::new(self.locks.exhausted));
        let help = "Tries to decide under a lock that somebody else had";
        family(encoder, "tollgate_redis_lock_contended", help, [(NO_LABELS, contended)])?;
        let help = "Decisions that got no lock in time";
        family(encoder, "tollgate_redis_lock_exhausted", help, [(NO_LABELS, exhausted)])?;
        let gateways = self.gateways.map(|gateways| (NO_LABELS, ConstGauge::new(gateways)));
        family(encoder, "tollgate_gateways", "Gateways that live, where they are counted", gateways)
    }

    fn encode_servers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.figure(encoder, "tollgate_redis_used_memory_bytes", "Memory that a server uses", |info| {
            info.used_memory.map(ConstGauge::new)
        })?;
        self.figure(encoder, "tollgate_redis_max_memory_bytes", "Memory that it may use, 0 for all", |info| {
            info.maxmemory.map(ConstGauge::new)
        })?;
        self.figure(encoder, "tollgate_redis_may_evict", "1 where it may drop counters to make room", |info| {
            info.maxmemory_policy.is_some().then(|| ConstGauge::new(u32::from(info.may_evict())))
        })?;
        self.figure(encoder, "tollgate_redis_evicted_keys", "Keys that it dropped to make room", |info| {
            info.evicted_keys.map(ConstCounter::new)
        })?;
        self.figure(encoder, "tollgate_redis_expired_keys", "Keys whose time was over", |info| {
            info.expired_keys.map(ConstCounter::new)
        })?;
        self.figure(encoder, "tollgate_redis_clients", "Clients of all kinds that are connected to it", |info| {
            info.connected_clients.map(ConstGauge::new)
        })?;
        self.figure(encoder, "tollgate_redis_cpu_seconds", "Processor time that it has used", |info| {
            info.cpu.map(|cpu| ConstCounter::new(cpu.as_secs_f64()))
        })?;
        self.figure(encoder, "tollgate_redis_script_seconds", "Time that it has spent in scripts", |info| {
            info.in_scripts.map(|time| ConstCounter::new(time.as_secs_f64()))
        })?;
        self.figure(
            encoder,
            "tollgate_redis_time_limit_hits",
            "Commands refused because a script ran for longer than the server allows",
            |info| info.refused_busy.map(ConstCounter::new),
        )?;
        let shares = self
            .servers
            .iter()
            .filter_map(|(name, server)| Some(([("node", name)], ConstGauge::new(server.script_share?))));
        let help = "Share of its processor time that scripts took between the last two looks";
        family(encoder, "tollgate_redis_script_cpu_share", help, shares)
    }
}

impl Collector for RedisSnapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_calls(&mut encoder)?;
        self.encode_servers(&mut encoder)
    }
}

const NO_LABELS: [(&str, &str); 0] = [];

/// A metric with its series.
fn family<M: EncodeMetric + TypedMetric, L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = (L, M)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, M::TYPE)?;
    for (labels, metric) in series {
        metric.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// By operation; those that nobody called are left out.
fn latencies<'s>(stats: impl Iterator<Item = &'s RedisStats>) -> BTreeMap<&'static str, Sums> {
    let mut all: BTreeMap<&'static str, Sums> = BTreeMap::new();
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
    let bounds = (0..calls.len() as i32).map(|n| 2_f64.powi(n)).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(calls.into_iter().chain([0])).collect();
    encoder.encode_histogram::<[(&str, &str); 0]>(requests as f64, calls.iter().sum(), &buckets, None)
}

impl Sums {
    #[expect(clippy::cast_precision_loss, reason = "microseconds in seconds")]
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let bounds = Latencies::BOUNDS_US.into_iter().map(|us| us as f64 / 1e6).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(self.buckets).collect();
        let count = self.buckets.iter().sum();
        encoder.encode_histogram::<[(&str, &str); 0]>(self.sum_us as f64 / 1e6, count, &buckets, None)
    }
}
