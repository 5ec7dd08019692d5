//! `upstreams`: endpoints of `lb://NAME`, load balancing, health checks and ejection.

pub(crate) mod balance;
pub(crate) mod discovered;
pub(crate) mod dns;
pub(crate) mod endpoints;
pub(crate) mod health;
pub(crate) mod spring;
pub(crate) mod target;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::de::{PositiveTime, Spanned, Subtree};
use crate::diagnostics::Diagnostics;
use crate::key_resolvers::KeyResolvers;
#[cfg(test)]
use crate::sections::StringOrList;
use crate::sections::upstreams::balance::{Balance, RawBalance};
use crate::sections::upstreams::discovered::{Discovered, ServiceQuery};
use crate::sections::upstreams::dns::DnsQuery;
#[cfg(test)]
use crate::sections::upstreams::endpoints::RawEndpointEntry;
use crate::sections::upstreams::endpoints::{EndpointEntry, ListedEndpoint};
use crate::sections::upstreams::health::{Ejection, HealthCheck};
use crate::sections::upstreams::spring::{RawDiscovery, RawLoadBalancer};
use crate::yaml::Span;

/// Upstream of `lb://NAME`: one or several equal servers.
#[section]
pub(crate) struct RawUpstream {
    /// Endpoints: `http://host:port`, or `uri` with `weight` and `priority`. Either these or `dns`.
    #[cfg_attr(test, schemars(with = "Vec<RawEndpointEntry>"))]
    endpoints: Option<Spanned<Vec<Spanned<EndpointEntry>>>>,
    /// DNS name that resolves to its endpoints.
    dns: Option<Spanned<DnsQuery>>,
    /// Name of the service in the registries (`consul`, `eureka`, `nacos`), which are used if there is neither `endpoints` nor `dns`. Default: the upstream's name.
    service: Option<Spanned<String>>,
    /// Load balancing. Default `least-request`, which spares slow endpoints without coordination of workers.
    balance: Option<Spanned<RawBalance>>,
    /// Key for `consistent-hash`: `ip`, `header:X-User`, `cookie:session`, any key resolver or a list of them.
    #[cfg_attr(test, schemars(with = "Option<StringOrList>"))]
    hash_by: Option<Subtree>,
    /// Time in which the share of an endpoint grows from a tenth to the whole: of one that joins others, or that is healthy again. Default: none, the whole at once.
    slow_start: Option<PositiveTime>,
    /// Active health checks. Default: none.
    health: Option<HealthCheck>,
    /// Ejection of failing endpoints.
    ejection: Ejection,
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
    /// Time in which the share of a new endpoint grows; `None`: it has all of it at once.
    pub slow_start: Option<Duration>,
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

/// Registries of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Registries {
    /// At least one.
    Named,
    /// None, though the file needs one, which is reported.
    Missing,
    /// None.
    #[default]
    None,
}

/// Returns every upstream of the file.
pub(crate) fn check(
    upstreams: &BTreeMap<String, Spanned<RawUpstream>>,
    discovery: &RawDiscovery,
    loadbalancer: &RawLoadBalancer,
    registries: Registries,
    key_resolvers: &KeyResolvers<'_>,
    diagnostics: &mut Diagnostics,
) -> UpstreamsByName {
    let services = Discovered::check(loadbalancer, diagnostics);
    let mut listed = BTreeMap::new();
    for (name, section) in upstreams {
        let discovered = (registries != Registries::None).then_some(&services);
        let upstream = upstream(name, section, discovered, key_resolvers, diagnostics);
        listed.insert(name.clone(), upstream.map(Arc::new));
    }
    spring::add(&mut listed, discovery, &services, diagnostics);
    UpstreamsByName::new(listed, registries, services)
}

