//! Metrics of state: client connections, TLS handshakes, the gateway's certificates, retries, circuit breakers and response
//! caches.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::http::handler::ConnectionStats;
use crate::http::proxy_header::HeaderFailure;
use crate::instrumentation::metrics::Metrics;
use tollgate_config::{Config, Identity, ServerTls};
use tollgate_filters::circuit_breaker::{self, Breaker, CallKind};
use tollgate_filters::local_response_cache::{CacheOutcome, ResponseCache};
use tollgate_filters::retry::RetryEvent;
use tollgate_telemetry::encode::{NO_LABELS, family, gauge};
use tollgate_transport::certificate::not_after;

/// Outcomes of a failed attempt, with their label values.
const EVENTS: [(RetryEvent, &str); 3] = [
    (RetryEvent::Retried, "retried"),
    (RetryEvent::BudgetExhausted, "over_budget"),
    (RetryEvent::LimitReached, "gave_up"),
];

/// Retries of one route on one worker.
#[derive(Debug)]
pub struct RetryMetrics {
    route: Arc<str>,
    counts: [AtomicU64; EVENTS.len()],
}

impl RetryMetrics {
    pub(super) fn new(route: &Arc<str>) -> Self {
        Self { route: Arc::clone(route), counts: Default::default() }
    }

    /// Counts the outcome of a failed attempt.
    pub fn count(&self, event: RetryEvent) {
        for ((counted, _), count) in EVENTS.iter().zip(&self.counts) {
            if *counted == event {
                count.fetch_add(1, Relaxed);
            }
        }
    }
}

/// Encodes the retries of all routes, summed over workers.
///
/// # Errors
/// The encoder fails.
pub fn encode_retries(encoder: &mut DescriptorEncoder<'_>, metrics: &Metrics) -> fmt::Result {
    let mut sums: BTreeMap<Arc<str>, [u64; EVENTS.len()]> = BTreeMap::new();
    metrics.retries.for_each(|series| {
        let sums = sums.entry(Arc::clone(&series.route)).or_default();
        for (sum, count) in sums.iter_mut().zip(&series.counts) {
            *sum += count.load(Relaxed);
        }
    });
    let series = sums.iter().flat_map(|(route, sums)| {
        let labels = |outcome| [("route", &**route), ("outcome", outcome)];
        EVENTS.iter().zip(sums).map(move |((_, outcome), sum)| (labels(*outcome), ConstCounter::new(*sum)))
    });
    family(encoder, "tollgate_retries", "Failed attempts of Retry filters by outcome", series)
}

/// Encodes the state and the calls of circuit breakers.
///
/// # Errors
/// The encoder fails.
pub fn encode_breakers(encoder: &mut DescriptorEncoder<'_>, breakers: &[(Arc<str>, Arc<Breaker>)]) -> fmt::Result {
    let states = breakers.iter().flat_map(|(name, breaker)| {
        let now = breaker.state();
        [circuit_breaker::State::Closed, circuit_breaker::State::HalfOpen, circuit_breaker::State::Open].map(
            move |state| {
                let labels = [("name", &**name), ("state", state.as_str())];
                (labels, gauge(i64::from(state == now)))
            },
        )
    });
    let help = "1 for the current state of a circuit breaker, 0 for others";
    family(encoder, "tollgate_circuit_breaker_state", help, states)?;
    let is_forced = |breaker: &Breaker| gauge(i64::from(breaker.forced().is_some()));
    let forced = breakers.iter().map(|(name, breaker)| ([("name", &**name)], is_forced(breaker)));
    let help = "1 while an operator forces the state of a circuit breaker";
    family(encoder, "tollgate_circuit_breaker_forced", help, forced)?;
    let calls = breakers.iter().flat_map(|(name, breaker)| {
        CallKind::ALL.into_iter().map(move |kind| {
            let labels = [("name", &**name), ("kind", kind.as_str())];
            (labels, ConstCounter::new(breaker.calls(kind)))
        })
    });
    let help = "Calls by circuit breaker and outcome; slow calls count twice, also by outcome";
    family(encoder, "tollgate_circuit_breaker_calls", help, calls)?;
    let rates = breakers
        .iter()
        .filter_map(|(name, breaker)| Some(([("name", &**name)], ConstGauge::new(breaker.failure_rate()?))));
    let help = "Share of failed calls in percent, once the minimum number of calls is reached";
    family(encoder, "tollgate_circuit_breaker_failure_rate", help, rates)
}

