//! Checks of Spring Boot's endpoints.

use crate::de::{Spanned, canonical};
use crate::diagnostics::Diagnostics;
use crate::predicates::context::is_plain_path;
use crate::sections::management::keys::{RawAccess, RawEndpoint, RawManagement};
use crate::sections::management::model::{Actuator, TrafficEndpoints};

/// Spring Boot's and Spring Cloud's endpoints, which `include: "*"` exposes.
const KNOWN_ENDPOINTS: [&str; 34] = [
    "auditevents",
    "beans",
    "busenv",
    "busrefresh",
    "caches",
    "circuitbreakers",
    "conditions",
    "configprops",
    "env",
    "features",
    "flyway",
    "gateway",
    "health",
    "heapdump",
    "httpexchanges",
    "httptrace",
    "info",
    "integrationgraph",
    "liquibase",
    "logfile",
    "loggers",
    "mappings",
    "metrics",
    "nacosdiscovery",
    "prometheus",
    "quartz",
    "refresh",
    "sbom",
    "scheduledtasks",
    "serviceregistry",
    "sessions",
    "shutdown",
    "startup",
    "threaddump",
];

/// Endpoints that exist here.
const SERVED: [&str; 3] = ["health", "prometheus", "gateway"];

/// Exposure of the endpoints below `base`, and access to them.
struct Endpoints<'r> {
    raw: &'r RawManagement,
    base: String,
    /// Canonical names of the exposed endpoints, unless they are excluded; `*` for all.
    included: Vec<String>,
}

impl<'r> Endpoints<'r> {
    /// Returns the endpoints below `prefix`; without a list, `default` is exposed.
    fn new(raw: &'r RawManagement, prefix: &str, default: &str) -> Self {
        let web = &raw.endpoints.web;
        let included = web.exposure.include.as_ref().map(|names| names.iter().map(|name| canonical(name.trim())));
        Self {
            raw,
            base: join(prefix, text(web.base_path.as_ref()).unwrap_or("/actuator")),
            included: included.map_or_else(|| vec![default.to_owned()], Iterator::collect),
        }
    }

    fn is_exposed(&self, id: &str) -> bool {
        let excluded = &self.raw.endpoints.web.exposure.exclude;
        let is_included = self.included.iter().any(|name| name == "*" || name == id);
        is_included && !excluded.iter().any(|name| name.trim() == "*" || canonical(name.trim()) == id)
    }

    /// Returns the access to the endpoint `id`, by default `default`.
    fn access(&self, id: &str, settings: &RawEndpoint, default: RawAccess) -> RawAccess {
        if !self.is_exposed(id) {
            return RawAccess::None;
        }
        let switched = |on: bool| if on { RawAccess::Unrestricted } else { RawAccess::None };
        let all = &self.raw.endpoints;
        let endpoint_access = settings.access.or(settings.enabled.map(switched));
        let general_access = all.access.default.or(all.enabled_by_default.map(switched));
        let most = all.access.max_permitted.unwrap_or(RawAccess::Unrestricted);
        endpoint_access.or(general_access).unwrap_or(default).min(most)
    }

    fn path(&self, id: &str) -> String {
        let mapped = self.raw.endpoints.web.path_mapping.iter().find(|(name, _)| canonical(name) == id);
        join(&self.base, mapped.map_or(id, |(_, path)| path.as_str()))
    }

    /// Returns the endpoints that can be read, with the default access to `gateway`.
    fn actuator(&self, gateway_default: RawAccess) -> Actuator {
        let endpoint = &self.raw.endpoint;
        let path = |id: &str, access: RawAccess| (access > RawAccess::None).then(|| self.path(id));
        let hides = |shown: &Option<String>| shown.as_deref().is_some_and(|shown| canonical(shown.trim()) == "never");
        let gateway = self.access("gateway", &endpoint.gateway, gateway_default);
        Actuator {
            health: path("health", self.access("health", &endpoint.health, RawAccess::Unrestricted)),
            prometheus: path("prometheus", self.access("prometheus", &endpoint.prometheus, RawAccess::Unrestricted)),
            gateway: path("gateway", gateway),
            may_refresh: gateway == RawAccess::Unrestricted,
            shows_components: !hides(&endpoint.health.show_components) && !hides(&endpoint.health.show_details),
            components_are_open: always_shows(&endpoint.health),
            has_probes: endpoint.health.probes.enabled.unwrap_or(true),
            base: self.base.clone(),
        }
    }
}

