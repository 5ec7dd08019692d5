//! `upstreams.NAME.dns`, and `dns`: lookups of endpoints.

use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;

use crate::de::{Given, Or, PositiveTime, Ranged, Spanned, Word, read_by, secs, with_help};
use crate::diagnostics::{Diagnostics, Reported};
#[cfg(test)]
use crate::sections::StringOrList;
use crate::sections::upstreams::endpoints::Scheme;
use crate::yaml::Span;

/// DNS name that resolves to endpoints.
#[section(Clone, PartialEq, Eq)]
pub struct DnsQuery {
    /// Name, such as `orders.internal`, or `_http._tcp.orders.internal` for `SRV`.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    name: Given<DnsName>,
    /// Port of all endpoints; `SRV` records have their own ports. Default 80, 443 with `https`.
    port: Option<Spanned<Ranged<u16, 1, 65_535>>>,
    /// Scheme of the endpoints: `http` or `https`.
    pub scheme: Word<Scheme>,
    /// Type of the DNS records.
    #[serde(rename = "type")]
    pub records: Word<Records>,
    /// Longest interval between lookups; a shorter time to live of the records wins.
    pub refresh: Or<PositiveTime, { secs(30) }>,
}

/// Name to look up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct DnsName(String);

/// Types of DNS records.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema, serde::Serialize))]
pub enum Records {
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
#[section(Clone, PartialEq, Eq)]
pub struct Dns {
    /// Address of a DNS server, `10.0.0.2` or `10.0.0.2:53`, or a list of them. Default: the servers in `/etc/resolv.conf`.
    #[cfg_attr(test, schemars(with = "Option<StringOrList>"))]
    pub server: Vec<DnsServer>,
    /// Timeout per DNS server.
    pub timeout: Or<PositiveTime, { secs(2) }>,
}

/// A DNS server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DnsServer(pub SocketAddr);

read_by! {
    DnsName: |text| {
        let host = text.trim_end_matches('.');
        let fits = !host.is_empty()
            && host.len() <= 253
            && host.split('.').all(|label| {
                (1..=63).contains(&label.len())
                    && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
            });
        if !fits || host.parse::<IpAddr>().is_ok() {
            let help = "write it like `orders.internal`; list addresses under `endpoints`";
            return Err(with_help(&format!("`{text}` is not a valid DNS name"), help));
        }
        Ok(DnsName(host.to_owned()))
    };
    DnsServer: |text| {
        let with_default_port = || Some(SocketAddr::new(text.trim_matches(['[', ']']).parse().ok()?, 53));
        text.parse().ok().or_else(with_default_port).map(DnsServer).ok_or_else(|| {
            let message = format!("`dns.server` must be an address, found `{text}`");
            with_help(&message, "write it like `10.0.0.2`, or `10.0.0.2:53`")
        })
    };
}

impl DnsQuery {
    /// Checks the query, whose section is at `at`.
    ///
    /// # Errors
    /// It has no name, which is reported.
    pub(super) fn check(&self, at: Span, diagnostics: &mut Diagnostics) -> Result<(), Reported> {
        let Some(name) = self.name.checked()? else {
            return Err(diagnostics.error(at, "`dns` without `name`").reported_with("add `name: orders.internal`"));
        };
        if let (Records::Srv, Some(port)) = (self.records.0, &self.port) {
            diagnostics
                .mistake(port.span.key(), "`port` has no effect: SRV records have their own ports")
                .help("remove it");
        }
        let (name, at) = (&name.value.0, name.span);
        diagnostics.servers.add(name, self.port(), at);
        if name.starts_with('_') && self.records.0 != Records::Srv {
            diagnostics
                .warn(at, format!("`{name}` looks like a name of SRV records, but addresses are looked up"))
                .help("add `type: SRV`");
        }
        Ok(())
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.name.value().map_or("", |name| &name.0)
    }

    /// Returns the port of all endpoints, unless SRV records name it.
    pub fn port(&self) -> u16 {
        self.port.map_or(self.scheme.0.default_port(), |port| port.get())
    }
}
