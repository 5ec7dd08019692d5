//! What is believed of the hops before the gateway, and what upstreams are told.

use std::net::IpAddr;

use http::header::{HeaderName, HeaderValue};
use ipnet::IpNet;
use regex::Regex;

/// Which headers are believed, kept and added.
#[derive(Clone, Debug)]
pub struct Forwarding {
    /// Peers whose `X-Forwarded-*` and `Forwarded` are believed.
    pub trusted_proxies: TrustedProxies,
    /// Whether a trusted peer's word on its client's address holds for predicates as well.
    pub believes_address: bool,
    /// What upstreams are told of the hops before them, where the peer is trusted.
    pub headers: ForwardedHeaders,
    /// What happens to header names with an underscore.
    pub underscores: Underscores,
    /// The `Via` field that is added (RFC 9110 §7.6.3); `None`: none.
    pub via: Option<HeaderValue>,
    /// Replaces the list of hop-by-hop headers that are removed.
    pub remove_hop_by_hop: Option<Vec<HeaderName>>,
    /// Whether a request may switch to another protocol, such as WebSocket; otherwise it is forwarded without asking.
    pub tunnels: bool,
}

/// Peers whose forwarding headers are believed.
#[derive(Clone, Debug)]
pub enum TrustedProxies {
    /// None.
    Nobody,
    /// Those in one of these networks.
    Networks(Vec<IpNet>),
    /// Those whose address, as text, this matches; the expression is anchored.
    Pattern(Regex),
}

impl TrustedProxies {
    /// Whether the peer's word counts. IPv4-mapped addresses count as IPv4.
    #[must_use]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        match self {
            Self::Nobody => false,
            Self::Networks(networks) => networks.iter().any(|network| network.contains(&peer.to_canonical())),
            Self::Pattern(pattern) => pattern.is_match(&peer.to_canonical().to_string()),
        }
    }
}

/// What upstreams are told of the hops before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedHeaders {
    /// `X-Forwarded-For`: the peer's address.
    pub for_: Tell,
    /// `X-Forwarded-Host`: the host that was asked for.
    pub host: Tell,
    /// `X-Forwarded-Port`: its port.
    pub port: Tell,
    /// `X-Forwarded-Proto`: `http` or `https`.
    pub proto: Tell,
    /// `X-Forwarded-Prefix`: what filters took off the front of the path.
    pub prefix: Tell,
    /// Whether an element is added to `Forwarded`.
    pub forwarded: bool,
    /// Whether it says where the gateway listens.
    pub by: bool,
    /// Whether of the entries that came only trusted addresses are passed on, as by Spring.
    pub trusted_only: bool,
}

impl Default for ForwardedHeaders {
    fn default() -> Self {
        let all = Tell::Append;
        let (forwarded, by, trusted_only) = (true, false, false);
        Self { for_: all, host: all, port: all, proto: all, prefix: all, forwarded, by, trusted_only }
    }
}

/// How a field is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// It passes as it came.
    Nothing,
    /// In place of what came.
    Instead,
    /// Behind what came, in one line.
    Append,
}

/// What happens to header names with an underscore, which many upstreams cannot tell from a hyphen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Underscores {
    /// The header is removed.
    Drop,
    /// The header passes.
    Allow,
    /// The request is refused with 400.
    Reject,
}
