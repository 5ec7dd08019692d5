//! Metrics of response caches.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use tollgate_filters::local_response_cache::{CacheOutcome, ResponseCache};

use tollgate_telemetry::encode::{family, gauge};

/// Collector of the caches in use, by route id; the shared cache has the id `""`.
#[derive(Debug)]
pub struct CacheCollector(pub Vec<(Arc<str>, Arc<ResponseCache>)>);

impl Collector for CacheCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let requests = self.0.iter().flat_map(|(route, cache)| {
            CacheOutcome::ALL.into_iter().map(move |outcome| {
                let labels = [("route", &**route), ("outcome", outcome.as_str())];
                (labels, ConstCounter::new(cache.stats().count(outcome)))
            })
        });
        let help = "Requests by outcome of the route's response cache";
        family(&mut encoder, "tollgate_response_cache_requests", help, requests)?;
        let bytes = self.0.iter().map(|(route, cache)| ([("route", &**route)], gauge(cache.bytes())));
        family(&mut encoder, "tollgate_response_cache_bytes", "Bytes of cached responses", bytes)
    }
}
