//! Checked upstreams.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::HeaderValue;
use http::uri::PathAndQuery;
use tollgate_filters::key_resolver::KeyResolver;

/// Scheme of an HTTP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// `http` and `ws`: without TLS.
    Http,
    /// `https` and `wss`: with TLS.
    Https,
}

impl Scheme {
    /// The scheme as in URIs: `http` or `https`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Default port.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// One or several equal servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Name in `lb://NAME`.
    pub name: Arc<str>,
    /// Source of its endpoints.
    pub endpoints: EndpointSource,
    /// Load balancing.
    pub balance: Balance,
    /// Active health checks; `None`: disabled.
    pub health: Option<HealthCheck>,
    /// Ejection of failing endpoints; `None`: disabled.
    pub ejection: Option<Ejection>,
}

/// The upstreams of a file by name; `None` for one with errors, which are reported.
pub(crate) type Named = BTreeMap<String, Option<Arc<Upstream>>>;

/// Source of endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointSource {
    /// A list in the file.
    Listed(Vec<ListedEndpoint>),
    /// DNS.
    Dns(DnsQuery),
}

/// Endpoint in the list of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEndpoint {
    /// Its address.
    pub address: EndpointAddress,
    /// Relative share of requests; 0: none.
    pub weight: u32,
    /// Priority: used only if no endpoint of a lower number is healthy.
    pub priority: u16,
}

/// Address of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointAddress {
    /// Its scheme.
    pub scheme: Scheme,
    /// Host to connect to, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Name for the field `Host`, without port and brackets: the resolved DNS name, otherwise `host`.
    pub name: String,
}

/// DNS lookup of endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsQuery {
    /// The name.
    pub name: String,
    /// Type of the records.
    pub records: Records,
    /// Scheme of the endpoints.
    pub scheme: Scheme,
    /// Longest interval between lookups; a shorter time to live of the records wins.
    pub refresh: Duration,
}

/// Types of DNS records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// IPv4 addresses, all with this port.
    A(u16),
    /// IPv6 addresses, all with this port.
    Aaaa(u16),
    /// Addresses of both kinds, all with this port.
    Any(u16),
    /// Names with ports, weights and priorities (RFC 2782).
    Srv,
}

/// Load balancing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Balance {
    /// The less busy one of two random endpoints.
    LeastRequest,
    /// Each in turn.
    RoundRobin,
    /// Random.
    Random,
    /// The same endpoint for the same key.
    ConsistentHash(KeyResolver),
}

/// Active health checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Path of the check.
    pub path: PathAndQuery,
    /// Interval between checks.
    pub interval: Duration,
    /// Timeout of a check.
    pub timeout: Duration,
    /// Consecutive successes after which an endpoint is healthy again.
    pub healthy: NonZeroU32,
    /// Consecutive failures after which an endpoint is unhealthy.
    pub unhealthy: NonZeroU32,
    /// Successful statuses.
    pub statuses: Statuses,
    /// Port of the check; `None`: the endpoint's own.
    pub port: Option<u16>,
    /// `Host` of the check; `None`: the endpoint's own.
    pub host: Option<HeaderValue>,
}

/// Ranges of statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(pub Vec<RangeInclusive<u16>>);

/// Ejection of failing endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ejection {
    /// Consecutive failures that eject an endpoint.
    pub consecutive_failures: NonZeroU32,
    /// Time of the first ejection; multiplied by the number of consecutive ejections.
    pub base_time: Duration,
    /// Longest ejection.
    pub max_time: Duration,
    /// Percentage of endpoints that may be ejected at a time.
    pub max_percent: u8,
    /// Statuses that count as failures, besides connection errors and timeouts.
    pub statuses: Vec<StatusCode>,
}

/// DNS servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dns {
    /// The servers; empty: those of the system.
    pub servers: Vec<SocketAddr>,
    /// Timeout per server.
    pub timeout: Duration,
}

impl Balance {
    /// Key resolver of consistent hashing.
    #[must_use]
    pub fn key_resolver(&self) -> Option<&KeyResolver> {
        match self {
            Self::ConsistentHash(resolver) => Some(resolver),
            Self::LeastRequest | Self::RoundRobin | Self::Random => None,
        }
    }
}

impl Statuses {
    /// True if `status` is in one of the ranges.
    #[must_use]
    pub fn contain(&self, status: StatusCode) -> bool {
        self.0.iter().any(|range| range.contains(&status.as_u16()))
    }
}

impl fmt::Display for EndpointAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, host, port, .. } = self;
        let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{}://{open}{host}{close}:{port}", scheme.as_str())
    }
}
