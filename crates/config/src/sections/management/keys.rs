//! Raw `management` and `metrics`.

use std::collections::BTreeMap;
#[cfg(test)]
use std::net::IpAddr;

use serde::Deserialize;

use crate::de::{Address, Flag, Metadata, OptionalText, Spanned, Subtree};
use crate::sections::management::server::OuterOrigin;
use crate::sections::management::tokens::RawToken;
use crate::sections::management::tracing::{RawOpenTelemetry, RawOtlp, RawTracing};
#[cfg(test)]
use crate::sections::tls::server::RawServerSsl;

/// Listener for health, metrics and the API.
#[section]
pub(crate) struct RawManagement {
    /// Enables the listener.
    pub(crate) enabled: Flag<true>,
    /// Its address, port, socket and TLS.
    pub(crate) server: RawManagementServer,
    /// Serves Spring Boot's endpoints on the port for traffic too, only for reads: `/actuator/health`, and what `management.endpoints.web.exposure.include` names. `auto` does so unless `management.server.port` is another port, as Spring Boot. Default false; `auto` in a Spring file with `management`.
    #[cfg_attr(test, schemars(with = "Option<OnTrafficPortSchema>"))]
    pub(crate) on_traffic_port: Option<Spanned<OnTrafficPort>>,
    /// Readiness of the gateway.
    pub(crate) readiness: RawReadiness,
    /// Spring Boot's settings of all endpoints.
    #[cfg_attr(test, schemars(skip))]
    pub(crate) endpoints: RawEndpoints,
    /// Spring Boot's settings of one endpoint.
    #[cfg_attr(test, schemars(skip))]
    pub(crate) endpoint: RawEndpointSettings,
    /// Labels of all metrics, and access to them.
    pub(crate) metrics: RawCommonTags,
    /// Tokens, sent as `Authorization: Bearer TOKEN`. On a loopback address none is needed; on any other one, reads need the role `read` and changes the role `write`. Default: none, and nothing but health is served on other addresses.
    pub(crate) tokens: Vec<Spanned<RawToken>>,
    /// Shows keyed hashes (HMAC-SHA-256) instead of key ids: in the API, in logs and on the command line.
    pub(crate) hash_keys: Flag<false>,
    /// Key of these hashes, 16 bytes at least; the same in all gateways makes their hashes equal. Take it from the environment: `${TOLLGATE_HASH_SECRET}`. Default: a random one, new at each start.
    pub(crate) hash_secret: Option<Spanned<String>>,
    /// Traces of requests.
    pub(crate) tracing: RawTracing,
    /// Export over OTLP.
    pub(crate) otlp: RawOtlp,
    /// OpenTelemetry.
    pub(crate) opentelemetry: RawOpenTelemetry,
}

/// `on-traffic-port`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum OnTrafficPort {
    #[serde(rename = "true", alias = "yes", alias = "on")]
    Always,
    #[default]
    #[serde(rename = "false", alias = "no", alias = "off")]
    Never,
    /// Unless the management port is another one.
    #[serde(rename = "auto")]
    Auto,
}

/// Endpoints on the port for traffic: `true`, `false` or `auto`.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(rename = "OnTrafficPort")]
#[serde(untagged)]
#[expect(dead_code, reason = "describes a flag or a word")]
pub(crate) enum OnTrafficPortSchema {
    /// Always or never.
    Flag(bool),
    /// `auto`.
    Word(AutoWord),
}

/// Endpoints on the port for traffic unless the management port is another one.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(rename = "OnTrafficPortWord")]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "describes a word")]
pub(crate) enum AutoWord {
    /// Unless the management port is another one.
    Auto,
}

