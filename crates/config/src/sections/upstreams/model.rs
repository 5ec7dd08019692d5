//! Upstreams, checked.

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

/// How an HTTP server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// Over a plain connection: `http` and `ws`.
    Http,
    /// Over TLS: `https` and `wss`.
    Https,
}

impl Scheme {
    /// As URIs have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Where its servers listen unless they say otherwise.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Several servers that do the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// What `lb://` calls it.
    pub name: Arc<str>,
    /// Its endpoints, or where they are found.
    pub endpoints: EndpointSource,
    /// How one is chosen.
    pub balance: Balance,
    /// How it is asked whether they live; `None`: not at all.
    pub health: Option<HealthCheck>,
    /// When one is left alone for the failures it answered with; `None`: never.
    pub ejection: Option<Ejection>,
}

/// Endpoints, or where they are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointSource {
    /// Those of a list.
    Listed(Vec<ListedEndpoint>),
    /// Those that DNS names.
    Dns(DnsQuery),
}

/// An endpoint as an upstream lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEndpoint {
    /// Where it is.
    pub address: EndpointAddress,
    /// Its share of the requests, in proportion to the others'; 0: none.
    pub weight: u32,
    /// It is asked only when no endpoint of a lower number lives.
    pub priority: u16,
}

/// Where an endpoint is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointAddress {
    /// How it is spoken to.
    pub scheme: Scheme,
    /// The name or address that is connected to, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What it is called in `Host`, without port and brackets: the name that DNS was asked for, otherwise `host`.
    pub name: String,
}

/// A question to DNS that endpoints answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsQuery {
    /// The name.
    pub name: String,
    /// Which records.
    pub records: Records,
    /// How the endpoints are spoken to.
    pub scheme: Scheme,
    /// It is asked again when the answer's time to live is over, at the latest after this.
    pub refresh: Duration,
}

/// Records that name endpoints.
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

/// How an endpoint is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Balance {
    /// Of two drawn by lot the less busy one.
    LeastRequest,
    /// Each in turn.
    RoundRobin,
    /// By lot.
    Random,
    /// The same one for the same key.
    ConsistentHash(KeyResolver),
}

/// How it is asked whether endpoints live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// What is asked for.
    pub path: PathAndQuery,
    /// From one question to the next.
    pub interval: Duration,
    /// Time in which an endpoint must have answered.
    pub timeout: Duration,
    /// So many good answers in a row bring an endpoint back.
    pub healthy: NonZeroU32,
    /// So many bad ones in a row take it out.
    pub unhealthy: NonZeroU32,
    /// The statuses of a good answer.
    pub statuses: Statuses,
    /// Where it is asked instead of the endpoint's own port.
    pub port: Option<u16>,
    /// The `Host` field instead of the endpoint's own.
    pub host: Option<HeaderValue>,
}

/// Ranges of statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(pub Vec<RangeInclusive<u16>>);

/// When an endpoint is left alone for failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ejection {
    /// After so many in a row.
    pub consecutive_failures: NonZeroU32,
    /// For so long the first time; for as many times as long as it was ejected in a row.
    pub base_time: Duration,
    /// At most for so long.
    pub max_time: Duration,
    /// No more than this share of the endpoints at a time.
    pub max_percent: u8,
    /// Answers that count as failures, beside connections that fail and answers that do not come.
    pub statuses: Vec<StatusCode>,
}

/// Who is asked for endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dns {
    /// The servers; empty: the system's.
    pub servers: Vec<SocketAddr>,
    /// Time that a server has for an answer.
    pub timeout: Duration,
}

impl Balance {
    /// What makes of a request the key that its endpoint is chosen by.
    #[must_use]
    pub fn key_resolver(&self) -> Option<&KeyResolver> {
        match self {
            Self::ConsistentHash(resolver) => Some(resolver),
            Self::LeastRequest | Self::RoundRobin | Self::Random => None,
        }
    }
}

impl Statuses {
    /// Whether `status` is one of them.
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
