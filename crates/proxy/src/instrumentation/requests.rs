//! Metrics of requests, with the labels of Spring Cloud Gateway.

use std::collections::BTreeMap;
use std::fmt;

use http::StatusCode;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use crate::instrumentation::metrics::{LatencyHistogram, Metrics, RouteLabels};
use crate::instrumentation::verdicts;
use tollgate_config::RequestSeries;
use tollgate_telemetry::encode::family;

/// Requests of routes, by labels, method and status.
type Routed = BTreeMap<(RouteLabels, String, u16), LatencyHistogram>;

/// Requests without a route, by method and status.
type Unrouted = BTreeMap<(String, u16), u64>;

/// Encodes the requests of routes as `series` says, requests without a route, and the verdicts of limiters. `has_redis` is true
/// if limits are kept in Redis.
///
/// # Errors
/// The encoder fails.
pub fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    metrics: &Metrics,
    series: &RequestSeries,
    has_redis: bool,
) -> fmt::Result {
    let (routed, unrouted) = sums(metrics);
    if series.enabled {
        encode_routed(encoder, series, &routed)?;
    }
    let codes: Vec<_> = unrouted.iter().map(|((method, status), count)| (method, status.to_string(), count)).collect();
    family(
        encoder,
        "tollgate_unrouted_requests",
        "Requests without a matching route, or refused before routing",
        codes
            .iter()
            .map(|(method, code, count)| ([("method", method.as_str()), ("status", code)], ConstCounter::new(**count))),
    )?;
    verdicts::encode(encoder, metrics, has_redis)
}

/// Sums requests over workers.
fn sums(metrics: &Metrics) -> (Routed, Unrouted) {
    let (mut routed, mut unrouted) = (Routed::new(), Unrouted::new());
    metrics.routes.for_each(|metrics| {
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

fn encode_routed(encoder: &mut DescriptorEncoder<'_>, series: &RequestSeries, routed: &Routed) -> fmt::Result {
    let mut family = encoder.encode_descriptor(
        &series.name,
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
        if series.path {
            labels.push(("path", &*route.path));
        }
        labels.extend(series.tags.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        histogram.encode(&mut family.encode_family(&labels)?)?;
    }
    Ok(())
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
    use std::sync::Arc;
    use std::time::Duration;

    use http::Method;
    use prometheus_client::collector::Collector;
    use prometheus_client::registry::Registry;

    use super::*;

    #[derive(Debug)]
    struct Requests(Metrics, RequestSeries);

    impl Collector for Requests {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            encode(&mut encoder, &self.0, &self.1, false)
        }
    }

    #[test]
    fn series_of_workers_are_summed_and_unknown_methods_share_one_label() {
        let metrics = Metrics::default();
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
        registry.register_collector(Box::new(Requests(metrics, series)));
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
