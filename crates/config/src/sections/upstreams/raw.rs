//! Raw `upstreams`, `dns` and Spring's sections for service instances.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::Time;
use crate::sections::scalars::{Scalar, StringOrList};

/// Upstream of `lb://NAME`: one or several equal servers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawUpstream {
    /// Endpoints: `http://host:port`, or `uri` with `weight` and `priority`. Either these or `dns`.
    #[schemars(with = "Vec<RawEndpointEntry>")]
    pub(crate) endpoints: Option<Spanned<Vec<NodeRef>>>,
    /// DNS name that resolves to its endpoints.
    pub(crate) dns: Option<Spanned<RawDnsQuery>>,
    /// Load balancing. Default `least-request`, which spares slow endpoints without coordination of workers.
    pub(crate) balance: Option<Spanned<RawBalance>>,
    /// Key for `consistent-hash`: `ip`, `header:X-User`, `cookie:session`, any key resolver or a list of them.
    #[schemars(with = "Option<StringOrList>")]
    pub(crate) hash_by: Option<NodeRef>,
    /// Active health checks. Default: none.
    pub(crate) health: Option<Spanned<RawHealth>>,
    /// Ejection of failing endpoints.
    pub(crate) ejection: RawEjection,
}

/// Endpoint of an upstream.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawEndpoint {
    /// `http://host:port` or `https://host:port`.
    pub(crate) uri: Option<Spanned<String>>,
    /// Relative share of requests; 0: none. Default 1.
    pub(crate) weight: Option<Spanned<u32>>,
    /// Priority: endpoints of a higher number are used only if none of a lower number is healthy. Default 0.
    pub(crate) priority: Option<u16>,
}

/// An endpoint as a map, or its URI.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes a value in the schema that is read by hand")]
pub(crate) enum RawEndpointEntry {
    /// As a map.
    Full(RawEndpoint),
    /// Its URI.
    Uri(String),
}

/// DNS name that resolves to endpoints.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawDnsQuery {
    /// Name, such as `orders.internal`, or `_http._tcp.orders.internal` for `SRV`.
    pub(crate) name: Option<Spanned<String>>,
    /// Port of all endpoints; `SRV` records have their own ports. Default 80, 443 with `https`.
    pub(crate) port: Option<Spanned<u16>>,
    /// Scheme of the endpoints: `http` or `https`. Default `http`.
    pub(crate) scheme: Option<RawScheme>,
    /// Type of the DNS records. Default `A`.
    #[serde(rename = "type")]
    pub(crate) records: Option<Spanned<RawRecords>>,
    /// Longest interval between lookups; a shorter time to live of the records wins. Default 30s.
    pub(crate) refresh: Option<Spanned<Time>>,
}

/// Scheme of endpoints.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawScheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

/// Types of DNS records.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
pub(crate) enum RawRecords {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    #[serde(rename = "AAAA")]
    Aaaa,
    /// Addresses of both kinds.
    #[serde(rename = "any")]
    Any,
    /// Names with ports, weights and priorities (RFC 2782).
    #[serde(rename = "SRV")]
    Srv,
}

/// Load balancing.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawBalance {
    /// Two random endpoints; the one with fewer in-flight requests for its weight.
    LeastRequest,
    /// Each in turn, in proportion to its weight.
    RoundRobin,
    /// The same as `round-robin`, which always uses weights.
    Weighted,
    /// Random, in proportion to the weights.
    Random,
    /// The same endpoint for the same `hash-by`, while it is healthy.
    ConsistentHash,
}

/// Active health checks.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawHealth {
    /// Path of the check. Default `/`.
    pub(crate) path: Option<Spanned<String>>,
    /// Interval between checks, randomized by a tenth. Default 5s.
    pub(crate) interval: Option<Spanned<Time>>,
    /// Timeout of a check. Default 1s.
    pub(crate) timeout: Option<Spanned<Time>>,
    /// Consecutive successes after which an endpoint is healthy again; the very first check counts at once. Default 2.
    pub(crate) healthy: Option<std::num::NonZeroU32>,
    /// Consecutive failures after which an endpoint is unhealthy; the very first check counts at once. Default 3.
    pub(crate) unhealthy: Option<std::num::NonZeroU32>,
    /// Successful statuses: numbers and ranges, such as `200-299, 401`. Default `200-399`.
    #[schemars(with = "Option<Scalar>")]
    pub(crate) status: Option<Spanned<String>>,
    /// Port of the check. Default: the endpoint's own.
    pub(crate) port: Option<Spanned<u16>>,
    /// `Host` of the check. Default: the endpoint's own.
    pub(crate) host: Option<Spanned<String>>,
    /// Enables health checks. Default true if there is a `health` section.
    pub(crate) enabled: Option<bool>,
}