/// Returns the endpoints that `raw` enables. All are enabled by default, since they have a port of their own.
pub(crate) fn check(raw: &RawManagement, diagnostics: &mut Diagnostics) -> Actuator {
    for (id, path) in &raw.endpoints.web.path_mapping {
        if !SERVED.contains(&canonical(id).as_str()) {
            diagnostics
                .note(path.span.key(), format!("endpoint `{id}` does not exist here"))
                .help("endpoints: health, prometheus, gateway");
        }
    }
    // Spring adds the slash to that of the server only.
    if let Some(path) = raw.endpoints.web.base_path.as_ref()
        && !path.value.trim().is_empty()
        && !path.value.starts_with('/')
    {
        let message = "`management.endpoints.web.base-path` must begin with `/`, or be empty";
        diagnostics.error(path.span, message).help(format!("write `/{}`", path.value.trim()));
    }
    let bases = [&raw.server.base_path, &raw.endpoints.web.base_path].into_iter().flatten();
    bases.chain(raw.endpoints.web.path_mapping.values()).for_each(|path| report_path(path, diagnostics));
    let endpoints = Endpoints::new(raw, text(raw.server.base_path.as_ref()).unwrap_or(""), "*");
    report_absent(&endpoints, diagnostics);
    endpoints.actuator(RawAccess::Unrestricted)
}

fn text(path: Option<&Spanned<String>>) -> Option<&str> {
    path.map(|path| path.value.as_str())
}

/// Reports a part of a path that no request has. Slashes at its ends, and several of them, mean nothing.
fn report_path(path: &Spanned<String>, diagnostics: &mut Diagnostics) {
    let joined = join("", &path.value);
    if !joined.is_empty() && !is_plain_path(&joined) {
        diagnostics
            .error(path.span, format!("`{}` is no path of a request: it must be plain text", path.value))
            .help("write a path such as `/ops`");
    }
}

/// Notes once which of the exposed endpoints do not exist here.
fn report_absent(endpoints: &Endpoints<'_>, diagnostics: &mut Diagnostics) {
    let Some(include) = &endpoints.raw.endpoints.web.exposure.include else { return };
    let mut absent: Vec<String> = Vec::new();
    for id in endpoints.included.iter().map(String::as_str) {
        let is_absent = KNOWN_ENDPOINTS.contains(&id) && !SERVED.contains(&id) && endpoints.is_exposed(id);
        if is_absent && !absent.contains(&format!("`{id}`")) {
            absent.push(format!("`{id}`"));
        }
    }
    if !absent.is_empty() {
        let are = if absent.len() == 1 { "is an endpoint that does" } else { "are endpoints that do" };
        diagnostics
            .note(include.span, format!("{} {are} not exist here: requests get 404", absent.join(", ")))
            .help("`prometheus` has all metrics; the page of the admin port and its `/api` show the rest");
    }
}

/// Endpoints that the port for traffic serves, below `base_path`: as Spring Boot exposes them, and only for reads.
///
/// `shares_port` is true if the management port is the one for traffic.
pub(crate) fn on_traffic(raw: &RawManagement, shares_port: bool, base_path: &str) -> Option<TrafficEndpoints> {
    let health = &raw.endpoint.health;
    let has_probe_paths = health.probes.add_additional_paths.is_some_and(|paths| paths.value);
    if !shares_port {
        let endpoints = TrafficEndpoints { has_probe_paths, ..TrafficEndpoints::default() };
        return has_probe_paths.then_some(endpoints);
    }
    let endpoints = Endpoints::new(raw, base_path, "health");
    // Spring Cloud Gateway 4.1 and later show routes only if they are named; `*` does not include them.
    let is_named = endpoints.included.iter().any(|name| name == "gateway");
    let routes = if is_named { RawAccess::ReadOnly } else { RawAccess::None };
    let shows_components = always_shows(health);
    let actuator =
        Actuator { may_refresh: false, shows_components, components_are_open: true, ..endpoints.actuator(routes) };
    let named_endpoints = endpoints.included.iter().map(String::as_str).filter(|name| *name != "*");
    let has_all = endpoints.included.iter().any(|name| name == "*");
    let all_if_wildcard = KNOWN_ENDPOINTS.into_iter().filter(|_| has_all);
    let exposed = named_endpoints.chain(all_if_wildcard).filter(|id| endpoints.is_exposed(id));
    let mut owned: Vec<String> = exposed.map(|id| endpoints.path(id)).collect();
    owned.sort_unstable();
    owned.dedup();
    Some(TrafficEndpoints { actuator, owned, has_probe_paths, ..TrafficEndpoints::default() })
}

/// Returns true if the components of health are shown to everyone.
fn always_shows(health: &RawEndpoint) -> bool {
    let shows = |shown: &Option<String>| shown.as_deref().is_some_and(|shown| canonical(shown.trim()) == "always");
    shows(&health.show_components) || (health.show_components.is_none() && shows(&health.show_details))
}

/// Joins two paths without a slash at the end.
fn join(base: &str, path: &str) -> String {
    let mut joined = String::new();
    for step in base.split('/').chain(path.split('/')).map(str::trim).filter(|step| !step.is_empty()) {
        joined.push('/');
        joined.push_str(step);
    }
    joined
}
