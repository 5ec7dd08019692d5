//! `upstreams`: endpoints of `lb://NAME`, load balancing, health checks and ejection.

pub(crate) mod balance;
pub(crate) mod discovered;
pub(crate) mod dns;
pub(crate) mod ejection;
pub(crate) mod endpoints;
pub(crate) mod health;
pub(crate) mod named;
pub(crate) mod spring;
pub(crate) mod target;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::de::nodes::Nodes;
use crate::de::spanned::{NodeRef, Spanned};
use crate::diagnostics::Diagnostics;
use crate::key_resolvers::KeyResolvers;
#[cfg(test)]
use crate::sections::scalars::StringOrList;
use crate::sections::upstreams::balance::{Balance, RawBalance};
use crate::sections::upstreams::discovered::{Discovered, ServiceQuery};
use crate::sections::upstreams::dns::{DnsQuery, RawDnsQuery};
use crate::sections::upstreams::ejection::{Ejection, RawEjection};
use crate::sections::upstreams::endpoints::ListedEndpoint;
#[cfg(test)]
use crate::sections::upstreams::endpoints::RawEndpointEntry;
use crate::sections::upstreams::health::{HealthCheck, RawHealth};
pub(crate) use crate::sections::upstreams::named::Named;
use crate::sections::upstreams::spring::{RawDiscovery, RawLoadBalancer};

/// Upstream of `lb://NAME`: one or several equal servers.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawUpstream {
    /// Endpoints: `http://host:port`, or `uri` with `weight` and `priority`. Either these or `dns`.
    #[cfg_attr(test, schemars(with = "Vec<RawEndpointEntry>"))]
    endpoints: Option<Spanned<Vec<NodeRef>>>,
    /// DNS name that resolves to its endpoints.
    dns: Option<Spanned<RawDnsQuery>>,
    /// Name of the service in the registries (`consul`, `eureka`, `nacos`), which are used if there is neither `endpoints` nor `dns`. Default: the upstream's name.
    service: Option<Spanned<String>>,
    /// Load balancing. Default `least-request`, which spares slow endpoints without coordination of workers.
    balance: Option<Spanned<RawBalance>>,
    /// Key for `consistent-hash`: `ip`, `header:X-User`, `cookie:session`, any key resolver or a list of them.
    #[cfg_attr(test, schemars(with = "Option<StringOrList>"))]
    hash_by: Option<NodeRef>,
    /// Active health checks. Default: none.
    health: Option<Spanned<RawHealth>>,
    /// Ejection of failing endpoints.
    ejection: RawEjection,
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

/// Source of endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointSource {
    /// A list in the file.
    Listed(Vec<ListedEndpoint>),
    /// DNS.
    Dns(DnsQuery),
    /// The registries of the file.
    Registries(ServiceQuery),
}

/// Sections that define upstreams.
#[derive(Clone, Copy)]
pub(crate) struct UpstreamSections<'r> {
    pub(crate) upstreams: &'r BTreeMap<String, Spanned<RawUpstream>>,
    pub(crate) discovery: &'r RawDiscovery,
    pub(crate) loadbalancer: &'r RawLoadBalancer,
    /// True if the file has a registry.
    pub(crate) has_registry: bool,
}

/// Returns every upstream of the file.
pub(crate) fn check(
    sections: UpstreamSections<'_>,
    nodes: &Nodes<'_>,
    key_resolvers: &KeyResolvers<'_>,
    diagnostics: &mut Diagnostics,
) -> Named {
    let services = Discovered::check(sections.loadbalancer, diagnostics);
    let mut listed = BTreeMap::new();
    for (name, raw) in sections.upstreams {
        let discovered = sections.has_registry.then_some(&services);
        let upstream = upstream(name, raw, discovered, nodes, key_resolvers, diagnostics);
        listed.insert(name.clone(), upstream.map(Arc::new));
    }
    spring::add(&mut listed, sections.discovery, &services, diagnostics);
    Named::new(listed, sections.has_registry.then_some(services))
}

fn upstream(
    name: &str,
    raw: &Spanned<RawUpstream>,
    discovered: Option<&Discovered>,
    nodes: &Nodes<'_>,
    key_resolvers: &KeyResolvers<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Upstream> {
    let endpoints = endpoints(name, raw, discovered, nodes, diagnostics);
    let balance =
        balance::check((raw.value.balance.as_ref(), raw.value.hash_by), raw.span, nodes, key_resolvers, diagnostics);
    let raw = &raw.value;
    let health = match &raw.health {
        None => Some(None),
        Some(health) => health::check(health, diagnostics),
    };
    let ejection = ejection::check(&raw.ejection, diagnostics);
    Some(Upstream { name: name.into(), endpoints: endpoints?, balance: balance?, health: health?, ejection })
}

fn endpoints(
    name: &str,
    raw: &Spanned<RawUpstream>,
    discovered: Option<&Discovered>,
    nodes: &Nodes<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<EndpointSource> {
    let service = raw.value.service.as_ref();
    if let Some(service) = service.filter(|_| raw.value.endpoints.is_some() || raw.value.dns.is_some()) {
        diagnostics
            .error(service.span.key(), format!("upstream `{name}` has a `service` beside `endpoints` or `dns`"))
            .help("keep one of them");
        return None;
    }
    match (&raw.value.endpoints, &raw.value.dns) {
        (Some(endpoints), Some(dns)) => {
            diagnostics
                .error(dns.span.key(), format!("upstream `{name}` has both `endpoints` and `dns`"))
                .beside(", the other at", endpoints.span.key())
                .help("keep one of them");
            None
        }
        (Some(list), None) => endpoints::check(list, nodes, diagnostics).map(EndpointSource::Listed),
        (None, Some(dns)) => dns::query(dns, diagnostics).map(EndpointSource::Dns),
        (None, None) if let Some(discovered) = discovered => {
            let known = service.map_or(name, |service| service.value.trim());
            let at = service.map_or(raw.span.key(), |service| service.span);
            discovered.query(known, at, diagnostics).map(EndpointSource::Registries)
        }
        (None, None) => {
            diagnostics
                .error(raw.span.key(), format!("upstream `{name}` has no endpoints"))
                .help("add `endpoints: [\"http://host:port\"]`, `dns: {name: orders.internal}`, or a registry such as `consul`");
            None
        }
    }
}
