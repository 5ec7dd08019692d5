//! What `/metrics` shows of caches.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tollgate_filters::local_response_cache::{CacheOutcome, ResponseCache};

/// The caches in use, by the routes that they are of; `""` is shared.
#[derive(Debug)]
pub struct CacheCollector(pub Vec<(Arc<str>, Arc<ResponseCache>)>);

impl Collector for CacheCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            "tollgate_response_cache_requests",
            "Requests by what the cache of their route did with them",
            None,
            MetricType::Counter,
        )?;
        for (route, cache) in &self.0 {
            for outcome in CacheOutcome::ALL {
                let labels = [("route", &**route), ("outcome", outcome.as_str())];
                ConstCounter::new(cache.stats().count(outcome)).encode(family.encode_family(&labels)?)?;
            }
        }
        let mut family = encoder.encode_descriptor(
            "tollgate_response_cache_bytes",
            "Bytes of answers that are kept",
            None,
            MetricType::Gauge,
        )?;
        for (route, cache) in &self.0 {
            let bytes = i64::try_from(cache.bytes()).unwrap_or(i64::MAX);
            ConstGauge::new(bytes).encode(family.encode_family(&[("route", &**route)])?)?;
        }
        Ok(())
    }
}
