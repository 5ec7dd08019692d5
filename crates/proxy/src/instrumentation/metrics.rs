//! Metrics of the process: each series is written by one worker, and summed over workers by a scrape.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use parking_lot::Mutex;
use prometheus_client::encoding::MetricEncoder;

use crate::http::facts::LimiterLabels;
use crate::http::fields::STANDARD_METHODS;
use crate::instrumentation::concurrency::ConcurrencyMetrics;
use crate::instrumentation::state_metrics::RetryMetrics;
use crate::instrumentation::verdicts::LimiterMetrics;
use crate::upstream::times::UpstreamTimes;
use tollgate_telemetry::encode::time_histogram;
use tollgate_telemetry::series::SeriesList;

/// Upper bounds of the latency buckets, in microseconds.
const BUCKETS_US: [u64; 13] = [
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// Time after a scrape for which series that no configuration needs any more wait for the next one.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(300);

/// Every series of the process. A series outlives the configuration that needed it until a scrape has shown its last values:
/// a counter never falls before it ends.
#[derive(Debug, Default)]
pub struct Metrics {
    pub(super) routes: SeriesList<Option<RouteLabels>, RouteMetrics>,
    pub(super) limiters: SeriesList<LimiterLabels, LimiterMetrics>,
    pub(super) concurrency: SeriesList<LimiterLabels, ConcurrencyMetrics>,
    pub(super) retries: SeriesList<Arc<str>, RetryMetrics>,
    pub(super) upstream_times: SeriesList<Arc<str>, UpstreamTimes>,
    last_scrape: Mutex<Option<Instant>>,
}

/// Requests of one route on one worker, by method and status.
///
/// The worker and a scrape lock its mutex, so it is practically never contended.
#[derive(Debug)]
pub struct RouteMetrics {
    /// Labels of the route; `None` for requests without a route.
    pub(super) route: Option<RouteLabels>,
    pub(super) cells: Mutex<Vec<RequestCell>>,
}

/// Labels that all requests of a route share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteLabels {
    /// Id of the route.
    pub id: Arc<str>,
    /// Target URI of the route.
    pub uri: Arc<str>,
    /// `Path` pattern that matched; empty without one, or if the path label is off.
    pub path: Arc<str>,
}

/// Requests of one method and status.
#[derive(Clone, Debug)]
pub(super) struct RequestCell {
    pub(super) method: Method,
    pub(super) status: u16,
    pub(super) histogram: LatencyHistogram,
}

/// Histogram of latencies.
#[derive(Clone, Debug, Default)]
pub struct LatencyHistogram {
    pub(super) count: u64,
    sum_us: u64,
    buckets: [u64; BUCKETS_US.len() + 1],
}

impl Metrics {
    /// Writer of the series that a configuration shows from the start, beside the workers.
    pub const CONFIGURED: usize = usize::MAX;

    /// Returns the request series of a route on one worker; `None` stands for requests without a route.
    pub fn route(&self, worker: usize, route: Option<RouteLabels>) -> Arc<RouteMetrics> {
        let create = |route: &Option<RouteLabels>| RouteMetrics { route: route.clone(), cells: Mutex::default() };
        self.routes.get_or_create(worker, route, create)
    }

    /// Returns a handle that keeps the request series of a route; `None` if the route has none.
    pub fn existing_route(&self, route: RouteLabels) -> Option<Arc<RouteMetrics>> {
        self.routes.existing(&Some(route))
    }

    /// Returns the series of the limiter `rule` of `route` on one worker, for requests of `plan`.
    pub fn limiter(&self, worker: usize, route: &str, rule: &str, plan: Option<&str>) -> Arc<LimiterMetrics> {
        self.limiters.get_or_create(worker, labels(route, rule, plan), |labels| LimiterMetrics::new(labels.clone()))
    }

    /// Returns the series of the concurrency limiter `rule` of `route` on one worker.
    pub fn concurrency(&self, worker: usize, route: &str, rule: &str) -> Arc<ConcurrencyMetrics> {
        let create = |labels: &LimiterLabels| ConcurrencyMetrics::new(labels.clone());
        self.concurrency.get_or_create(worker, labels(route, rule, None), create)
    }

    /// Returns the connect and response times of the upstream `name` on one worker.
    pub fn upstream_times(&self, worker: usize, name: &str) -> Arc<UpstreamTimes> {
        self.upstream_times.get_or_create(worker, name.into(), |name| UpstreamTimes::new(Arc::clone(name)))
    }

    /// Returns a handle that keeps the connect and response times of the upstream `name`; `None` if it has none.
    pub fn existing_upstream_times(&self, name: &str) -> Option<Arc<UpstreamTimes>> {
        self.upstream_times.existing(&name.into())
    }

    /// Returns the series of the `Retry` filters of `route` on one worker.
    pub fn retries(&self, worker: usize, route: &str) -> Arc<RetryMetrics> {
        self.retries.get_or_create(worker, route.into(), RetryMetrics::new)
    }

    /// Runs `scrape`, which shows all series, and then removes those that nothing needs any more.
    pub fn scraped<R>(&self, scrape: impl FnOnce() -> R) -> R {
        *self.last_scrape.lock() = Some(Instant::now());
        self.remove_unused_after(scrape)
    }

