//! Upstreams, raw to checked.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tollgate_filters::key_resolver::KeyResolver;

use super::liveness::{ejection, health_check};
use super::model::{Balance, Dns, DnsQuery, EndpointSource, ListedEndpoint, Records, Upstream};
use super::raw::{RawBalance, RawDns, RawDnsQuery, RawEndpoint, RawRecords, RawScheme, RawUpstream};
use super::spring;
use super::target::endpoint;
use crate::check::{Nodes, positive};
use crate::check_key_resolver::one_key_resolver;
use crate::de;
use crate::definition::Arg;
use crate::filters::Settings;
use crate::model::Scheme;
use crate::problem::Sink;
use crate::spot::{Spot, Whole};
use crate::yaml::{Kind, Node, Origin};

/// The upstreams of a file by name, as `lb://` looks them up; `None` stands for one with a problem that is told already.
pub(crate) type Named = BTreeMap<String, Option<Arc<Upstream>>>;

/// Every upstream of the file.
pub(crate) fn check(settings: &Settings<'_>, sink: &mut Sink) -> Named {
    let mut named = Named::new();
    for (name, raw) in &settings.raw.upstreams {
        let upstream = Reading { name, raw, settings }.upstream(sink);
        named.insert(name.clone(), upstream.map(Arc::new));
    }
    spring::add(&mut named, settings, sink);
    named
}

/// An upstream that is being read.
struct Reading<'r> {
    name: &'r str,
    raw: &'r Spot<RawUpstream>,
    settings: &'r Settings<'r>,
}

impl Reading<'_> {
    fn upstream(&self, sink: &mut Sink) -> Option<Upstream> {
        let raw = &self.raw.value;
        let endpoints = self.endpoints(sink);
        let balance = self.balance(sink);
        let health = match &raw.health {
            None => Some(None),
            Some(health) => health_check(health, sink),
        };
        let ejection = ejection(&raw.ejection, sink);
        Some(Upstream { name: self.name.into(), endpoints: endpoints?, balance: balance?, health: health?, ejection })
    }

    fn endpoints(&self, sink: &mut Sink) -> Option<EndpointSource> {
        match (&self.raw.value.endpoints, &self.raw.value.dns) {
            (Some(_), Some(dns)) => {
                sink.error(dns.origin.key(), format!("upstream `{}` has both `endpoints` and `dns`", self.name))
                    .help("keep one: a list, or a name whose addresses are the list");
                None
            }
            (Some(list), None) => {
                listed(&list.value, self.settings.nodes, list.origin, sink).map(EndpointSource::Listed)
            }
            (None, Some(dns)) => query(dns, sink).map(EndpointSource::Dns),
            (None, None) => {
                sink.error(self.raw.origin.key(), format!("upstream `{}` has no servers", self.name))
                    .help("`endpoints: [\"http://host:port\"]` lists them, `dns: {name: orders.internal}` finds them");
                None
            }
        }
    }

    fn balance(&self, sink: &mut Sink) -> Option<Balance> {
        let raw = &self.raw.value;
        let hash_by = raw.hash_by.and_then(|whole| self.settings.nodes.get(whole));
        let balance = match raw.balance.as_ref().map(|balance| balance.value) {
            None | Some(RawBalance::LeastRequest) => Balance::LeastRequest,
            Some(RawBalance::RoundRobin | RawBalance::Weighted) => Balance::RoundRobin,
            Some(RawBalance::Random) => Balance::Random,
            Some(RawBalance::ConsistentHash) => {
                let Some(node) = hash_by else {
                    let at = raw.balance.as_ref().map_or(self.raw.origin, |balance| balance.origin);
                    sink.error(at, "`consistent-hash` needs `hash-by`, which says whose requests stay together")
                        .help("`hash-by: ip`, `\"header:X-User\"`, `\"cookie:session\"`, or a list of such");
                    return None;
                };
                return resolver(node, self.settings, sink).map(Balance::ConsistentHash);
            }
        };
        if let Some(node) = hash_by {
            sink.mistake(node.origin.key(), "`hash-by` has no effect without `balance: consistent-hash`")
                .help("add `balance: consistent-hash`, or remove `hash-by`");
        }
        Some(balance)
    }
}

/// One key resolver, or several that count together.
fn resolver(node: &Node, settings: &Settings<'_>, sink: &mut Sink) -> Option<KeyResolver> {
    let parts: &[Node] = match &node.kind {
        Kind::Seq(items) => items,
        _ => std::slice::from_ref(node),
    };
    let read = |part: &Node, sink: &mut Sink| {
        let Some(value) = part.scalar().map(str::to_owned) else {
            sink.error(part.origin, format!("expected a key resolver, found {}", part.describe()))
                .help("write `ip`, `\"header:X-User\"`, or a list of such");
            return None;
        };
        one_key_resolver(&Arg { name: None, value, origin: part.origin }, &settings.limits, sink)
    };
    let resolvers: Option<Vec<_>> = parts.iter().map(|part| read(part, sink)).collect();
    resolvers.map(KeyResolver::composite)
}