/// Encodes the response caches in use, by route id; the shared cache has the id `""`.
///
/// # Errors
/// The encoder fails.
pub fn encode_caches(encoder: &mut DescriptorEncoder<'_>, caches: &[(Arc<str>, Arc<ResponseCache>)]) -> fmt::Result {
    let requests = caches.iter().flat_map(|(route, cache)| {
        CacheOutcome::ALL.into_iter().map(move |outcome| {
            let labels = [("route", &**route), ("outcome", outcome.as_str())];
            (labels, ConstCounter::new(cache.stats().count(outcome)))
        })
    });
    let help = "Requests by outcome of the route's response cache";
    family(encoder, "tollgate_response_cache_requests", help, requests)?;
    let bytes = caches.iter().map(|(route, cache)| ([("route", &**route)], gauge(cache.bytes())));
    family(encoder, "tollgate_response_cache_bytes", "Bytes of cached responses", bytes)
}

/// Encodes the counters of client connections and of TLS handshakes.
///
/// # Errors
/// The encoder fails.
pub fn encode_connections(encoder: &mut DescriptorEncoder<'_>, stats: &ConnectionStats) -> fmt::Result {
    let open = gauge(stats.open());
    family(encoder, "tollgate_client_connections", "Open client connections", [(NO_LABELS, open)])?;
    for (name, help, count) in [
        ("tollgate_client_connections_opened", "Client connections served since the start", &stats.opened),
        (
            "tollgate_client_connections_refused",
            "Client connections closed at once because their client has too many",
            &stats.refused,
        ),
    ] {
        family(encoder, name, help, [(NO_LABELS, ConstCounter::new(count.load(Relaxed)))])?;
    }
    let failed_headers = HeaderFailure::ALL
        .into_iter()
        .zip(&stats.failed_headers)
        .map(|(failure, count)| ([("reason", failure.as_str())], ConstCounter::new(count.load(Relaxed))));
    family(
        encoder,
        "tollgate_failed_proxy_headers",
        "Client connections closed because their PROXY header is late, missing or broken",
        failed_headers,
    )?;
    let handshakes = [("ok", &stats.handshakes), ("failed", &stats.failed_handshakes)]
        .map(|(outcome, count)| ([("outcome", outcome)], ConstCounter::new(count.load(Relaxed))));
    family(encoder, "tollgate_tls_handshakes", "TLS handshakes with clients by outcome", handshakes)
}

/// Encodes the expiry of the certificates of `config`. A certificate without a readable date is left out.
///
/// The role is `server` for clients, `management` for those of the admin port, and `client` for upstreams. The server name is
/// the one that clients request, empty for the default and for upstreams. The route is that of a client certificate for one
/// route.
///
/// # Errors
/// The encoder fails.
pub fn encode_certificates(encoder: &mut DescriptorEncoder<'_>, config: &Config) -> fmt::Result {
    fn leaf(identity: &Identity) -> Option<&[u8]> {
        identity.chain.first().map(Vec::as_slice)
    }
    let shared = config.http_client.tls.identity.as_ref();
    let mut certificates: Vec<(&str, &str, &str, &[u8])> = Vec::new();
    let of = |tls: &Option<ServerTls>| tls.as_ref().map(ServerTls::certificates).unwrap_or_default();
    let (management, server) = (of(&config.management.tls), of(&config.server.tls));
    for (role, tls) in [("management", &management), ("server", &server)] {
        for (name, certificate) in tls {
            certificates.push((role, name, "", certificate));
        }
    }
    certificates.extend(shared.and_then(leaf).map(|leaf| ("client", "", "", leaf)));
    for route in config.routes.iter() {
        let identity = route.tls.as_ref().and_then(|tls| tls.identity.as_ref());
        let leaf = identity.filter(|identity| Some(*identity) != shared).and_then(leaf);
        certificates.extend(leaf.map(|leaf| ("client", "", &*route.id, leaf)));
    }
    let series = certificates.iter().filter_map(|(role, server_name, route, certificate)| {
        let labels = [("role", *role), ("server_name", *server_name), ("route", *route)];
        Some((labels, gauge(not_after(certificate)?)))
    });
    let mut series = series.peekable();
    if series.peek().is_none() {
        return Ok(());
    }
    let help = "Time at which a certificate of the gateway expires";
    family(encoder, "tollgate_certificate_expiry_timestamp_seconds", help, series)
}
