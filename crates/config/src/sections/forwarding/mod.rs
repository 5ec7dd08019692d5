//! Forwarding headers: trusted proxies, `x-forwarded`, `forwarded`, `via` and names of headers.

pub(crate) mod trusted_proxies;

use std::net::IpAddr;

use http::header::{HeaderName, HeaderValue};
use ipnet::IpNet;
use regex::Regex;

use crate::de::{Flag, Spanned, Word};
use crate::diagnostics::Diagnostics;
use crate::yaml::Span;

/// `X-Forwarded-*` fields, added only if the peer is one of `trusted-proxies`, or the client that a PROXY header names.
#[section]
pub(crate) struct RawXForwarded {
    /// Enables all of them. Default {}. Fields that are disabled are forwarded unchanged.
    pub(crate) enabled: Flag<true>,
    // Spring's order of the header filter.
    pub(crate) order: Option<Spanned<i64>>,
    /// Enables `X-Forwarded-For`, the peer's address.
    pub(crate) for_enabled: Flag<true>,
    /// Enables `X-Forwarded-Host`, the requested host.
    pub(crate) host_enabled: Flag<true>,
    /// Enables `X-Forwarded-Port`, the requested port.
    pub(crate) port_enabled: Flag<true>,
    /// Enables `X-Forwarded-Proto`, `http` or `https`.
    pub(crate) proto_enabled: Flag<true>,
    /// Enables `X-Forwarded-Prefix`, the part of the path that filters removed.
    pub(crate) prefix_enabled: Flag<true>,
    /// Appends to the received field instead of replacing it.
    pub(crate) for_append: Flag<true>,
    /// Appends to the received field instead of replacing it.
    pub(crate) host_append: Flag<true>,
    /// Appends to the received field instead of replacing it.
    pub(crate) port_append: Flag<true>,
    /// Appends to the received field instead of replacing it.
    pub(crate) proto_append: Flag<true>,
    /// Appends to the received field instead of replacing it.
    pub(crate) prefix_append: Flag<true>,
    /// Forwards only trusted addresses of the received `X-Forwarded-For` and `Forwarded`. Default {}, which keeps the client's address; true in a Spring file, as in Spring.
    pub(crate) trusted_only: Flag<false>,
}

/// `Forwarded` (RFC 7239), added only if the peer is one of `trusted-proxies`, or the client that a PROXY header names.
#[section]
pub(crate) struct RawForwarded {
    /// Adds an element.
    pub(crate) enabled: Flag<true>,
    /// Parameter `by`: the gateway's own address.
    pub(crate) by: RawForwardedBy,
}

/// Parameter `by`: the gateway's own address.
#[section]
pub(crate) struct RawForwardedBy {
    /// Enables `by`.
    pub(crate) enabled: Flag<false>,
}

/// Spring's HTTP server.
#[section]
pub(crate) struct RawHttpServer {
    /// Makes predicates use the client address of `X-Forwarded-For` from a trusted proxy. Default false.
    pub(crate) customizer_enabled: Option<bool>,
}

/// Header names.
#[section]
pub(crate) struct RawHeaders {
    /// Headers with `_` in their name: `drop`, `allow` or `reject` (400). Default {}: many upstreams cannot distinguish `_` from `-`.
    pub(crate) underscores: Word<Underscores>,
    /// `Client-Cert` and `Client-Cert-Chain` (RFC 9440) of peers that are not in `trusted-proxies`: `remove` or `keep`. Default {}, since clients can forge them; `keep` in a Spring file without `server.ssl.forward-client-cert`.
    pub(crate) client_cert: Word<ClientCertFields>,
}

/// Treatment of fields by which proxies tell of a client's certificate.
#[word(Default)]
pub(crate) enum ClientCertFields {
    /// They are removed.
    #[default]
    Remove,
    /// They are forwarded.
    Keep,
}

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
    /// Keeps `Client-Cert` and `Client-Cert-Chain` of peers that are not trusted.
    pub keeps_client_cert: bool,
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
#[word(Default)]
pub enum Underscores {
    /// The header is removed.
    #[default]
    Drop,
    /// The header passes.
    Allow,
    /// The request is refused with 400.
    Reject,
}

/// Returns the value of the `Via` field that is added, if any.
pub(crate) fn via(raw: Option<&Spanned<String>>, diagnostics: &mut Diagnostics) -> Option<HeaderValue> {
    let name = match raw.map(|via| via.value.as_str()) {
        Some("false" | "off" | "no" | "") => return None,
        None | Some("true") => "tollgate",
        Some(name) => name,
    };
    // RFC 9110 §7.6.3: a pseudonym is a token, or host and port.
    let is_valid = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]~".contains(&b));
    let value = if is_valid { HeaderValue::from_str(&format!("1.1 {name}")).ok() } else { None };
    if value.is_none() {
        let at = raw.map_or(Span::ROOT, |via| via.span);
        diagnostics.error(at, format!("`via` must be a name such as `tollgate`, or false, found `{name}`"));
    }
    value
}

impl RawXForwarded {
    /// Checks `x-forwarded` and `forwarded`.
    pub(crate) fn headers(&self, forwarded: &RawForwarded, diagnostics: &mut Diagnostics) -> ForwardedHeaders {
        let action = |enabled: Flag<true>, append: Flag<true>| match (self.enabled.get() && enabled.get(), append.get())
        {
            (false, _) => HeaderAction::Keep,
            (true, false) => HeaderAction::Replace,
            (true, true) => HeaderAction::Append,
        };
        if let Some(order) = &self.order {
            diagnostics
                .note(order.span.key(), "`x-forwarded.order` has no effect: the fields are set before any filter runs")
                .ineffective()
                .help("filters can change them");
        }
        ForwardedHeaders {
            for_: action(self.for_enabled, self.for_append),
            host: action(self.host_enabled, self.host_append),
            port: action(self.port_enabled, self.port_append),
            proto: action(self.proto_enabled, self.proto_append),
            prefix: action(self.prefix_enabled, self.prefix_append),
            forwarded: forwarded.enabled.get(),
            by: forwarded.by.enabled.get(),
            trusted_only: self.trusted_only.get(),
        }
    }
}

impl RawHttpServer {
    /// Returns true if predicates use the client address that a trusted proxy reports. `strategy` is
    /// `server.forward-headers-strategy`.
    pub(crate) fn trusts_client_address(
        &self,
        strategy: Option<&Spanned<String>>,
        trusted: &TrustedProxies,
        diagnostics: &mut Diagnostics,
    ) -> bool {
        let active_strategy = strategy.filter(|strategy| !strategy.trim().eq_ignore_ascii_case("none"));
        if let Some(strategy) = active_strategy
            && matches!(trusted, TrustedProxies::None)
        {
            let message =
                format!("`forward-headers-strategy: {}` has no effect without `trusted-proxies`", strategy.value);
            diagnostics
                .mistake(strategy.span, message)
                .ineffective()
                .help("list your proxies: `trusted-proxies: [10.0.0.0/8]`");
        }
        self.customizer_enabled.unwrap_or(active_strategy.is_some())
    }
}
