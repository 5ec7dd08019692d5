//! Checked settings of the management listener and the request metrics.

use std::net::IpAddr;

use tollgate_filters::client_certificate::CertificateSelector;

use crate::sections::management::check::KeyHashing;
use crate::sections::management::server::{AdminSocket, OuterOrigin};
use crate::sections::management::tokens::AdminTokens;
use crate::sections::management::tracing::OtlpExport;
use crate::sections::tls::server::ServerTls;

/// Listener for health, metrics and the API.
#[derive(Clone, Debug)]
pub struct Management {
    /// Enables the port.
    pub enabled: bool,
    /// Unix socket that serves the same; `None` without one.
    pub socket: Option<AdminSocket>,
    /// TLS of the port; `None` for clear text.
    pub tls: Option<ServerTls>,
    /// Client certificates that may change something.
    pub certificate_writers: Vec<CertificateSelector>,
    /// Origin at which a reverse proxy serves the port; `None` without one.
    pub origin: Option<OuterOrigin>,
    /// Address to listen on.
    pub address: IpAddr,
    /// Port to listen on; 0: any free port.
    pub port: u16,
    /// Reports not ready while Redis is unreachable.
    pub readiness_needs_redis: bool,
    /// Spring Boot's endpoints.
    pub actuator: Actuator,
    /// Endpoints on the port for traffic; `None` without any.
    pub on_traffic: Option<TrafficEndpoints>,
    /// Labels of all metrics.
    pub tags: Vec<(String, String)>,
    /// Serves the metrics without a token on every address.
    pub metrics_are_open: bool,
    /// Tokens of clients.
    pub tokens: AdminTokens,
    /// Hashing of shown key ids; `None` shows the ids.
    pub key_hashing: Option<KeyHashing>,
    /// Traces and their collector; `None` if they are off.
    pub traces: Option<OtlpExport>,
}

/// Metrics of requests that match a route, as in Spring Cloud Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSeries {
    /// Enables the metrics.
    pub enabled: bool,
    /// Name of the metric: `spring_cloud_gateway_requests_seconds`.
    pub name: String,
    /// Additional labels.
    pub tags: Vec<(String, String)>,
    /// Adds a label with the matched pattern of `Path`.
    pub path: bool,
}

/// Enabled endpoints of Spring Boot with their paths. The gateway's own endpoints are always enabled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actuator {
    /// Prefix of their paths.
    pub base: String,
    /// Path of health.
    pub health: Option<String>,
    /// Path of the metrics.
    pub prometheus: Option<String>,
    /// Path of the routes.
    pub gateway: Option<String>,
    /// Permits reloading the configuration.
    pub may_refresh: bool,
    /// Shows the components of health, to callers that may read.
    pub shows_components: bool,
    /// Shows them to every caller.
    pub components_are_open: bool,
    /// Enables `liveness` and `readiness`.
    pub has_probes: bool,
}

/// Spring Boot's endpoints on the port for traffic, for reads only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficEndpoints {
    /// Served endpoints.
    pub actuator: Actuator,
    /// Paths of exposed endpoints, served ones or not. No request below them reaches a route, as in Spring.
    pub owned: Vec<String>,
    /// Serves `/livez` and `/readyz`.
    pub has_probe_paths: bool,
    /// True if neither the file nor the environment names a management port, so that the gateway can start without one.
    pub suffice: bool,
}

impl TrafficEndpoints {
    /// Returns true if these endpoints, not a route, serve requests for `path`.
    pub fn owns(&self, path: &str) -> bool {
        let base = self.actuator.base.as_str();
        let is_index = |path: &str| !base.is_empty() && (path == base || path.strip_suffix('/') == Some(base));
        let is_below =
            |owned: &str| path.strip_prefix(owned).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        is_index(path)
            || self.owned.iter().any(|owned| is_below(owned))
            || (self.has_probe_paths && ["/livez", "/readyz"].contains(&path))
    }
}
