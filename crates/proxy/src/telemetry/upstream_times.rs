//! Metrics of connect and response times of upstreams.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use crate::telemetry::metrics::Metrics;
use crate::upstream::times::{TimeHistogram, UpstreamTimes};

/// Collector of connect and response times.
#[derive(Debug)]
pub struct UpstreamTimesCollector(pub Arc<Metrics>);

/// Selects one of the histograms of an upstream.
type Select = fn(&UpstreamTimes) -> &TimeHistogram;

impl Collector for UpstreamTimesCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Time until a new connection to the upstream was ready: lookup, TCP and TLS";
        self.encode_times(&mut encoder, "tollgate_upstream_connect_seconds", help, |times| &times.connect)?;
        let help = "Time from sending a request to the head of the upstream's response";
        self.encode_times(&mut encoder, "tollgate_upstream_response_seconds", help, |times| &times.response)
    }
}

impl UpstreamTimesCollector {
    #[expect(clippy::cast_precision_loss, reason = "microseconds in seconds")]
    fn encode_times(&self, encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, of: Select) -> fmt::Result {
        let mut sums: BTreeMap<Arc<str>, ([u64; TimeHistogram::BOUNDS_US.len() + 1], u64)> = BTreeMap::new();
        self.0.upstream_times.for_each(|times| {
            let (buckets, sum_us) = sums.entry(Arc::clone(&times.name)).or_default();
            buckets.iter_mut().zip(of(times).buckets()).for_each(|(sum, count)| *sum += count);
            *sum_us += of(times).sum_us();
        });
        if sums.is_empty() {
            return Ok(());
        }
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (upstream, (counts, sum_us)) in &sums {
            let bounds = TimeHistogram::BOUNDS_US.into_iter().map(|us| us as f64 / 1e6).chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(*counts).collect();
            let (sum, count) = (*sum_us as f64 / 1e6, counts.iter().sum());
            let labels = [("upstream", &**upstream)];
            let mut series = family.encode_family(&labels)?;
            series.encode_histogram::<[(&str, &str); 0]>(sum, count, &buckets, None)?;
        }
        Ok(())
    }
}
