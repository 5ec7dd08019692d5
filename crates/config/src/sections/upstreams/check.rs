//! Checks of `upstreams` and `dns`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::de;
use crate::de::nodes::Nodes;
use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::positive;
use crate::diagnostics::Diagnostics;
use crate::key_resolvers::KeyResolvers;
use crate::sections::upstreams::liveness::{ejection, health_check};
use crate::sections::upstreams::model::{
    Balance, Dns, DnsQuery, EndpointSource, ListedEndpoint, Named, Records, Scheme, Upstream,
};
use crate::sections::upstreams::raw::{
    RawBalance, RawDiscovery, RawDns, RawDnsQuery, RawEndpoint, RawLoadBalancer, RawRecords, RawScheme, RawUpstream,
};
use crate::sections::upstreams::spring;
use crate::sections::upstreams::target::endpoint;
use crate::yaml::{Kind, Node, Span};

/// Sections that define upstreams.
#[derive(Clone, Copy)]
pub(crate) struct UpstreamSections<'r> {
    pub(crate) upstreams: &'r BTreeMap<String, Spanned<RawUpstream>>,
    pub(crate) discovery: &'r RawDiscovery,
    pub(crate) loadbalancer: &'r RawLoadBalancer,
}

/// Every upstream of the file.
pub(crate) fn check(
    sections: UpstreamSections<'_>,
    nodes: &Nodes<'_>,
    key_resolvers: &KeyResolvers<'_>,
    diagnostics: &mut Diagnostics,
) -> Named {
    let mut named = Named::new();
    for (name, raw) in sections.upstreams {
        let upstream = Reading { name, raw, nodes, key_resolvers }.upstream(diagnostics);
        named.insert(name.clone(), upstream.map(Arc::new));
    }
    spring::add(&mut named, sections.discovery, sections.loadbalancer, diagnostics);
    named
}

/// An upstream that is being read.
struct Reading<'r> {
    name: &'r str,
    raw: &'r Spanned<RawUpstream>,
    nodes: &'r Nodes<'r>,
    key_resolvers: &'r KeyResolvers<'r>,
}

impl Reading<'_> {
    fn upstream(&self, diagnostics: &mut Diagnostics) -> Option<Upstream> {
        let raw = &self.raw.value;
        let endpoints = self.endpoints(diagnostics);
        let balance = self.balance(diagnostics);
        let health = match &raw.health {
            None => Some(None),
            Some(health) => health_check(health, diagnostics),
        };
        let ejection = ejection(&raw.ejection, diagnostics);
        Some(Upstream { name: self.name.into(), endpoints: endpoints?, balance: balance?, health: health?, ejection })
    }

    fn endpoints(&self, diagnostics: &mut Diagnostics) -> Option<EndpointSource> {
        match (&self.raw.value.endpoints, &self.raw.value.dns) {
            (Some(_), Some(dns)) => {
                diagnostics
                    .error(dns.span.key(), format!("upstream `{}` has both `endpoints` and `dns`", self.name))
                    .help("keep one of them");
                None
            }
            (Some(list), None) => listed(&list.value, self.nodes, list.span, diagnostics).map(EndpointSource::Listed),
            (None, Some(dns)) => query(dns, diagnostics).map(EndpointSource::Dns),
            (None, None) => {
                diagnostics
                    .error(self.raw.span.key(), format!("upstream `{}` has no endpoints", self.name))
                    .help("add `endpoints: [\"http://host:port\"]` or `dns: {name: orders.internal}`");
                None
            }
        }
    }

    fn balance(&self, diagnostics: &mut Diagnostics) -> Option<Balance> {
        let raw = &self.raw.value;
        let hash_by = raw.hash_by.and_then(|node| self.nodes.get(node));
        let balance = match raw.balance.as_ref().map(|balance| balance.value) {
            None | Some(RawBalance::LeastRequest) => Balance::LeastRequest,
            Some(RawBalance::RoundRobin | RawBalance::Weighted) => Balance::RoundRobin,
            Some(RawBalance::Random) => Balance::Random,
            Some(RawBalance::ConsistentHash) => {
                let Some(node) = hash_by else {
                    let at = raw.balance.as_ref().map_or(self.raw.span, |balance| balance.span);
                    diagnostics
                        .error(at, "`consistent-hash` needs `hash-by`, the key that is hashed")
                        .help("`hash-by: ip`, `\"header:X-User\"`, `\"cookie:session\"`, or a list of these");
                    return None;
                };
                return self.key_resolvers.resolve_node(node, diagnostics).map(Balance::ConsistentHash);
            }
        };
        if let Some(node) = hash_by {
            diagnostics
                .mistake(node.span.key(), "`hash-by` has no effect without `balance: consistent-hash`")
                .help("add `balance: consistent-hash`, or remove `hash-by`");
        }
        Some(balance)
    }
}

