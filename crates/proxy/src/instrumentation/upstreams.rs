//! Metrics of upstreams, their endpoints, and the times of connections and responses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::instrumentation::metrics::Metrics;
use crate::upstream::balance::{EndpointState, Upstream, UpstreamStats, Upstreams};
use crate::upstream::times::{LatestFailure, TimeHistogram, UpstreamTimes};
use tollgate_discovery::RegistryStatus;
use tollgate_telemetry::encode::{family, gauge, time_histogram};

/// Counter of an upstream: metric name, help text, and the field of the statistics.
type UpstreamCounter = (&'static str, &'static str, fn(&UpstreamStats) -> &AtomicU64);

const COUNTERS: [UpstreamCounter; 3] = [
    ("tollgate_upstream_ejections", "Endpoints ejected after failures", |stats| &stats.ejections),
    ("tollgate_upstream_unavailable", "Requests without a healthy endpoint", |stats| &stats.unavailable),
    ("tollgate_upstream_failed_lookups", "DNS lookups without a usable answer", |stats| &stats.failed_lookups),
];

/// Encodes the metrics of upstreams and of registries.
///
/// # Errors
/// The encoder fails.
pub fn encode(encoder: &mut DescriptorEncoder<'_>, upstreams: &Upstreams) -> fmt::Result {
    encode_registries(encoder, &upstreams.registries())?;
    let upstreams = upstreams.all();
    if upstreams.is_empty() {
        return Ok(());
    }
    encode_endpoints(encoder, &upstreams)?;
    encode_ages(encoder, &upstreams)?;
    for (name, help, count) in COUNTERS {
        let series = upstreams.iter().map(|upstream| {
            let value = count(upstream.stats()).load(Relaxed);
            ([("upstream", &**upstream.name())], ConstCounter::new(value))
        });
        family(encoder, name, help, series)?;
    }
    let checks = upstreams.iter().flat_map(|upstream| {
        let (name, stats) = (&**upstream.name(), upstream.stats());
        [("passed", &stats.checks_passed), ("failed", &stats.checks_failed)].map(|(outcome, count)| {
            ([("upstream", name), ("outcome", outcome)], ConstCounter::new(count.load(Relaxed)))
        })
    });
    family(encoder, "tollgate_upstream_health_checks", "Health checks by outcome", checks)
}

fn encode_registries(encoder: &mut DescriptorEncoder<'_>, registries: &[Arc<RegistryStatus>]) -> fmt::Result {
    if registries.is_empty() {
        return Ok(());
    }
    let up = registries
        .iter()
        .map(|registry| ([("registry", registry.kind())], gauge(usize::from(registry.error().is_none()))));
    family(encoder, "tollgate_registry_up", "1 if the last request to the registry succeeded", up)?;
    let requests = registries.iter().flat_map(|registry| {
        let (succeeded, failed) = registry.requests();
        [("succeeded", succeeded), ("failed", failed)]
            .map(|(outcome, count)| ([("registry", registry.kind()), ("outcome", outcome)], ConstCounter::new(count)))
    });
    family(encoder, "tollgate_registry_requests", "Requests to registries by outcome", requests)
}

/// Encodes the age of the lists that registries have sent.
fn encode_ages(encoder: &mut DescriptorEncoder<'_>, upstreams: &[Arc<Upstream>]) -> fmt::Result {
    let sources: Vec<_> = upstreams.iter().filter_map(|upstream| Some((upstream.name(), upstream.source()?))).collect();
    if sources.is_empty() {
        return Ok(());
    }
    let ages = sources.iter().map(|(name, source)| {
        (
            [("upstream", &***name), ("registry", source.registry.kind())],
            ConstGauge::new(source.confirmed.elapsed().as_secs_f64()),
        )
    });
    let help = "Time since the registry confirmed the endpoints";
    family(encoder, "tollgate_upstream_list_age_seconds", help, ages)
}