fn listed(list: &[Whole], nodes: &Nodes<'_>, at: Origin, sink: &mut Sink) -> Option<Vec<ListedEndpoint>> {
    if list.is_empty() {
        sink.error(at, "`endpoints` is empty: nobody could answer").help("write `endpoints: [\"http://host:port\"]`");
        return None;
    }
    let mut endpoints: Vec<ListedEndpoint> = Vec::with_capacity(list.len());
    let mut whole = true;
    for node in list.iter().filter_map(|whole| nodes.get(*whole)) {
        let Some((read, at)) = one_endpoint(node, sink) else {
            whole = false;
            continue;
        };
        if endpoints.iter().any(|known| known.address == read.address) {
            sink.mistake(at, format!("`{}` stands in the list already", read.address))
                .help("`weight: 2` doubles its share");
            continue;
        }
        endpoints.push(read);
    }
    if whole && endpoints.iter().all(|endpoint| endpoint.weight == 0) {
        sink.error(at, "every endpoint has the weight 0: nobody could answer")
            .help("give one of them a weight above 0");
        return None;
    }
    whole.then_some(endpoints)
}

/// An endpoint and the place of its URI.
fn one_endpoint(node: &Node, sink: &mut Sink) -> Option<(ListedEndpoint, Origin)> {
    if let Some(text) = node.scalar() {
        let uri = Spot { value: text.to_owned(), origin: node.origin };
        return Some((ListedEndpoint { address: endpoint(&uri, sink)?, weight: 1, priority: 0 }, node.origin));
    }
    if !matches!(node.kind, Kind::Map(_)) {
        sink.error(node.origin, format!("expected an endpoint, found {}", node.describe()))
            .help("write `http://host:port`, or `{uri: \"http://host:port\", weight: 2}`");
        return None;
    }
    let (raw, unknown) = de::read::<RawEndpoint>(node, sink);
    unknown.iter().for_each(|unknown| de::report_unknown(unknown, sink));
    let Some(uri) = &raw.uri else {
        sink.error(node.origin, "an endpoint without `uri`").help("`uri: http://host:port` says where it is");
        return None;
    };
    let weight = match &raw.weight {
        Some(weight) if weight.value > MAX_WEIGHT => {
            sink.error(weight.origin, format!("`weight` is at most {MAX_WEIGHT}, found {}", weight.value))
                .help("only the proportion to the other weights counts");
            return None;
        }
        weight => weight.as_ref().map_or(1, |weight| weight.value),
    };
    Some((ListedEndpoint { address: endpoint(uri, sink)?, weight, priority: raw.priority.unwrap_or(0) }, uri.origin))
}

/// As SRV records have it (RFC 2782).
const MAX_WEIGHT: u32 = 65_535;

fn query(raw: &Spot<RawDnsQuery>, sink: &mut Sink) -> Option<DnsQuery> {
    let (at, raw) = (raw.origin, &raw.value);
    let Some(name) = &raw.name else {
        sink.error(at, "`dns` without `name`").help("`name: orders.internal` is what DNS is asked for");
        return None;
    };
    let host = name.value.trim().trim_end_matches('.');
    let fits = !host.is_empty()
        && host.len() <= 253
        && host.split('.').all(|label| {
            (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        });
    if !fits || host.parse::<IpAddr>().is_ok() {
        sink.error(name.origin, format!("`{}` is no name that DNS could be asked for", name.value))
            .help("write it like `orders.internal`; servers with addresses stand in `endpoints`");
        return None;
    }
    let scheme = match raw.scheme {
        None | Some(RawScheme::Http) => Scheme::Http,
        Some(RawScheme::Https) => Scheme::Https,
    };
    let port = match &raw.port {
        Some(port) if port.value == 0 => {
            sink.error(port.origin, "`port` must be from 1 to 65535");
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
                sink.mistake(port.origin.key(), "`port` has no effect: SRV records name ports themselves")
                    .help("remove it");
            }
            Records::Srv
        }
    };
    if host.starts_with('_') && records != Records::Srv {
        sink.warn(name.origin, format!("`{host}` looks like the name of SRV records, and is asked for addresses"))
            .help("`type: SRV` asks for them");
    }
    Some(DnsQuery { name: host.to_owned(), records, scheme, refresh: positive(raw.refresh, 30, sink) })
}

/// Who is asked for endpoints.
pub(crate) fn dns(raw: &RawDns, nodes: &Nodes<'_>, sink: &mut Sink) -> Dns {
    let parts: &[Node] = match raw.server.and_then(|whole| nodes.get(whole)) {
        None => &[],
        Some(Node { kind: Kind::Seq(items), .. }) => items,
        Some(one) => std::slice::from_ref(one),
    };
    let read = |part: &Node| {
        let text = part.scalar().unwrap_or_default().trim();
        let address = text.parse::<SocketAddr>().ok();
        let address = address.or_else(|| Some(SocketAddr::new(text.trim_matches(['[', ']']).parse().ok()?, 53)));
        if address.is_none() {
            sink.error(part.origin, format!("`dns.server` is an address, found {}", part.describe()))
                .help("write it like `10.0.0.2`, or `10.0.0.2:53`");
        }
        address
    };
    let servers = parts.iter().filter_map(read).collect();
    Dns { servers, timeout: raw.timeout.map_or(Duration::from_secs(2), |time| positive(Some(time), 2, sink)) }
}
