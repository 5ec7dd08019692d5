//! Rates of requests and decisions, from the totals of the last seconds.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use tokio::time::Instant;

use tollgate_proxy::instrumentation::metrics::LatencyHistogram;
use tollgate_proxy::instrumentation::totals::{RouteTotals, Totals};

/// Maximum number of routes in a snapshot: the first ones of the configuration.
pub(super) const MAX_ROUTES: usize = 200;
/// Samples that are kept: latencies are those of the last ten seconds.
const SAMPLES: usize = 11;

/// Totals of the last seconds, and the rates between the last two.
#[derive(Debug, Default)]
pub(super) struct Rates {
    samples: VecDeque<(Instant, Totals)>,
    current: Current,
}

/// Rates of the last second.
#[derive(Clone, Debug, Default)]
pub(super) struct Current {
    /// All routes.
    pub(super) all: RouteRates,
    /// Requests without a route, per second.
    pub(super) unrouted: Rounded,
    /// Routes with counters.
    pub(super) routes: BTreeMap<Arc<str>, RouteRates>,
}

/// Rates per second, and latencies of the last ten seconds in milliseconds.
#[reply(Clone, Debug, Default)]
pub(super) struct RouteRates {
    pub(super) requests: Rounded,
    pub(super) errors: Rounded,
    pub(super) allowed: Rounded,
    pub(super) denied: Rounded,
    pub(super) observed: Rounded,
    pub(super) degraded: Rounded,
    pub(super) p50: Option<Rounded>,
    pub(super) p90: Option<Rounded>,
    pub(super) p99: Option<Rounded>,
}

impl Rates {
    /// Adds the totals of `now`. The first call gives no rates.
    pub(super) fn add(&mut self, now: Instant, totals: Totals) {
        self.samples.push_back((now, totals));
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
        self.current = self.compute().unwrap_or_default();
    }

    /// Adds the totals of `now`, and keeps only those that the rates of the last second need.
    pub(super) fn add_unwatched(&mut self, now: Instant, totals: Totals) {
        let surplus = self.samples.len().saturating_sub(1);
        self.samples.drain(..surplus);
        self.add(now, totals);
    }

    /// Rates of the last second.
    pub(super) fn current(&self) -> &Current {
        &self.current
    }

    fn compute(&self) -> Option<Current> {
        let (now, totals) = self.samples.back()?;
        let (before, previous) = self.samples.iter().rev().nth(1)?;
        let (_, oldest) = self.samples.front()?;
        let seconds = now.duration_since(*before).as_secs_f64().max(1e-3);
        let none = RouteTotals::default();
        let of_route = |id: &str, totals: &RouteTotals| {
            let previous = previous.routes.get(id).unwrap_or(&none);
            RouteRates::between(previous, totals, seconds, &oldest.routes.get(id).unwrap_or(&none).latency)
        };
        let routes = totals.routes.iter().map(|(id, totals)| (Arc::clone(id), of_route(id, totals))).collect();
        // Routes that are gone have no rates.
        let [sum, previous_sum, oldest_sum] = [totals, previous, oldest].map(|of| sum(of, totals));
        Some(Current {
            all: RouteRates::between(&previous_sum, &sum, seconds, &oldest_sum.latency),
            unrouted: per_second(previous.unrouted, totals.unrouted, seconds),
            routes,
        })
    }
}

impl RouteRates {
    fn between(before: &RouteTotals, now: &RouteTotals, seconds: f64, oldest: &LatencyHistogram) -> Self {
        let rate = |of: fn(&RouteTotals) -> u64| per_second(of(before), of(now), seconds);
        let latency = now.latency.since(oldest);
        let quantile = |quantile| latency.quantile_ms(quantile).map(Rounded);
        Self {
            requests: rate(|totals| totals.latency.count()),
            errors: rate(|totals| totals.errors),
            allowed: rate(|totals| totals.allowed),
            denied: rate(|totals| totals.denied),
            observed: rate(|totals| totals.observed),
            degraded: rate(|totals| totals.degraded),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
        }
    }
}

/// Returns the sum of `totals` over the routes of `latest`.
fn sum(totals: &Totals, latest: &Totals) -> RouteTotals {
    latest.routes.keys().filter_map(|id| totals.routes.get(id)).fold(RouteTotals::default(), |mut sum, route| {
        sum.merge(route);
        sum
    })
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn per_second(before: u64, now: u64, seconds: f64) -> Rounded {
    Rounded(now.saturating_sub(before) as f64 / seconds)
}

/// Number with three significant digits, in few characters: JSON of a page is read every second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rounded(pub(super) f64);

impl Serialize for Rounded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digits = match self.0 {
            100.0.. => 0,
            10.0.. => 1,
            _ => 2,
        };
        let scale = 10_f64.powi(digits);
        let rounded = (self.0 * scale).round() / scale;
        #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
        if rounded.fract() == 0.0 && rounded.abs() < 9e15 {
            serializer.serialize_i64(rounded as i64)
        } else {
            serializer.serialize_f64(rounded)
        }
    }
}

impl JsonSchema for Rounded {
    fn schema_name() -> Cow<'static, str> {
        "Rounded".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        f64::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Method;

    use super::*;
    use tollgate_proxy::instrumentation::metrics::{Metrics, RouteLabels};

    #[test]
    fn rates_are_those_of_the_last_second_and_latencies_of_ten() {
        let metrics = Metrics::default();
        let labels = RouteLabels { id: "orders".into(), uri: "echo:".into(), path: "".into() };
        let route = metrics.route(0, Some(labels));
        let start = Instant::now();
        let mut rates = Rates::default();
        let mut after = |seconds: u64, requests: u64| {
            for _ in 0..requests {
                route.observe(&Method::GET, 500, Duration::from_millis(3 * (seconds + 1)));
                metrics.route(0, None).observe(&Method::GET, 404, Duration::ZERO);
            }
            rates.add(start + Duration::from_secs(seconds), metrics.totals());
            rates.current().clone()
        };
        let first = after(0, 5);
        assert!(
            first.routes.is_empty() && first.all.requests == Rounded(0.0),
            "no rates without a sample before: {first:?}"
        );
        let second = after(2, 8);
        assert_eq!([second.all.requests, second.all.errors, second.unrouted], [Rounded(4.0); 3]);
        assert_eq!(second.routes["orders"].requests, Rounded(4.0));
        for second in 3..20 {
            assert_eq!(after(second, 1).all.requests, Rounded(1.0));
        }
        let last = after(20, 0).all.p50.map_or(0.0, |Rounded(time)| time);
        assert!((36.0..60.0).contains(&last), "requests of the last ten seconds: {last}");
    }
}
