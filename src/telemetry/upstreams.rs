//! How upstreams and their endpoints stand.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::upstream::balance::{EndpointState, Upstream, UpstreamStats, Upstreams};

/// What `/metrics` shows of them.
#[derive(Debug)]
pub struct UpstreamCollector(pub Arc<Upstreams>);

/// A counter of upstreams: its name, what it counts, and where it is kept.
type Counted = (&'static str, &'static str, fn(&UpstreamStats) -> &AtomicU64);

const COUNTERS: [Counted; 3] = [
    ("tollgate_upstream_ejections", "Endpoints left alone for a while after failures", |stats| &stats.ejections),
    ("tollgate_upstream_unavailable", "Requests for which no endpoint lived", |stats| &stats.unavailable),
    ("tollgate_upstream_failed_lookups", "Questions to DNS that brought no endpoints", |stats| &stats.failed_lookups),
];

impl Collector for UpstreamCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let upstreams = self.0.all();
        if upstreams.is_empty() {
            return Ok(());
        }
        endpoints(&upstreams, &mut encoder)?;
        for (name, help, count) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for upstream in &upstreams {
                let value = count(upstream.stats()).load(Relaxed);
                ConstCounter::new(value).encode(family.encode_family(&[("upstream", &**upstream.name())])?)?;
            }
        }
        let help = "Health checks by what came of them";
        let mut family =
            encoder.encode_descriptor("tollgate_upstream_health_checks", help, None, MetricType::Counter)?;
        for upstream in &upstreams {
            let stats = upstream.stats();
            for (outcome, count) in [("passed", &stats.checks_passed), ("failed", &stats.checks_failed)] {
                let labels = [("upstream", &**upstream.name()), ("outcome", outcome)];
                ConstCounter::new(count.load(Relaxed)).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn endpoints(upstreams: &[Arc<Upstream>], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Endpoints by state: up, down by their health checks, or ejected after failures";
    let mut family = encoder.encode_descriptor("tollgate_upstream_endpoints", help, None, MetricType::Gauge)?;
    for upstream in upstreams {
        let states = upstream.states();
        for state in [EndpointState::Healthy, EndpointState::Unhealthy, EndpointState::Ejected] {
            let count = states.iter().filter(|(_, known)| *known == state).count();
            let labels = [("upstream", &**upstream.name()), ("state", state.as_str())];
            ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX)).encode(family.encode_family(&labels)?)?;
        }
    }
    let help = "Requests under way, by endpoint";
    let mut family = encoder.encode_descriptor("tollgate_upstream_in_flight", help, None, MetricType::Gauge)?;
    for upstream in upstreams {
        for (endpoint, _) in upstream.states() {
            let name = endpoint.to_string();
            let labels = [("upstream", &**upstream.name()), ("endpoint", name.as_str())];
            ConstGauge::new(i64::from(endpoint.in_flight())).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
