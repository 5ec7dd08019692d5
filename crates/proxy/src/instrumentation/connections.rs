//! Metrics of client connections, of TLS handshakes, and of the gateway's certificates.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;

use crate::http::handler::ConnectionStats;
use crate::http::proxy_header::HeaderFailure;
use tollgate_config::{Config, Identity, ServerTls};
use tollgate_telemetry::encode::{NO_LABELS, family, gauge};
use tollgate_transport::certificate::not_after;

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