fn upstream(
    name: &str,
    raw: &Spanned<RawUpstream>,
    discovered: Option<&Discovered>,
    key_resolvers: &KeyResolvers<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Upstream> {
    let endpoints = endpoints(name, raw, discovered, diagnostics);
    let balance =
        balance::check((raw.value.balance.as_ref(), raw.value.hash_by.as_ref()), raw.span, key_resolvers, diagnostics);
    Some(Upstream {
        name: name.into(),
        endpoints: endpoints?,
        balance: balance?,
        slow_start: raw.slow_start.map(PositiveTime::get),
        health: raw.health.clone().filter(|health| health.enabled.get()),
        ejection: Some(raw.ejection.clone()).filter(Ejection::is_enabled),
    })
}

fn endpoints(
    name: &str,
    raw: &Spanned<RawUpstream>,
    discovered: Option<&Discovered>,
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
        (Some(list), None) => endpoints::check(list, diagnostics).ok().map(EndpointSource::Listed),
        (None, Some(dns)) => {
            dns.check(dns.span, diagnostics).ok()?;
            Some(EndpointSource::Dns(dns.value.clone()))
        }
        (None, None) if let Some(discovered) = discovered => {
            let service_name = service.map_or(name, |service| service.value.trim());
            let at = service.map_or(raw.span.key(), |service| service.span);
            discovered.query(service_name, at, diagnostics).map(EndpointSource::Registries)
        }
        (None, None) => {
            diagnostics
                .error(raw.span.key(), format!("upstream `{name}` has no endpoints"))
                .help("add `endpoints: [\"http://host:port\"]`, `dns: {name: orders.internal}`, or a registry such as `consul`");
            None
        }
    }
}

/// Upstreams of a file, and those of the registries that its routes name.
#[derive(Debug, Default)]
pub(crate) struct UpstreamsByName {
    /// Upstreams of the file; `None` for one with errors, which are reported.
    listed: BTreeMap<String, Option<Arc<Upstream>>>,
    /// Names in `listed` by their lower-case form; of several, the first.
    by_lower_case: HashMap<String, String>,
    registries: Registries,
    /// Settings of services in registries.
    services: Discovered,
    /// Services that routes name.
    discovered: RefCell<BTreeMap<String, Arc<Upstream>>>,
}

impl UpstreamsByName {
    pub(super) fn new(
        listed: BTreeMap<String, Option<Arc<Upstream>>>,
        registries: Registries,
        services: Discovered,
    ) -> Self {
        let mut by_lower_case = HashMap::new();
        for name in listed.keys() {
            by_lower_case.entry(name.to_ascii_lowercase()).or_insert_with(|| name.clone());
        }
        Self { listed, by_lower_case, registries, services, discovered: RefCell::default() }
    }

    /// Returns the upstream of the file with that name, in any case.
    pub(super) fn get(&self, name: &str) -> Option<&Option<Arc<Upstream>>> {
        let alike = || self.listed.get(self.by_lower_case.get(&name.to_ascii_lowercase())?);
        self.listed.get(name).or_else(alike)
    }

    /// Returns the names of the upstreams of the file.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.listed.keys().map(String::as_str)
    }

    /// Returns the registries that a name may come from.
    pub(super) fn registries(&self) -> Registries {
        self.registries
    }

    /// Returns the upstream of the service `name` in a registry: one without endpoints if the file names no registry. Reports
    /// a name that no registry can have.
    pub(super) fn discover(&self, name: &str, at: Span, diagnostics: &mut Diagnostics) -> Option<Arc<Upstream>> {
        let mut discovered = self.discovered.borrow_mut();
        if let Some(known) = discovered.get(name) {
            return Some(Arc::clone(known));
        }
        let mut upstream = self.services.upstream(name, at, diagnostics)?;
        if self.registries != Registries::Named {
            upstream.endpoints = EndpointSource::Listed(Vec::new());
        }
        let upstream = Arc::new(upstream);
        discovered.insert(name.to_owned(), Arc::clone(&upstream));
        Some(upstream)
    }

    /// Returns all upstreams without errors.
    pub(crate) fn into_all(self) -> Vec<Arc<Upstream>> {
        self.listed.into_values().flatten().chain(self.discovered.into_inner().into_values()).collect()
    }
}
