//! Counters of requests and verdicts: written by one worker each, summed when they are read.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use crate::telemetry::concurrency::ConcurrencyMetrics;
use crate::telemetry::resilience::RetryMetrics;
use crate::telemetry::verdicts::{self, LimiterMetrics};
use tollgate_config::RequestSeries;

/// Upper bounds of the latency buckets, in seconds.
const BUCKETS: [f64; 13] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// The same in microseconds.
const BUCKETS_US: [u64; 13] = [
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// Every series of the process. Series outlive the configuration they were made for: a counter never falls.
#[derive(Debug, Default)]
pub struct Metrics {
    routes: Mutex<Vec<(usize, Arc<RouteMetrics>)>>,
    limiters: Mutex<Vec<(usize, Arc<LimiterMetrics>)>>,
    concurrency: Mutex<Vec<(usize, Arc<ConcurrencyMetrics>)>>,
    retries: Mutex<Vec<(usize, Arc<RetryMetrics>)>>,
}

/// One worker's requests of one route, by method and status.
///
/// Its mutex is taken by that worker and by a scrape, so it is practically never contended.
#[derive(Debug)]
pub struct RouteMetrics {
    route: Option<Routed>,
    cells: Mutex<Vec<Cell>>,
}

/// What requests of a route have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Routed {
    /// The route's id.
    pub id: Arc<str>,
    /// Where it leads.
    pub uri: Arc<str>,
    /// The pattern of `Path` that matched; empty where none did, or nobody wants to know.
    pub path: Arc<str>,
}

#[derive(Clone, Debug)]
struct Cell {
    method: Method,
    status: u16,
    timer: Timer,
}

#[derive(Clone, Debug, Default)]
struct Timer {
    count: u64,
    sum_us: u64,
    buckets: [u64; BUCKETS.len() + 1],
}

impl Metrics {
    /// Worker `worker`'s series of a route; `None` counts what matched no route.
    pub fn route(&self, worker: usize, route: Option<Routed>) -> Arc<RouteMetrics> {
        let mut routes = self.routes.lock();
        if let Some((_, known)) = routes.iter().find(|(owner, known)| *owner == worker && known.route == route) {
            return Arc::clone(known);
        }
        let metrics = Arc::new(RouteMetrics { route, cells: Mutex::default() });
        routes.push((worker, Arc::clone(&metrics)));
        metrics
    }

    /// Worker `worker`'s series of the limiter `rule` on `route`.
    pub fn limiter(&self, worker: usize, route: &Arc<str>, rule: &str) -> Arc<LimiterMetrics> {
        let mut limiters = self.limiters.lock();
        if let Some((_, known)) = limiters.iter().find(|(owner, known)| *owner == worker && known.is_of(route, rule)) {
            return Arc::clone(known);
        }
        let metrics = Arc::new(LimiterMetrics::new(route, rule));
        limiters.push((worker, Arc::clone(&metrics)));
        metrics
    }

    /// Worker `worker`'s series of the concurrency limiter `rule` on `route`.
    pub fn concurrency(&self, worker: usize, route: &Arc<str>, rule: &str) -> Arc<ConcurrencyMetrics> {
        let mut all = self.concurrency.lock();
        if let Some((_, known)) = all.iter().find(|(owner, known)| *owner == worker && known.is_of(route, rule)) {
            return Arc::clone(known);
        }
        let metrics = Arc::new(ConcurrencyMetrics::new(route, rule));
        all.push((worker, Arc::clone(&metrics)));
        metrics
    }

    /// Worker `worker`'s series of the `Retry` filters of `route`.
    pub fn retries(&self, worker: usize, route: &Arc<str>) -> Arc<RetryMetrics> {
        let mut all = self.retries.lock();
        if let Some((_, known)) = all.iter().find(|(owner, known)| *owner == worker && known.is_of(route)) {
            return Arc::clone(known);
        }
        let metrics = Arc::new(RetryMetrics::new(route));
        all.push((worker, Arc::clone(&metrics)));
        metrics
    }

    /// Shows `look` every series of a `Retry`.
    pub(super) fn each_retry(&self, mut look: impl FnMut(&RetryMetrics)) {
        self.retries.lock().iter().for_each(|(_, series)| look(series));
    }

    /// Shows `look` every series of a concurrency limiter.
    pub(super) fn each_concurrency(&self, mut look: impl FnMut(&ConcurrencyMetrics)) {
        self.concurrency.lock().iter().for_each(|(_, series)| look(series));
    }
}

impl RouteMetrics {
    /// Counts a request that took `took`.
    pub fn observe(&self, method: &Method, status: u16, took: Duration) {
        let mut cells = self.cells.lock();
        let index = match cells.iter().position(|cell| cell.status == status && cell.method == *method) {
            Some(index) => index,
            None => {
                // Any token is a method (RFC 9110 §9.1) and a client may invent them: those share one label.
                let method = if is_standard(method) { method.clone() } else { other() };
                if let Some(index) = cells.iter().position(|cell| cell.status == status && cell.method == method) {
                    index
                } else {
                    cells.push(Cell { method, status, timer: Timer::default() });
                    cells.len() - 1
                }
            }
        };
        cells[index].timer.observe(took);
    }
}

fn is_standard(method: &Method) -> bool {
    [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
        Method::CONNECT,
        Method::TRACE,
    ]
    .contains(method)
}

fn other() -> Method {
    Method::from_bytes(b"OTHER").unwrap_or_default()
}

