//! The management port, and how requests are counted.

use std::net::IpAddr;

/// The listener for health, metrics and the API.
#[derive(Clone, Debug)]
pub struct Management {
    /// Whether there is one.
    pub enabled: bool,
    /// Address to listen on.
    pub address: IpAddr,
    /// Port to listen on; 0 lets the system choose.
    pub port: u16,
    /// Whether the gateway is unready while Redis is out of reach.
    pub readiness_needs_redis: bool,
    /// Spring Boot's endpoints.
    pub actuator: Actuator,
    /// Labels of every series.
    pub tags: Vec<(String, String)>,
}

/// How requests that match a route are counted, as Spring Cloud Gateway does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSeries {
    /// Whether they are.
    pub enabled: bool,
    /// The name of the series: `spring_cloud_gateway_requests_seconds`.
    pub name: String,
    /// Labels of one's own.
    pub tags: Vec<(String, String)>,
    /// Whether the pattern of `Path` that matched is a label.
    pub path: bool,
}

/// Which of Spring Boot's endpoints answer, and under which paths; beside the gateway's own, which always do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actuator {
    /// What their paths begin with; empty: nothing.
    pub base: String,
    /// Health.
    pub health: Option<String>,
    /// Metrics.
    pub prometheus: Option<String>,
    /// Routes.
    pub gateway: Option<String>,
    /// Whether the configuration may be read again through it.
    pub may_refresh: bool,
    /// Whether health tells of its parts.
    pub shows_components: bool,
    /// Whether health has `liveness` and `readiness`.
    pub has_probes: bool,
}
