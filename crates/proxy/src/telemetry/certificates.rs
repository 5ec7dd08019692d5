//! Expiry of the gateway's certificates.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::http::certificate::not_after;
use tollgate_config::Config;
use tollgate_telemetry::encode::{family, gauge};

/// Collector of the expiry of certificates, read once per scrape.
#[derive(Debug)]
pub struct CertificateCollector(Vec<Certificate>);

/// Certificate of the gateway.
#[derive(Debug)]
struct Certificate {
    /// `server` for clients, `management` for those of the admin port, `client` for upstreams.
    role: &'static str,
    /// Name that clients request; empty for the default and for upstreams.
    server_name: String,
    /// Route with a client certificate of its own; empty for all others.
    route: String,
    /// Expiry in seconds since the Unix epoch.
    expiry: i64,
}

impl CertificateCollector {
    /// Reads the expiry of the certificates of `config`. A certificate without a readable date is left out.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let mut all = Vec::new();
        let mut add = |role, server_name: &str, route: &str, der: Option<&[u8]>| {
            if let Some(expiry) = der.and_then(not_after) {
                all.push(Certificate { role, server_name: server_name.to_owned(), route: route.to_owned(), expiry });
            }
        };
        for (name, certificate) in config.management.tls.iter().flat_map(|tls| &tls.certificates) {
            add("management", name, "", Some(certificate));
        }
        for (name, certificate) in config.server.tls.iter().flat_map(|tls| &tls.certificates) {
            add("server", name, "", Some(certificate));
        }
        let first = |identity: &tollgate_config::Identity| identity.chain.first().cloned();
        let shared = config.http_client.tls.identity.as_ref();
        add("client", "", "", shared.and_then(first).as_deref());
        for route in config.routes.iter() {
            let own = route.tls.as_ref().and_then(|tls| tls.identity.as_ref()).filter(|own| Some(*own) != shared);
            add("client", "", &route.id, own.and_then(first).as_deref());
        }
        Self(all)
    }
}

impl Collector for CertificateCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        let series = self.0.iter().map(|certificate| {
            let labels = [
                ("role", certificate.role),
                ("server_name", certificate.server_name.as_str()),
                ("route", certificate.route.as_str()),
            ];
            (labels, gauge(certificate.expiry))
        });
        let help = "Time at which a certificate of the gateway expires";
        family(&mut encoder, "tollgate_certificate_expiry_timestamp_seconds", help, series)
    }
}