fn encode_endpoints(encoder: &mut DescriptorEncoder<'_>, upstreams: &[Arc<Upstream>]) -> fmt::Result {
    let states = upstreams.iter().flat_map(|upstream| {
        let states = upstream.states();
        EndpointState::ALL.map(|state| {
            let count = states.iter().filter(|(_, current)| *current == state).count();
            ([("upstream", &**upstream.name()), ("state", state.as_str())], gauge(count))
        })
    });
    let help =
        "Endpoints by state: up, down after failed health checks, ejected after failures, or drained by an operator";
    family(encoder, "tollgate_upstream_endpoints", help, states)?;
    let help = "In-flight requests by endpoint";
    let mut family = encoder.encode_descriptor("tollgate_upstream_in_flight", help, None, MetricType::Gauge)?;
    for upstream in upstreams {
        for (endpoint, _) in upstream.states() {
            let name = endpoint.to_string();
            let labels = [("upstream", &**upstream.name()), ("endpoint", name.as_str())];
            gauge(endpoint.in_flight()).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// Encodes the connect and response times of upstreams.
///
/// # Errors
/// The encoder fails.
pub fn encode_times(encoder: &mut DescriptorEncoder<'_>, metrics: &Metrics) -> fmt::Result {
    let help = "Time until a new connection to the upstream was ready: lookup, TCP and TLS";
    encode_histograms(encoder, metrics, "tollgate_upstream_connect_seconds", help, |times| &times.connect)?;
    let help = "Time from sending a request to the head of the upstream's response";
    encode_histograms(encoder, metrics, "tollgate_upstream_response_seconds", help, |times| &times.response)?;
    let mut failed: BTreeMap<Arc<str>, u64> = BTreeMap::new();
    metrics
        .upstream_times
        .for_each(|times| *failed.entry(Arc::clone(&times.name)).or_default() += times.failed_attempts());
    let series = failed.iter().map(|(upstream, count)| ([("upstream", &**upstream)], ConstCounter::new(*count)));
    family(encoder, "tollgate_upstream_failed_attempts", "Attempts that got no response of the upstream", series)
}

/// Time for which the failures of a worker tell about an upstream that responds to other workers.
const STALE: Duration = Duration::from_secs(60);

impl Metrics {
    /// Returns the upstreams whose latest attempts got no response, by name: the latest failure, with those in a row of all
    /// workers.
    pub fn present_failures(&self) -> BTreeMap<Arc<str>, LatestFailure> {
        let (mut failures, mut responding) = (BTreeMap::<_, LatestFailure>::new(), BTreeSet::new());
        self.upstream_times.for_each(|times| match (times.present_failure(), failures.get_mut(&times.name)) {
            (Some(failure), None) => _ = failures.insert(Arc::clone(&times.name), failure),
            (Some(failure), Some(latest)) => {
                let in_a_row = latest.in_a_row.saturating_add(failure.in_a_row);
                if failure.at > latest.at {
                    *latest = failure;
                }
                latest.in_a_row = in_a_row;
            }
            (None, _) if times.response.count() > 0 => _ = responding.insert(Arc::clone(&times.name)),
            (None, _) => {}
        });
        let is_recent = |failure: &LatestFailure| failure.at.elapsed().is_ok_and(|age| age < STALE);
        failures.retain(|name, failure| is_recent(failure) || !responding.contains(name));
        failures
    }
}

fn encode_histograms(
    encoder: &mut DescriptorEncoder<'_>,
    metrics: &Metrics,
    name: &str,
    help: &str,
    histogram: fn(&UpstreamTimes) -> &TimeHistogram,
) -> fmt::Result {
    let mut sums: BTreeMap<Arc<str>, ([u64; TimeHistogram::BOUNDS_US.len() + 1], u64)> = BTreeMap::new();
    metrics.upstream_times.for_each(|times| {
        let (buckets, sum_us) = sums.entry(Arc::clone(&times.name)).or_default();
        buckets.iter_mut().zip(histogram(times).buckets()).for_each(|(sum, count)| *sum += count);
        *sum_us += histogram(times).sum_us();
    });
    if sums.is_empty() {
        return Ok(());
    }
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (upstream, (counts, sum_us)) in &sums {
        let labels = [("upstream", &**upstream)];
        let mut series = family.encode_family(&labels)?;
        time_histogram(&mut series, &TimeHistogram::BOUNDS_US, counts, *sum_us)?;
    }
    Ok(())
}
