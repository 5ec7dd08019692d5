//! `upstreams.NAME.dns`, and `dns`: lookups of endpoints.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::Deserialize;

use crate::de::defaults::{Or, Word, secs};
use crate::de::nodes::Nodes;
use crate::de::ranged::{PositiveTime, Ranged};
use crate::de::spanned::{NodeRef, Spanned};
use crate::diagnostics::Diagnostics;
#[cfg(test)]
use crate::sections::scalars::StringOrList;
use crate::sections::upstreams::endpoints::Scheme;
use crate::yaml::{Node, NodeKind};

/// DNS name that resolves to endpoints.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawDnsQuery {
    /// Name, such as `orders.internal`, or `_http._tcp.orders.internal` for `SRV`.
    name: Option<Spanned<String>>,
    /// Port of all endpoints; `SRV` records have their own ports. Default 80, 443 with `https`.
    port: Option<Spanned<Ranged<u16, 1, 65_535>>>,
    /// Scheme of the endpoints: `http` or `https`.
    scheme: Word<Scheme>,
    /// Type of the DNS records.
    #[serde(rename = "type")]
    records: Word<RawRecords>,
    /// Longest interval between lookups; a shorter time to live of the records wins.
    refresh: Or<PositiveTime, { secs(30) }>,
}

/// Types of DNS records.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema, serde::Serialize))]
pub(crate) enum RawRecords {
    /// IPv4 addresses.
    #[default]
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

/// DNS servers for `upstreams.NAME.dns`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawDns {
    /// Address of a DNS server, `10.0.0.2` or `10.0.0.2:53`, or a list of them. Default: the servers in `/etc/resolv.conf`.
    #[cfg_attr(test, schemars(with = "Option<StringOrList>"))]
    server: Option<NodeRef>,
    /// Timeout per DNS server.
    timeout: Or<PositiveTime, { secs(2) }>,
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

/// DNS servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dns {
    /// The servers; empty: those of the system.
    pub servers: Vec<SocketAddr>,
    /// Timeout per server.
    pub timeout: Duration,
}

/// Checks `dns` of an upstream. Reports errors.
pub(super) fn query(raw: &Spanned<RawDnsQuery>, diagnostics: &mut Diagnostics) -> Option<DnsQuery> {
    let (at, raw) = (raw.span, &raw.value);
    let Some(name) = &raw.name else {
        diagnostics.error(at, "`dns` without `name`").help("add `name: orders.internal`");
        return None;
    };
    let host = name.value.trim().trim_end_matches('.');
    let fits = !host.is_empty()
        && host.len() <= 253
        && host.split('.').all(|label| {
            (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        });
    if !fits || host.parse::<IpAddr>().is_ok() {
        diagnostics
            .error(name.span, format!("`{}` is not a valid DNS name", name.value))
            .help("write it like `orders.internal`; list addresses under `endpoints`");
        return None;
    }
    let scheme = raw.scheme.0;
    let port = raw.port.map_or(scheme.default_port(), |port| port.value.get());
    let records = match raw.records.0 {
        RawRecords::A => Records::A(port),
        RawRecords::Aaaa => Records::Aaaa(port),
        RawRecords::Any => Records::Any(port),
        RawRecords::Srv => {
            if let Some(port) = &raw.port {
                diagnostics
                    .mistake(port.span.key(), "`port` has no effect: SRV records have their own ports")
                    .help("remove it");
            }
            Records::Srv
        }
    };
    if host.starts_with('_') && records != Records::Srv {
        diagnostics
            .warn(name.span, format!("`{host}` looks like a name of SRV records, but addresses are looked up"))
            .help("add `type: SRV`");
    }
    Some(DnsQuery { name: host.to_owned(), records, scheme, refresh: raw.refresh.get() })
}

/// Checks the DNS servers.
pub(crate) fn check(raw: &RawDns, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> Dns {
    let parts: &[Node] = match raw.server.and_then(|node| nodes.get(node)) {
        None => &[],
        Some(Node { kind: NodeKind::Seq(items), .. }) => items,
        Some(one) => std::slice::from_ref(one),
    };
    let read = |part: &Node| {
        let text = part.scalar().unwrap_or_default().trim();
        let address = text.parse::<SocketAddr>().ok();
        let address = address.or_else(|| Some(SocketAddr::new(text.trim_matches(['[', ']']).parse().ok()?, 53)));
        if address.is_none() {
            diagnostics
                .error(part.span, format!("`dns.server` must be an address, found {}", part.describe()))
                .help("write it like `10.0.0.2`, or `10.0.0.2:53`");
        }
        address
    };
    let servers = parts.iter().filter_map(read).collect();
    Dns { servers, timeout: raw.timeout.get() }
}