fn listed(list: &[NodeRef], nodes: &Nodes<'_>, at: Span, diagnostics: &mut Diagnostics) -> Option<Vec<ListedEndpoint>> {
    if list.is_empty() {
        diagnostics.error(at, "`endpoints` is empty").help("write `endpoints: [\"http://host:port\"]`");
        return None;
    }
    let mut endpoints: Vec<ListedEndpoint> = Vec::with_capacity(list.len());
    let mut is_complete = true;
    for node in list.iter().filter_map(|node| nodes.get(*node)) {
        let Some((read, at)) = one_endpoint(node, diagnostics) else {
            is_complete = false;
            continue;
        };
        if endpoints.iter().any(|known| known.address == read.address) {
            diagnostics
                .mistake(at, format!("duplicate endpoint `{}`", read.address))
                .help("remove it; `weight: 2` doubles its share");
            continue;
        }
        endpoints.push(read);
    }
    if is_complete && endpoints.iter().all(|endpoint| endpoint.weight == 0) {
        diagnostics.error(at, "every endpoint has weight 0").help("give one of them a weight above 0");
        return None;
    }
    is_complete.then_some(endpoints)
}

/// Reads an endpoint, and returns it with the place of its URI.
fn one_endpoint(node: &Node, diagnostics: &mut Diagnostics) -> Option<(ListedEndpoint, Span)> {
    if let Some(text) = node.scalar() {
        let uri = Spanned { value: text.to_owned(), span: node.span };
        return Some((ListedEndpoint { address: endpoint(&uri, diagnostics)?, weight: 1, priority: 0 }, node.span));
    }
    if !matches!(node.kind, Kind::Map(_)) {
        diagnostics
            .error(node.span, format!("expected an endpoint, found {}", node.describe()))
            .help("write `http://host:port`, or `{uri: \"http://host:port\", weight: 2}`");
        return None;
    }
    let (raw, unknown) = de::read::<RawEndpoint>(node, diagnostics);
    unknown.iter().for_each(|unknown| de::report_unknown(unknown, diagnostics));
    let Some(uri) = &raw.uri else {
        diagnostics.error(node.span, "endpoint without `uri`").help("add `uri: http://host:port`");
        return None;
    };
    let weight = match &raw.weight {
        Some(weight) if weight.value > MAX_WEIGHT => {
            diagnostics
                .error(weight.span, format!("`weight` must be at most {MAX_WEIGHT}, found {}", weight.value))
                .help("only the proportion to the other weights counts");
            return None;
        }
        weight => weight.as_ref().map_or(1, |weight| weight.value),
    };
    Some((
        ListedEndpoint { address: endpoint(uri, diagnostics)?, weight, priority: raw.priority.unwrap_or(0) },
        uri.span,
    ))
}

/// Largest weight of SRV records (RFC 2782).
const MAX_WEIGHT: u32 = 65_535;

fn query(raw: &Spanned<RawDnsQuery>, diagnostics: &mut Diagnostics) -> Option<DnsQuery> {
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
    let scheme = match raw.scheme {
        None | Some(RawScheme::Http) => Scheme::Http,
        Some(RawScheme::Https) => Scheme::Https,
    };
    let port = match &raw.port {
        Some(port) if port.value == 0 => {
            diagnostics.error(port.span, "`port` must be from 1 to 65535");
            return None;
        }
        port => port.as_ref().map_or(scheme.default_port(), |port| port.value),
    };
    let records = match raw.records.as_ref().map(|records| records.value) {
        None | Some(RawRecords::A) => Records::A(port),
        Some(RawRecords::Aaaa) => Records::Aaaa(port),
        Some(RawRecords::Any) => Records::Any(port),
        Some(RawRecords::Srv) => {
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
    Some(DnsQuery { name: host.to_owned(), records, scheme, refresh: positive(raw.refresh, 30, diagnostics) })
}

/// DNS servers.
pub(crate) fn dns(raw: &RawDns, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> Dns {
    let parts: &[Node] = match raw.server.and_then(|node| nodes.get(node)) {
        None => &[],
        Some(Node { kind: Kind::Seq(items), .. }) => items,
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
    Dns { servers, timeout: raw.timeout.map_or(Duration::from_secs(2), |time| positive(Some(time), 2, diagnostics)) }
}
