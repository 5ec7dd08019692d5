//! Metrics of client connections and TLS handshakes.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;

use crate::http::connection_stats::ConnectionStats;
use tollgate_telemetry::encode::{NO_LABELS, family, gauge};

/// Collector of client connections.
#[derive(Debug)]
pub struct ConnectionCollector(pub Arc<ConnectionStats>);

impl Collector for ConnectionCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let open = gauge(self.0.open());
        family(encoder, "tollgate_client_connections", "Open client connections", [(NO_LABELS, open)])?;
        let opened = ConstCounter::new(self.0.opened());
        let help = "Client connections served since the start";
        family(encoder, "tollgate_client_connections_opened", help, [(NO_LABELS, opened)])?;
        let refused = ConstCounter::new(self.0.refused());
        let help = "Client connections closed at once because their client has too many";
        family(encoder, "tollgate_client_connections_refused", help, [(NO_LABELS, refused)])?;
        let (complete, failed) = self.0.handshakes();
        let handshakes = [("ok", complete), ("failed", failed)]
            .map(|(outcome, count)| ([("outcome", outcome)], ConstCounter::new(count)));
        family(encoder, "tollgate_tls_handshakes", "TLS handshakes with clients by outcome", handshakes)
    }
}
