//! Metrics of Redis: calls as the workers see them, and statistics that the servers report.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use tollgate_limiter::store::redis::{BreakerState, Histogram, Operation, RedisStats, RedisStatus, ServerInfo};

use tollgate_proxy::state::redis_servers::RedisServer;
use tollgate_proxy::state::stores::SharedStores;
use tollgate_telemetry::encode::{NO_LABELS, family, time_histogram};

type Servers = BTreeMap<String, RedisServer>;
/// Name and help of a metric, and its value.
type Statistic = (&'static str, &'static str, fn(&ServerInfo) -> Option<u64>);

/// Encodes the metrics of Redis; none if limits are kept in memory.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, stores: &SharedStores) -> fmt::Result {
    let clients = stores.redis();
    if clients.is_empty() {
        return Ok(());
    }
    let stats = stores.redis_stats();
    encode_latencies(encoder, stats.iter().chain([&stores.usage_stats]))?;
    encode_nodes(encoder, &clients)?;
    encode_calls(encoder, stores, &stats)?;
    encode_servers(encoder, &stores.redis_servers.all())
}

/// Encodes the latencies of each operation, summed over workers. An operation without calls is left out.
fn encode_latencies<'s>(
    encoder: &mut DescriptorEncoder<'_>,
    stats: impl Iterator<Item = &'s Arc<RedisStats>> + Clone,
) -> fmt::Result {
    let help = "Duration of Redis calls by operation, including queueing, until the reply or the deadline";
    let mut histogram = encoder.encode_descriptor("tollgate_redis_seconds", help, None, MetricType::Histogram)?;
    for operation in Operation::ALL {
        let (bounds_us, counts, sum_us) = summed(stats.clone().map(|stats| stats.latencies_us(operation)));
        if counts.iter().any(|count| *count > 0) {
            let labels = [("operation", operation.as_str())];
            time_histogram(&mut histogram.encode_family(&labels)?, bounds_us, &counts, sum_us)?;
        }
    }
    Ok(())
}

/// Encodes the connections and the circuit breaker of each server, over all workers.
fn encode_nodes(encoder: &mut DescriptorEncoder<'_>, clients: &[RedisStatus]) -> fmt::Result {
    let mut nodes: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    for status in clients.iter().flat_map(|client| &client.nodes) {
        let (connections, is_open) = nodes.entry(&status.name).or_default();
        *connections += status.live_connections;
        *is_open |= status.breaker == BreakerState::Open;
    }
    let connections = nodes.iter().map(|(name, (count, _))| ([("node", *name)], ConstGauge::new(*count)));
    family(encoder, "tollgate_redis_connections", "Open connections of all workers", connections)?;
    let open = nodes.iter().map(|(name, (_, is_open))| ([("node", *name)], ConstGauge::new(u32::from(*is_open))));
    let help = "1 while the circuit breaker of a Redis server is open, 0 otherwise";
    family(encoder, "tollgate_breaker_state", help, open)
}

/// Encodes the totals of all workers.
fn encode_calls(encoder: &mut DescriptorEncoder<'_>, stores: &SharedStores, stats: &[Arc<RedisStats>]) -> fmt::Result {
    let mut errors: BTreeMap<&str, u64> = BTreeMap::new();
    for (kind, count) in stats.iter().flat_map(|stats| stats.failures.by_reason()) {
        *errors.entry(kind.as_str()).or_default() += count;
    }
    let errors = errors.into_iter().map(|(kind, count)| ([("kind", kind)], ConstCounter::new(count)));
    family(encoder, "tollgate_redis_errors", "Failed Redis decisions by error kind", errors)?;
    let total = |of: fn(&RedisStats) -> u64| stats.iter().map(|stats| of(stats)).sum();
    let locks = &stores.lock_stats;
    let counters: [(_, _, u64); 6] = [
        ("tollgate_redis_connects", "Connections made to Redis", total(|stats| stats.connects.get())),
        ("tollgate_script_misses", "Script calls answered with NOSCRIPT", total(|stats| stats.script_misses.get())),
        (
            "tollgate_denial_cache_hits",
            "Requests denied from the denial cache, without a Redis call",
            total(|stats| stats.denial_cache_hits.get()),
        ),
        (
            "tollgate_leased_requests",
            "Requests decided with prepaid tokens of a lease",
            total(|stats| stats.lease_hits.get()),
        ),
        ("tollgate_redis_lock_contended", "Attempts to take a lock that was held", locks.contended.get()),
        ("tollgate_redis_lock_exhausted", "Decisions that failed to take the lock in time", locks.exhausted.get()),
    ];
    for (name, help, value) in counters {
        family(encoder, name, help, [(NO_LABELS, ConstCounter::new(value))])?;
    }
    let gateways = stores.gateways.counted().map(|gateways| (NO_LABELS, ConstGauge::new(NonZeroU32::get(gateways))));
    family(encoder, "tollgate_gateways", "Live gateways, if a limiter counts them", gateways)?;
    encode_sizes(encoder, summed(stats.iter().map(|stats| &stats.call_sizes)))
}

