//! Checked settings of forwarding headers.

use std::net::IpAddr;

use http::header::{HeaderName, HeaderValue};
use ipnet::IpNet;
use regex::Regex;
use serde::Deserialize;

/// Forwarding headers: trusted, kept and added.
#[derive(Clone, Debug)]
pub struct Forwarding {
    /// Proxies trusted to report the client address in `X-Forwarded-For`; their `X-Forwarded-*` and `Forwarded` are kept.
    pub trusted_proxies: TrustedProxies,
    /// True if predicates use the client address that a trusted proxy reports.
    pub trusts_client_address: bool,
    /// Forwarding headers to upstreams, if the peer is trusted.
    pub headers: ForwardedHeaders,
    /// Treatment of header names with an underscore.
    pub underscores: Underscores,
    /// Added `Via` field (RFC 9110 §7.6.3), if any.
    pub via: Option<HeaderValue>,
    /// Replaces the list of hop-by-hop headers that are removed.
    pub remove_hop_by_hop: Option<Vec<HeaderName>>,
    /// Permits protocol upgrades such as WebSocket; otherwise the request is forwarded without `Upgrade`.
    pub tunnels: bool,
}

/// Proxies trusted to report the client address.
#[derive(Clone, Debug)]
pub enum TrustedProxies {
    /// No peer.
    None,
    /// Peers in one of these networks.
    Networks(Vec<IpNet>),
    /// Peers with an address that matches as text; the expression is anchored.
    Pattern(Regex),
}

impl TrustedProxies {
    /// Returns true if the peer is trusted. IPv4-mapped addresses count as IPv4.
    #[must_use]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        match self {
            Self::None => false,
            Self::Networks(networks) => networks.iter().any(|network| network.contains(&peer.to_canonical())),
            Self::Pattern(pattern) => pattern.is_match(&peer.to_canonical().to_string()),
        }
    }
}

/// Forwarding headers to upstreams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedHeaders {
    /// `X-Forwarded-For`: the peer's address.
    pub for_: HeaderAction,
    /// `X-Forwarded-Host`: the requested host.
    pub host: HeaderAction,
    /// `X-Forwarded-Port`: its port.
    pub port: HeaderAction,
    /// `X-Forwarded-Proto`: `http` or `https`.
    pub proto: HeaderAction,
    /// `X-Forwarded-Prefix`: the part of the path that filters removed.
    pub prefix: HeaderAction,
    /// Adds an element to `Forwarded`.
    pub forwarded: bool,
    /// Adds `by`, the gateway's own address.
    pub by: bool,
    /// Forwards only trusted addresses of the received entries, as Spring does.
    pub trusted_only: bool,
}

impl Default for ForwardedHeaders {
    fn default() -> Self {
        let all = HeaderAction::Append;
        let (forwarded, by, trusted_only) = (true, false, false);
        Self { for_: all, host: all, port: all, proto: all, prefix: all, forwarded, by, trusted_only }
    }
}

/// Treatment of one forwarding header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderAction {
    /// The received field is forwarded unchanged.
    Keep,
    /// Replaces the received field.
    Replace,
    /// Appends to the received field, in one line.
    Append,
}

/// Treatment of header names with an underscore, which many upstreams cannot distinguish from a hyphen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum Underscores {
    /// The header is removed.
    #[default]
    Drop,
    /// The header passes.
    Allow,
    /// The request is refused with 400.
    Reject,
}