    /// Removes the series that nothing needs any more, unless a scrape is expected to show their last values. Call it after a
    /// reload.
    pub fn remove_unscraped(&self) {
        if self.last_scrape.lock().is_none_or(|last| last.elapsed() > SCRAPE_TIMEOUT) {
            self.remove_unused_after(|| ());
        }
    }

    fn remove_unused_after<R>(&self, scrape: impl FnOnce() -> R) -> R {
        self.routes.mark_unused();
        self.limiters.mark_unused();
        self.concurrency.mark_unused();
        self.retries.mark_unused();
        self.upstream_times.mark_unused();
        let result = scrape();
        self.routes.remove_marked();
        self.limiters.remove_marked();
        self.concurrency.remove_marked();
        self.retries.remove_marked();
        self.upstream_times.remove_marked();
        result
    }
}

/// Returns the labels of a rule. The only rule of a route has its name. The labels of a configuration are copied: they would keep
/// its memory from being returned.
fn labels(route: &str, rule: &str, plan: Option<&str>) -> LimiterLabels {
    let route: Arc<str> = route.into();
    let rule = if *route == *rule { Arc::clone(&route) } else { rule.into() };
    LimiterLabels { route, rule, plan: plan.map(Into::into) }
}

impl RouteMetrics {
    /// Counts a finished request.
    pub fn observe(&self, method: &Method, status: u16, duration: Duration) {
        let mut cells = self.cells.lock();
        let position = cells.iter().position(|cell| cell.status == status && cell.method == *method);
        let index = position.unwrap_or_else(|| find_or_add_cell(&mut cells, bounded(method), status));
        cells[index].histogram.observe(duration);
    }
}

fn find_or_add_cell(cells: &mut Vec<RequestCell>, method: Method, status: u16) -> usize {
    let position = cells.iter().position(|cell| cell.status == status && cell.method == method);
    position.unwrap_or_else(|| {
        // Most routes have one method and one status.
        cells.reserve_exact(1);
        cells.push(RequestCell { method, status, histogram: LatencyHistogram::default() });
        cells.len() - 1
    })
}

/// Replaces an unknown method by `OTHER`. Any token is a method (RFC 9110 §9.1), and clients can invent them.
fn bounded(method: &Method) -> Method {
    let is_standard = STANDARD_METHODS.contains(&method.as_str());
    if is_standard { method.clone() } else { Method::from_bytes(b"OTHER").unwrap_or_default() }
}

impl LatencyHistogram {
    fn observe(&mut self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.count += 1;
        self.sum_us = self.sum_us.saturating_add(us);
        let bucket = BUCKETS_US.iter().position(|bound| us <= *bound).unwrap_or(BUCKETS_US.len());
        self.buckets[bucket] += 1;
    }

    /// Returns the number of requests.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the requests since `earlier`, a former state of this histogram.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        since.count = since.count.saturating_sub(earlier.count);
        since.sum_us = since.sum_us.saturating_sub(earlier.sum_us);
        for (mine, theirs) in since.buckets.iter_mut().zip(&earlier.buckets) {
            *mine = mine.saturating_sub(*theirs);
        }
        since
    }

    /// Returns the latency in milliseconds that the share `quantile` of the requests does not exceed, interpolated within
    /// a bucket; `None` without requests. Latencies past the last bound count as that bound.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an estimate within a bucket")]
    pub fn quantile_ms(&self, quantile: f64) -> Option<f64> {
        let total: u64 = self.buckets.iter().sum();
        let rank = quantile * total as f64;
        let mut below = 0;
        for (index, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let Some(upper) = BUCKETS_US.get(index) else { break };
            let lower = index.checked_sub(1).map_or(0, |before| BUCKETS_US[before]);
            if (below + count) as f64 >= rank {
                let share = ((rank - below as f64) / *count as f64).clamp(0.0, 1.0);
                return Some((lower as f64 + share * (upper - lower) as f64) / 1e3);
            }
            below += count;
        }
        let largest = BUCKETS_US[BUCKETS_US.len() - 1];
        (total > 0).then_some(largest as f64 / 1e3)
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
    }

    pub(super) fn encode(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        time_histogram(encoder, &BUCKETS_US, &self.buckets, self.sum_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated_within_a_bucket() {
        let mut histogram = LatencyHistogram::default();
        assert_eq!(histogram.quantile_ms(0.5), None);
        for ms in [2, 2, 2, 2, 8, 8, 8, 8] {
            histogram.observe(Duration::from_millis(ms));
        }
        assert_eq!(histogram.quantile_ms(0.25), Some(1.75));
        assert_eq!(histogram.quantile_ms(0.5), Some(2.5));
        assert_eq!(histogram.quantile_ms(0.75), Some(7.5));
        assert_eq!(histogram.quantile_ms(1.0), Some(10.0));
        let earlier = histogram.clone();
        histogram.observe(Duration::from_secs(60));
        assert_eq!(histogram.since(&earlier).quantile_ms(0.5), Some(10_000.0), "past the last bound");
        assert_eq!((histogram.since(&earlier).count(), earlier.since(&histogram).count()), (1, 0));
    }
}