/// Address, port, socket and TLS of the management listener.
#[section]
pub(crate) struct RawManagementServer {
    /// Address to listen on. Default `127.0.0.1`; other addresses need `tokens`.
    #[cfg_attr(test, schemars(with = "Option<IpAddr>"))]
    pub(crate) address: Option<Spanned<Address>>,
    /// Port to listen on; -1 disables the listener, as in Spring Boot. Default 9090; the environment variable `MANAGEMENT_SERVER_PORT` overrides it.
    pub(crate) port: Option<Spanned<i32>>,
    /// Path of a Unix socket that serves the same without a token, such as `/run/tollgate/admin.sock`: the permissions of the file decide. It needs no port. Default: none.
    pub(crate) socket: OptionalText,
    /// Permissions of the socket's file, in octal. Default 0600: the user of the gateway alone.
    pub(crate) socket_mode: Option<Spanned<String>>,
    /// TLS of the port. With `client-auth`, requests need a client certificate or a token, on a loopback address as well. Default: none.
    #[cfg_attr(test, schemars(with = "Option<RawServerSsl>"))]
    pub(crate) ssl: Option<Subtree>,
    /// Origin at which a reverse proxy serves the port, such as `https://ops.example.org`: its host is accepted on a loopback address, and changes may come from its pages. Default: none.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) origin: Option<OuterOrigin>,
    /// Client certificates that may change something, by common name, DNS name, URI or e-mail address, or by one part such as `tls:san-uri=spiffe://example/ops`; all others may read. Default: none.
    pub(crate) certificate_writers: Vec<Spanned<String>>,
    // Spring Boot's prefix of the path of every endpoint.
    pub(crate) base_path: Option<Spanned<String>>,
}

/// Readiness of the gateway.
#[section]
pub(crate) struct RawReadiness {
    /// Reports not ready while Redis is unreachable. Default {}: limits then follow `on-store-failure`.
    pub(crate) redis: Flag<false>,
}

/// Spring Boot's settings of all endpoints.
#[section]
pub(crate) struct RawEndpoints {
    pub(crate) web: RawWeb,
    pub(crate) access: RawAccessDefault,
    pub(crate) enabled_by_default: Option<bool>,
}

/// Endpoints over HTTP.
#[section]
pub(crate) struct RawWeb {
    /// Default `/actuator`.
    pub(crate) base_path: Option<Spanned<String>>,
    /// Paths of endpoints below it, by name.
    pub(crate) path_mapping: BTreeMap<String, Spanned<String>>,
    pub(crate) exposure: RawExposure,
}

/// Exposed endpoints.
#[section]
pub(crate) struct RawExposure {
    pub(crate) include: Option<Spanned<Vec<String>>>,
    pub(crate) exclude: Vec<String>,
}

/// Default access to endpoints.
#[section]
pub(crate) struct RawAccessDefault {
    pub(crate) default: Option<RawAccess>,
    pub(crate) max_permitted: Option<RawAccess>,
}

/// Access to an endpoint, in ascending order.
#[word(PartialOrd, Ord)]
pub(crate) enum RawAccess {
    /// Disabled.
    None,
    /// Read access.
    ReadOnly,
    /// Read and write access.
    Unrestricted,
}

/// Settings of the supported endpoints.
#[section]
pub(crate) struct RawEndpointSettings {
    pub(crate) health: RawEndpoint,
    pub(crate) gateway: RawEndpoint,
    pub(crate) prometheus: RawEndpoint,
}

/// Settings of one endpoint.
#[section]
pub(crate) struct RawEndpoint {
    pub(crate) enabled: Option<bool>,
    pub(crate) access: Option<RawAccess>,
    pub(crate) show_details: Option<String>,
    pub(crate) show_components: Option<String>,
    pub(crate) probes: RawProbes,
}

/// Enables `/actuator/health/liveness` and `/actuator/health/readiness`.
#[section]
pub(crate) struct RawProbes {
    pub(crate) enabled: Option<bool>,
    pub(crate) add_additional_paths: Option<Spanned<bool>>,
}

/// Metrics of requests that match a route.
#[section]
pub(crate) struct RawRequestSeries {
    /// Enables the metrics.
    pub(crate) enabled: Flag<true>,
    /// Prefix of the metric's name, before `requests`. Default `spring.cloud.gateway`, which gives `spring_cloud_gateway_requests_seconds`.
    pub(crate) prefix: OptionalText,
    /// Additional labels by name. Default: none.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, String>"))]
    pub(crate) tags: Metadata,
    /// Label with the matched pattern.
    pub(crate) path_tags: RawPathTags,
}

/// Label with the matched pattern.
#[section]
pub(crate) struct RawPathTags {
    /// Adds a label with the matched pattern of `Path`. Default {}: each pattern adds a series.
    pub(crate) enabled: Option<Flag<false>>,
}

/// Labels of all metrics, and access to them.
#[section]
pub(crate) struct RawCommonTags {
    /// Labels of all metrics on `/metrics`, by name. Default: none.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, String>"))]
    pub(crate) tags: Metadata,
    /// Serves `/metrics` without a token on every address, so that Prometheus can read it.
    pub(crate) open: Flag<false>,
}
