//! Upstreams as typed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::Time;
use crate::sections::scalars::{Scalar, StringOrList};

/// Several servers that do the same: what `lb://NAME` leads to.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawUpstream {
    /// Its servers: `http://host:port`, or `uri` with `weight` and `priority`. Either these or `dns`.
    #[schemars(with = "Vec<RawEndpointEntry>")]
    pub(crate) endpoints: Option<Spanned<Vec<NodeRef>>>,
    /// A name in DNS whose addresses are its servers.
    pub(crate) dns: Option<Spanned<RawDnsQuery>>,
    /// How one of them is chosen. Default `least-request`, which spares slow servers and needs no agreement between workers.
    pub(crate) balance: Option<Spanned<RawBalance>>,
    /// Whose requests go to the same server under `consistent-hash`: `ip`, `header:X-User`, `cookie:session`, any key resolver or a list of them.
    #[schemars(with = "Option<StringOrList>")]
    pub(crate) hash_by: Option<NodeRef>,
    /// Asks the servers themselves whether they live. Default: they are not asked.
    pub(crate) health: Option<Spanned<RawHealth>>,
    /// Leaves a server alone for a while when it fails requests.
    pub(crate) ejection: RawEjection,
}

/// A server of an upstream.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawEndpoint {
    /// `http://host:port` or `https://host:port`.
    pub(crate) uri: Option<Spanned<String>>,
    /// Its share of the requests, in proportion to the others'; 0 for none. Default 1.
    pub(crate) weight: Option<Spanned<u32>>,
    /// It is asked only when no server of a lower number lives. Default 0.
    pub(crate) priority: Option<u16>,
}

/// A server in full, or its URI alone.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "stands in the schema for what is read by hand")]
pub(crate) enum RawEndpointEntry {
    /// In full.
    Full(RawEndpoint),
    /// Its URI.
    Uri(String),
}

/// A name in DNS whose addresses are servers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawDnsQuery {
    /// The name, such as `orders.internal`, or `_http._tcp.orders.internal` for `SRV`.
    pub(crate) name: Option<Spanned<String>>,
    /// The port of all servers; `SRV` records name ports themselves. Default 80, 443 with `https`.
    pub(crate) port: Option<Spanned<u16>>,
    /// How the servers are spoken to: `http` or `https`. Default `http`.
    pub(crate) scheme: Option<RawScheme>,
    /// Which records name them. Default `A`.
    #[serde(rename = "type")]
    pub(crate) records: Option<Spanned<RawRecords>>,
    /// DNS is asked again when the time to live of its answer is over, at the latest after this. Default 30s.
    pub(crate) refresh: Option<Spanned<Time>>,
}

/// How servers are spoken to.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawScheme {
    /// In the clear.
    Http,
    /// Over TLS.
    Https,
}

/// Records that name servers.
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

/// How a server is chosen.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawBalance {
    /// Of two drawn by lot the one with fewer requests under way for its weight.
    LeastRequest,
    /// Each in turn, as often as its weight says.
    RoundRobin,
    /// The same as `round-robin`, which always counts weights.
    Weighted,
    /// By lot, with the weights as the odds.
    Random,
    /// The same one for the same `hash-by`, as long as it lives.
    ConsistentHash,
}

/// Asks the servers themselves whether they live.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawHealth {
    /// What is asked for. Default `/`.
    pub(crate) path: Option<Spanned<String>>,
    /// Time from one question to the next, a tenth more or less. Default 5s.
    pub(crate) interval: Option<Spanned<Time>>,
    /// Time in which a server must have answered. Default 1s.
    pub(crate) timeout: Option<Spanned<Time>>,
    /// Good answers in a row that bring a server back; the very first counts at once. Default 2.
    pub(crate) healthy: Option<std::num::NonZeroU32>,
    /// Bad answers in a row that take a server out; the very first counts at once. Default 3.
    pub(crate) unhealthy: Option<std::num::NonZeroU32>,
    /// Statuses of a good answer: numbers and ranges, such as `200-299, 401`. Default `200-399`.
    #[schemars(with = "Option<Scalar>")]
    pub(crate) status: Option<Spanned<String>>,
    /// The port to ask at. Default: the server's own.
    pub(crate) port: Option<Spanned<u16>>,
    /// The `Host` to ask for. Default: the server's own.
    pub(crate) host: Option<Spanned<String>>,
    /// Whether servers are asked. Default true where there is a `health` section.
    pub(crate) enabled: Option<bool>,
}

/// Leaves a server alone for a while when it fails requests: no connection, no answer in time, an answer that breaks off, or one of `status`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawEjection {
    /// Whether it does. Default true.
    pub(crate) enabled: Option<bool>,
    /// Failures in a row that eject a server. Default 5.
    pub(crate) consecutive_failures: Option<std::num::NonZeroU32>,
    /// Time of a first ejection; the second in a row lasts twice as long, and so on. Default 30s.
    pub(crate) base_time: Option<Spanned<Time>>,
    /// Time of the longest ejection. Default 5m.
    pub(crate) max_time: Option<Spanned<Time>>,
    /// Percentage of the servers that may be ejected at a time. Default 50: of two servers one, of one none.
    pub(crate) max_percent: Option<Spanned<u8>>,
    /// Statuses that count as failures. Default `[502, 503, 504]`.
    #[schemars(with = "Option<Vec<Scalar>>")]
    pub(crate) status: Option<Vec<Spanned<String>>>,
}

/// Who is asked for the servers of `upstreams.NAME.dns`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawDns {
    /// Address of a DNS server, `10.0.0.2` or `10.0.0.2:53`, or a list of them. Default: what `/etc/resolv.conf` names.
    #[schemars(with = "Option<StringOrList>")]
    pub(crate) server: Option<NodeRef>,
    /// Time in which a server must have answered before the next is asked. Default 2s.
    pub(crate) timeout: Option<Spanned<Time>>,
}

/// What becomes of a request for which no server lives.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawLoadBalancer {
    /// Whether it is answered 404 instead of 503. Default false.
    pub(crate) use404: Option<bool>,
    /// Spring Cloud LoadBalancer's choice of a list of instances.
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

/// Spring's ways to find servers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawDiscovery {
    /// One route for each service of a registry: refused.
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
