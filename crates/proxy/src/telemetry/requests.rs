//! Collector of request metrics, with the labels of Spring Cloud Gateway.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use crate::telemetry::metrics::{LatencyHistogram, Metrics, RouteLabels};
use crate::telemetry::verdicts;
use tollgate_config::RequestSeries;
use tollgate_telemetry::encode::family;

/// Collector of requests and limiter verdicts.
#[derive(Debug)]
pub struct RequestCollector {
    /// Metrics of the process.
    pub metrics: Arc<Metrics>,
    /// Name and labels of the requests of routes.
    pub series: RequestSeries,
    /// True if limits are kept in Redis.
    pub has_redis: bool,
}

/// Requests of routes, by labels, method and status.
type Routed = BTreeMap<(RouteLabels, String, u16), LatencyHistogram>;

/// Requests without a route, by method and status.
type Unrouted = BTreeMap<(String, u16), u64>;

impl Collector for RequestCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (routed, unrouted) = self.sums();
        if self.series.enabled {
            self.encode_routed(&mut encoder, &routed)?;
        }
        let codes = unrouted.iter().map(|((method, status), count)| (method, status.to_string(), count));
        let codes: Vec<_> = codes.collect();
        family(
            &mut encoder,
            "tollgate_unrouted_requests",
            "Requests without a matching route, or refused before routing",
            codes.iter().map(|(method, code, count)| {
                ([("method", method.as_str()), ("status", code)], ConstCounter::new(**count))
            }),
        )?;
        verdicts::encode(&mut encoder, &self.metrics, self.has_redis)
    }
}

impl RequestCollector {
    fn sums(&self) -> (Routed, Unrouted) {
        let (mut routed, mut unrouted) = (Routed::new(), Unrouted::new());
        self.metrics.routes.for_each(|metrics| {
            for cell in metrics.cells.lock().iter() {
                let method = cell.method.to_string();
                match &metrics.route {
                    Some(route) => {
                        routed.entry((route.clone(), method, cell.status)).or_default().add(&cell.histogram);
                    }
                    None => *unrouted.entry((method, cell.status)).or_default() += cell.histogram.count,
                }
            }
        });
        (routed, unrouted)
    }

    fn encode_routed(&self, encoder: &mut DescriptorEncoder<'_>, routed: &Routed) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            &self.series.name,
            "Duration of requests by route, from the request head to the last byte of the response",
            None,
            MetricType::Histogram,
        )?;
        for ((route, method, status), histogram) in routed {
            let code = status.to_string();
            let mut labels = vec![
                ("routeId", &*route.id),
                ("routeUri", &*route.uri),
                ("outcome", outcome(*status)),
                ("status", status_name(*status)),
                ("httpStatusCode", &code),
                ("httpMethod", method),
            ];
            if self.series.path {
                labels.push(("path", &*route.path));
            }
            labels.extend(self.series.tags.iter().map(|(name, value)| (name.as_str(), value.as_str())));
            histogram.encode(&mut family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// Returns Spring's `outcome` tag (`HttpStatus.Series`).
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

/// Returns Spring's `status` tag: the name of the status constant, or `CUSTOM` if it has none.
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
    use std::time::Duration;

    use http::Method;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn series_of_workers_are_summed_and_unknown_methods_share_one_label() {
        let metrics = Arc::new(Metrics::default());
        let id: Arc<str> = "orders".into();
        for worker in 0..2 {
            let labels = RouteLabels { id: Arc::clone(&id), uri: "http://127.0.0.1:9000".into(), path: "".into() };
            let route = metrics.route(worker, Some(labels));
            route.observe(&Method::GET, 200, Duration::from_millis(3));
            route.observe(&Method::from_bytes(b"BREW").unwrap(), 200, Duration::from_secs(60));
            route.observe(&Method::from_bytes(b"WHEN").unwrap(), 200, Duration::from_secs(60));
        }
        metrics.route(0, None).observe(&Method::GET, 404, Duration::ZERO);
        let mut registry = Registry::default();
        let name = "spring_cloud_gateway_requests_seconds".to_owned();
        let series = RequestSeries { enabled: true, name, tags: Vec::new(), path: false };
        registry.register_collector(Box::new(RequestCollector { metrics, series, has_redis: false }));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let get = "routeId=\"orders\",routeUri=\"http://127.0.0.1:9000\",outcome=\"SUCCESSFUL\",status=\"OK\",\
                   httpStatusCode=\"200\",httpMethod=\"GET\"";
        assert!(text.contains(&format!("spring_cloud_gateway_requests_seconds_count{{{get}}} 2\n")), "{text}");
        assert!(text.contains(&format!("_bucket{{le=\"0.005\",{get}}} 2\n")), "{text}");
        assert!(text.contains("httpMethod=\"OTHER\"} 4\n"), "{text}");
        assert!(text.contains("tollgate_unrouted_requests_total{method=\"GET\",status=\"404\"} 1\n"));
    }
}