/// Bounds, counts and sum of a histogram over all workers.
type Sums = (&'static [u64], Vec<u64>, u64);

fn summed<'h>(histograms: impl Iterator<Item = &'h Histogram>) -> Sums {
    histograms.fold((&[], Vec::new(), 0), |(_, mut counts, sum), histogram| {
        let buckets = histogram.buckets();
        counts.resize(buckets.len(), 0);
        counts.iter_mut().zip(buckets).for_each(|(total, count)| *total += count);
        (histogram.bounds(), counts, sum + histogram.sum())
    })
}

#[expect(clippy::cast_precision_loss, reason = "a count of requests, as histograms have it")]
fn encode_sizes(encoder: &mut DescriptorEncoder<'_>, (bounds, calls, requests): Sums) -> fmt::Result {
    let (name, help) = ("tollgate_redis_requests_per_call", "Requests decided per Redis call");
    let bounds = bounds.iter().map(|bound| *bound as f64).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(calls.iter().copied()).collect();
    let mut encoder = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    encoder.encode_histogram::<[(&str, &str); 0]>(requests as f64, calls.iter().sum(), &buckets, None)
}

/// Encodes the statistics that the servers report.
fn encode_servers(encoder: &mut DescriptorEncoder<'_>, servers: &Servers) -> fmt::Result {
    let gauges: [Statistic; 4] = [
        ("tollgate_redis_used_memory_bytes", "Memory used by the server", |info| info.used_memory),
        ("tollgate_redis_max_memory_bytes", "Memory limit of the server, 0 for none", |info| info.maxmemory),
        ("tollgate_redis_may_evict", "1 if the server may evict counters, 0 otherwise", |info| {
            info.maxmemory_policy.is_some().then(|| u64::from(info.may_evict()))
        }),
        ("tollgate_redis_clients", "Connected clients, from all applications", |info| info.connected_clients),
    ];
    for (name, help, value) in gauges {
        server_family(encoder, servers, (name, help), |info| value(info).map(ConstGauge::new))?;
    }
    let counters: [Statistic; 3] = [
        ("tollgate_redis_evicted_keys", "Keys evicted by the server", |info| info.evicted_keys),
        ("tollgate_redis_expired_keys", "Keys expired on the server", |info| info.expired_keys),
        (
            "tollgate_redis_time_limit_hits",
            "Commands refused with BUSY because a script exceeded the time limit",
            |info| info.refused_busy,
        ),
    ];
    for (name, help, value) in counters {
        server_family(encoder, servers, (name, help), |info| value(info).map(ConstCounter::new))?;
    }
    server_family(encoder, servers, ("tollgate_redis_cpu_seconds", "CPU time used by the server"), |info| {
        info.cpu.map(|time| ConstCounter::new(time.as_secs_f64()))
    })?;
    server_family(encoder, servers, ("tollgate_redis_script_seconds", "Time spent in scripts"), |info| {
        info.in_scripts.map(|time| ConstCounter::new(time.as_secs_f64()))
    })?;
    let share = |(name, server): (_, &RedisServer)| Some(([("node", name)], ConstGauge::new(server.script_share?)));
    let help = "Share of CPU time spent in scripts between the last two samples";
    family(encoder, "tollgate_redis_script_cpu_share", help, servers.iter().filter_map(share))
}

/// Encodes one series per server that reports the statistic `value`.
fn server_family<M: EncodeMetric + TypedMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    servers: &Servers,
    (name, help): (&str, &str),
    value: impl Fn(&ServerInfo) -> Option<M>,
) -> fmt::Result {
    let series = servers.iter().filter_map(|(node, server)| {
        let info = server.info.as_ref().ok()?;
        Some(([("node", node)], value(info)?))
    });
    family(encoder, name, help, series)
}
