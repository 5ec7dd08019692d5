//! Services of registries: settings of their load balancing.

use std::collections::{BTreeMap, BTreeSet};

use crate::de::OptionalText;
use crate::diagnostics::Diagnostics;
use crate::sections::upstreams::balance::Balance;
use crate::sections::upstreams::health::{Ejection, HealthCheck};
use crate::sections::upstreams::spring::instances::{Lists, health_check, report_unused_checks};
use crate::sections::upstreams::spring::{RawLoadBalancer, ZoneScope};
use crate::sections::upstreams::{EndpointSource, Upstream};
use crate::yaml::Span;

/// Lookup of a service in the registries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceQuery {
    /// Name of the service.
    pub service: String,
    /// True if the metadata `weight` of an instance is its weight.
    pub weighted: bool,
    /// Preferred zone.
    pub zone: Option<String>,
}

/// Settings of services that are found in registries.
#[derive(Debug, Default)]
pub(crate) struct Discovered {
    general: ServiceSettings,
    by_name: BTreeMap<String, ServiceSettings>,
    zone: OptionalText,
    zone_scope: ZoneScope,
}

/// Settings of one service.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServiceSettings {
    pub(super) lists: Lists,
    pub(super) health: Option<HealthCheck>,
}

impl Discovered {
    /// Checks `loadbalancer`. Reports errors.
    pub(super) fn check(raw: &RawLoadBalancer, diagnostics: &mut Diagnostics) -> Self {
        let lists = Lists::read(raw.configurations.as_ref(), diagnostics);
        let clients: BTreeMap<&str, _> = raw
            .clients
            .iter()
            .map(|(name, client)| (name.as_str(), (Lists::read(client.configurations.as_ref(), diagnostics), client)))
            .collect();
        report_unused_checks(raw.health_check.as_ref(), lists.checked, diagnostics);
        let with_path = raw.health_check.iter().flat_map(|checks| checks.value.path.keys().map(String::as_str));
        let names: BTreeSet<&str> = clients.keys().copied().chain(with_path).collect();
        let mut settings = |name: &str| {
            let client = clients.get(name);
            let with_lists = client.filter(|(_, client)| client.configurations.is_some());
            let lists = with_lists.map_or(lists, |(lists, _)| *lists);
            let checks = client.and_then(|(_, client)| client.health_check.as_ref()).or(raw.health_check.as_ref());
            let health = if lists.checked { health_check(name, checks, diagnostics) } else { None };
            ServiceSettings { lists, health }
        };
        let by_name = names.into_iter().map(|name| (name.to_owned(), settings(name))).collect();
        let general = settings("default");
        Self { general, by_name, zone: raw.zone.clone(), zone_scope: raw.zone_scope.0 }
    }

    /// Returns the settings of the service `name`.
    pub(super) fn settings(&self, name: &str) -> &ServiceSettings {
        let service = self.by_name.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        service.map_or(&self.general, |(_, settings)| settings)
    }

    /// Returns the zone that a service prefers.
    pub(super) fn zone(&self, settings: &ServiceSettings) -> Option<&str> {
        self.zone.get().filter(|_| settings.lists.zoned || self.zone_scope == ZoneScope::All)
    }

    /// Returns the lookup of the service `name`. Reports a name that no registry can have.
    pub(super) fn query(&self, name: &str, at: Span, diagnostics: &mut Diagnostics) -> Option<ServiceQuery> {
        let fits = |c: char| c.is_alphanumeric() || "-_.@:".contains(c);
        if name.is_empty() || name.len() > 256 || !name.chars().all(fits) {
            diagnostics
                .error(at, format!("`{name}` is not the name of a service"))
                .help("it has letters, digits, `-`, `_` and `.`, as in `lb://order-service`");
            return None;
        }
        let settings = self.settings(name);
        let zone = self.zone(settings).map(str::to_owned);
        Some(ServiceQuery { service: name.to_owned(), weighted: settings.lists.weighted, zone })
    }

    /// Returns the upstream of the service `name`, with Spring's defaults.
    pub(super) fn upstream(&self, name: &str, at: Span, diagnostics: &mut Diagnostics) -> Option<Upstream> {
        let query = self.query(name, at, diagnostics)?;
        Some(Upstream {
            name: name.into(),
            endpoints: EndpointSource::Registries(query),
            balance: Balance::RoundRobin,
            health: self.settings(name).health.clone(),
            slow_start: None,
            ejection: Some(Ejection::default()),
        })
    }
}