/// Ejection of endpoints that fail requests: connection errors, timeouts, incomplete responses, or a status of `status`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawEjection {
    /// Enables ejection. Default true.
    pub(crate) enabled: Option<bool>,
    /// Consecutive failures that eject an endpoint. Default 5.
    pub(crate) consecutive_failures: Option<std::num::NonZeroU32>,
    /// Time of the first ejection; each consecutive one lasts that much longer. Default 30s.
    pub(crate) base_time: Option<Spanned<Time>>,
    /// Longest ejection. Default 5m.
    pub(crate) max_time: Option<Spanned<Time>>,
    /// Percentage of endpoints that may be ejected at a time. Default 50: one of two endpoints, none of one.
    pub(crate) max_percent: Option<Spanned<u8>>,
    /// Statuses that count as failures. Default `[502, 503, 504]`.
    #[schemars(with = "Option<Vec<Scalar>>")]
    pub(crate) status: Option<Vec<Spanned<String>>>,
}

/// DNS servers for `upstreams.NAME.dns`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawDns {
    /// Address of a DNS server, `10.0.0.2` or `10.0.0.2:53`, or a list of them. Default: the servers in `/etc/resolv.conf`.
    #[schemars(with = "Option<StringOrList>")]
    pub(crate) server: Option<NodeRef>,
    /// Timeout per DNS server. Default 2s.
    pub(crate) timeout: Option<Spanned<Time>>,
}

/// Requests without a healthy endpoint.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawLoadBalancer {
    /// Answers them with 404 instead of 503. Default false.
    pub(crate) use404: Option<bool>,
    /// Spring Cloud LoadBalancer's selection of instances.
    #[schemars(skip)]
    pub(crate) configurations: Option<Spanned<String>>,
    /// Spring Cloud LoadBalancer's health checks.
    #[schemars(skip)]
    pub(crate) health_check: Option<Spanned<RawSpringHealth>>,
    /// Spring Cloud LoadBalancer's settings for single services.
    #[schemars(skip)]
    pub(crate) clients: BTreeMap<String, RawSpringClient>,
}

/// `spring.cloud.loadbalancer.clients.NAME`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawSpringClient {
    pub(crate) configurations: Option<Spanned<String>>,
    pub(crate) health_check: Option<Spanned<RawSpringHealth>>,
}

/// `spring.cloud.loadbalancer.health-check`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawSpringHealth {
    pub(crate) path: BTreeMap<String, Spanned<String>>,
    pub(crate) interval: Option<Spanned<Time>>,
    pub(crate) port: Option<Spanned<u16>>,
}

/// Spring's service discovery.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawDiscovery {
    /// Routes from a registry: not supported.
    #[schemars(skip)]
    pub(crate) locator: Option<NodeRef>,
    /// Spring Cloud Commons' switch.
    #[schemars(skip)]
    pub(crate) enabled: Option<Spanned<bool>>,
    /// Spring Cloud Commons' clients of registries.
    #[schemars(skip)]
    pub(crate) client: RawDiscoveryClient,
}

/// `spring.cloud.discovery.client`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawDiscoveryClient {
    pub(crate) simple: RawSimpleDiscovery,
}

/// `spring.cloud.discovery.client.simple`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawSimpleDiscovery {
    pub(crate) instances: BTreeMap<String, Spanned<Vec<Spanned<RawInstance>>>>,
}

/// One of `spring.cloud.discovery.client.simple.instances.NAME`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawInstance {
    pub(crate) uri: Option<Spanned<String>>,
    pub(crate) host: Option<Spanned<String>>,
    pub(crate) port: Option<Spanned<u16>>,
    pub(crate) secure: Option<bool>,
    pub(crate) metadata: BTreeMap<String, Spanned<String>>,
    pub(crate) instance_id: Option<NodeRef>,
    pub(crate) service_id: Option<NodeRef>,
}