impl Timer {
    fn observe(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.count += 1;
        self.sum_us = self.sum_us.saturating_add(us);
        let bucket = BUCKETS_US.iter().position(|bound| us <= *bound).unwrap_or(BUCKETS.len());
        self.buckets[bucket] += 1;
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
    }

    fn encode(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        let bounds = BUCKETS.into_iter().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(self.buckets).collect();
        #[expect(clippy::cast_precision_loss, reason = "a sum of microseconds in seconds")]
        let sum = self.sum_us as f64 / 1e6;
        encoder.encode_histogram::<[(&str, &str); 0]>(sum, self.count, &buckets, None)
    }
}

/// What `/metrics` shows of [`Metrics`].
#[derive(Debug)]
pub struct RequestCollector(pub Arc<Metrics>, pub RequestSeries);

impl Collector for RequestCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut routed: BTreeMap<(Routed, String, u16), Timer> = BTreeMap::new();
        let mut unrouted: BTreeMap<(String, u16), u64> = BTreeMap::new();
        for (_, metrics) in self.0.routes.lock().iter() {
            for cell in metrics.cells.lock().iter() {
                let method = cell.method.to_string();
                match &metrics.route {
                    Some(route) => {
                        routed.entry((route.clone(), method, cell.status)).or_default().add(&cell.timer);
                    }
                    None => *unrouted.entry((method, cell.status)).or_default() += cell.timer.count,
                }
            }
        }
        if self.1.enabled {
            self.encode_routed(&mut encoder, &routed)?;
        }
        let mut family = encoder.encode_descriptor(
            "tollgate_unrouted_requests",
            "Requests that matched no route or were refused before routing",
            None,
            MetricType::Counter,
        )?;
        for ((method, status), count) in &unrouted {
            let code = status.to_string();
            let labels = [("httpMethod", method.as_str()), ("httpStatusCode", &code)];
            ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
        }
        verdicts::encode(&mut encoder, self.0.limiters.lock().iter().map(|(_, limiter)| &**limiter))
    }
}

impl RequestCollector {
    fn encode_routed(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        routed: &BTreeMap<(Routed, String, u16), Timer>,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            &self.1.name,
            "Requests by route, from the request's head to the last byte of its answer",
            None,
            MetricType::Histogram,
        )?;
        for ((route, method, status), timer) in routed {
            let code = status.to_string();
            let mut labels = vec![
                ("routeId", &*route.id),
                ("routeUri", &*route.uri),
                ("outcome", outcome(*status)),
                ("status", status_name(*status)),
                ("httpStatusCode", &code),
                ("httpMethod", method),
            ];
            if self.1.path {
                labels.push(("path", &*route.path));
            }
            labels.extend(self.1.tags.iter().map(|(name, value)| (name.as_str(), value.as_str())));
            timer.encode(&mut family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// Spring's `outcome` tag (`HttpStatus.Series`).
fn outcome(status: u16) -> &'static str {
    match status / 100 {
        1 => "INFORMATIONAL",
        2 => "SUCCESSFUL",
        3 => "REDIRECTION",
        4 => "CLIENT_ERROR",
        5 => "SERVER_ERROR",
        _ => "CUSTOM",
    }
}

/// Spring's `status` tag: the constant's name of the status, or its number where it has none.
fn status_name(status: u16) -> &'static str {
    static NAMES: std::sync::LazyLock<BTreeMap<u16, String>> = std::sync::LazyLock::new(|| {
        (100..600)
            .filter_map(|code| {
                let reason = StatusCode::from_u16(code).ok()?.canonical_reason()?;
                let name = reason.to_uppercase().replace([' ', '-'], "_").replace('\'', "");
                Some((code, name))
            })
            .collect()
    });
    NAMES.get(&status).map_or("CUSTOM", String::as_str)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn workers_are_summed_and_methods_are_bounded() {
        let metrics = Arc::new(Metrics::default());
        let id: Arc<str> = "orders".into();
        for worker in 0..2 {
            let route = metrics.route(
                worker,
                Some(Routed { id: Arc::clone(&id), uri: "http://127.0.0.1:9000".into(), path: "".into() }),
            );
            route.observe(&Method::GET, 200, Duration::from_millis(3));
            route.observe(&Method::from_bytes(b"BREW").unwrap(), 200, Duration::from_secs(60));
            route.observe(&Method::from_bytes(b"WHEN").unwrap(), 200, Duration::from_secs(60));
        }
        metrics.route(0, None).observe(&Method::GET, 404, Duration::ZERO);
        let mut registry = Registry::default();
        let name = "spring_cloud_gateway_requests_seconds".to_owned();
        let series = RequestSeries { enabled: true, name, tags: Vec::new(), path: false };
        registry.register_collector(Box::new(RequestCollector(metrics, series)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let get = "routeId=\"orders\",routeUri=\"http://127.0.0.1:9000\",outcome=\"SUCCESSFUL\",status=\"OK\",\
                   httpStatusCode=\"200\",httpMethod=\"GET\"";
        assert!(text.contains(&format!("spring_cloud_gateway_requests_seconds_count{{{get}}} 2\n")), "{text}");
        assert!(text.contains(&format!("_bucket{{le=\"0.005\",{get}}} 2\n")), "{text}");
        assert!(text.contains("httpMethod=\"OTHER\"} 4\n"), "{text}");
        assert!(text.contains("tollgate_unrouted_requests_total{httpMethod=\"GET\",httpStatusCode=\"404\"} 1\n"));
    }
}
