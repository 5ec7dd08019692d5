//! Totals of requests and limiter decisions by route, over all workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_filters::request_rate_limiter::VerdictKind;
use tollgate_limiter::verdict::Source;

use crate::instrumentation::metrics::{LatencyHistogram, Metrics};

/// Counters since the start. Those of a route that is gone end.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Counters of each route, by its id. Routes without a request or a limiter may be missing.
    pub routes: BTreeMap<Arc<str>, RouteTotals>,
    /// Requests without a route.
    pub unrouted: u64,
}

/// Counters of one route.
#[derive(Clone, Debug, Default)]
pub struct RouteTotals {
    /// Finished requests, by the time that they took.
    pub latency: LatencyHistogram,
    /// Finished requests with a status from 500 on.
    pub errors: u64,
    /// Decisions of rules that allowed a request, observed and exempt requests included.
    pub allowed: u64,
    /// Decisions of rules that denied a request, blocked keys and an unavailable store included.
    pub denied: u64,
    /// Requests that observed rules would have denied.
    pub observed: u64,
    /// Decisions made without Redis because it was unreachable.
    pub degraded: u64,
}

impl Metrics {
    /// Returns the totals of all workers.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.routes.for_each(|metrics| {
            for cell in metrics.cells.lock().iter() {
                let Some(route) = &metrics.route else {
                    totals.unrouted += cell.histogram.count();
                    continue;
                };
                let route = totals.routes.entry(Arc::clone(&route.id)).or_default();
                route.latency.add(&cell.histogram);
                route.errors += if cell.status >= 500 { cell.histogram.count() } else { 0 };
            }
        });
        self.limiters.for_each(|limiter| {
            let route = totals.routes.entry(Arc::clone(&limiter.labels.route)).or_default();
            limiter.counts(|kind, source, count| route.add(kind, source, count));
        });
        totals
    }
}

impl RouteTotals {
    /// Adds the counters of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.latency.add(&other.latency);
        self.errors += other.errors;
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.observed += other.observed;
        self.degraded += other.degraded;
    }

    fn add(&mut self, kind: VerdictKind, source: Option<Source>, count: u64) {
        match kind {
            VerdictKind::Allowed | VerdictKind::Exempt => self.allowed += count,
            // The request passes an observed rule.
            VerdictKind::Observed => {
                self.allowed += count;
                self.observed += count;
            }
            VerdictKind::Denied | VerdictKind::Blocked | VerdictKind::Unavailable => self.denied += count,
        }
        if source == Some(Source::Fallback) {
            self.degraded += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Method;

    use super::*;
    use crate::instrumentation::metrics::RouteLabels;

    #[test]
    fn workers_and_rules_of_a_route_are_summed() {
        let metrics = Metrics::default();
        let id: Arc<str> = "orders".into();
        for worker in 0..2 {
            let labels = RouteLabels { id: Arc::clone(&id), uri: "echo:".into(), path: "/orders".into() };
            let route = metrics.route(worker, Some(labels));
            route.observe(&Method::GET, 200, Duration::from_millis(3));
            route.observe(&Method::GET, 503, Duration::from_millis(30));
            metrics.route(worker, None).observe(&Method::GET, 404, Duration::ZERO);
            for rule in ["hourly", "daily"] {
                let limiter = metrics.limiter(worker, &id, rule, None);
                limiter.observe(VerdictKind::Allowed, Some(Source::Redis));
                limiter.observe(VerdictKind::Denied, Some(Source::Fallback));
                limiter.observe(VerdictKind::Observed, Some(Source::Memory));
                limiter.observe(VerdictKind::Blocked, None);
                // Without the lock in time: refused by Redis.
                limiter.observe(VerdictKind::Unavailable, Some(Source::Redis));
            }
        }
        let totals = metrics.totals();
        assert_eq!(totals.unrouted, 2);
        let route = &totals.routes["orders"];
        assert_eq!((route.latency.count(), route.errors), (4, 2));
        assert_eq!((route.allowed, route.denied, route.observed, route.degraded), (8, 12, 4, 4));
    }
}
