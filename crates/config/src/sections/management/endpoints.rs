//! Checks of Spring Boot's endpoints.

use crate::de::canonical;
use crate::diagnostics::Diagnostics;
use crate::sections::management::model::{Actuator, TrafficEndpoints};
use crate::sections::management::raw::{RawAccess, RawEndpoint, RawManagement};

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

/// Returns the endpoints that `raw` enables. All are enabled by default, since they have a port of their own.
pub(crate) fn check(raw: &RawManagement, diagnostics: &mut Diagnostics) -> Actuator {
    let web = &raw.endpoints.web;
    let base = join(raw.server.base_path.as_deref().unwrap_or(""), web.base_path.as_deref().unwrap_or("/actuator"));
    for (id, path) in &web.path_mapping {
        if !SERVED.contains(&canonical(id).as_str()) {
            diagnostics
                .note(path.span.key(), format!("endpoint `{id}` does not exist here"))
                .help("endpoints: health, prometheus, gateway");
        }
    }
    report_absent(raw, diagnostics);
    let listed = |names: &[String], id: &str| names.iter().any(|name| name.trim() == "*" || canonical(name) == id);
    let most = raw.endpoints.access.max_permitted.unwrap_or(RawAccess::Unrestricted);
    let access = |id: &str, settings: &RawEndpoint| {
        let default = raw.endpoints.access.default.or(raw.endpoints.enabled_by_default.map(of_switch));
        let own = settings.access.or(settings.enabled.map(of_switch));
        let is_exposed = web.exposure.include.as_ref().is_none_or(|names| listed(&names.value, id))
            && !listed(&web.exposure.exclude, id);
        if is_exposed { own.or(default).unwrap_or(RawAccess::Unrestricted).min(most) } else { RawAccess::None }
    };
    let path = |id: &str, access: RawAccess| {
        let mapped =
            web.path_mapping.iter().find(|(name, _)| canonical(name) == id).map(|(_, path)| path.value.as_str());
        (access > RawAccess::None).then(|| join(&base, mapped.unwrap_or(id)))
    };
    let health = &raw.endpoint.health;
    let hides = |shown: &Option<String>| shown.as_deref().is_some_and(|shown| canonical(shown.trim()) == "never");
    let gateway = access("gateway", &raw.endpoint.gateway);
    Actuator {
        health: path("health", access("health", health)),
        prometheus: path("prometheus", access("prometheus", &raw.endpoint.prometheus)),
        gateway: path("gateway", gateway),
        may_refresh: gateway == RawAccess::Unrestricted,
        shows_components: !hides(&health.show_components) && !hides(&health.show_details),
        components_are_open: always_shows(health),
        has_probes: health.probes.enabled.unwrap_or(true),
        base,
    }
}

/// Notes once which of the exposed endpoints do not exist here.
fn report_absent(raw: &RawManagement, diagnostics: &mut Diagnostics) {
    let Some(included) = &raw.endpoints.web.exposure.include else { return };
    let excluded = &raw.endpoints.web.exposure.exclude;
    let is_excluded = |id: &str| excluded.iter().any(|name| name.trim() == "*" || canonical(name.trim()) == id);
    let mut absent: Vec<String> = Vec::new();
    for id in included.value.iter().map(|name| canonical(name.trim())) {
        let is_absent = id != "*" && !SERVED.contains(&id.as_str()) && !is_excluded(&id);
        if is_absent && KNOWN_ENDPOINTS.contains(&id.as_str()) && !absent.contains(&format!("`{id}`")) {
            absent.push(format!("`{id}`"));
        }
    }
    if !absent.is_empty() {
        let are = if absent.len() == 1 { "is an endpoint that does" } else { "are endpoints that do" };
        diagnostics
            .note(included.span, format!("{} {are} not exist here: requests get 404", absent.join(", ")))
            .help("`prometheus` has all metrics; the page of the admin port and its `/api` show the rest");
    }
}

/// Endpoints that the port for traffic serves, below `base_path`: as Spring Boot exposes them, and only for reads.
///
/// `shares_port` is true if the management port is the one for traffic.
pub(crate) fn on_traffic(raw: &RawManagement, shares_port: bool, base_path: &str) -> Option<TrafficEndpoints> {
    let health = &raw.endpoint.health;
    let has_probe_paths = health.probes.add_additional_paths.is_some_and(|asked| asked.value);
    if !shares_port {
        let endpoints = TrafficEndpoints { has_probe_paths, ..TrafficEndpoints::default() };
        return has_probe_paths.then_some(endpoints);
    }
    let web = &raw.endpoints.web;
    let base = join(base_path, web.base_path.as_deref().unwrap_or("/actuator"));
    let default = [String::from("health")];
    let included = web.exposure.include.as_ref().map_or(&default[..], |names| &names.value);
    let is_named = |names: &[String], id: &str| names.iter().any(|name| canonical(name.trim()) == id);
    let has_all = |names: &[String]| names.iter().any(|name| name.trim() == "*");
    let is_exposed = |id: &str| {
        (is_named(included, id) || has_all(included))
            && !(is_named(&web.exposure.exclude, id) || has_all(&web.exposure.exclude))
    };
    let all = raw.endpoints.access.default.or(raw.endpoints.enabled_by_default.map(of_switch));
    let most = raw.endpoints.access.max_permitted.unwrap_or(RawAccess::Unrestricted);
    let is_readable = |settings: &RawEndpoint, default: RawAccess| {
        let own = settings.access.or(settings.enabled.map(of_switch));
        own.or(all).unwrap_or(default).min(most) > RawAccess::None
    };
    let path = |id: &str| {
        let mapped = web.path_mapping.iter().find(|(name, _)| canonical(name) == id);
        join(&base, mapped.map_or(id, |(_, path)| path.value.as_str()))
    };
    let served = |id: &str, settings: &RawEndpoint, default: RawAccess| {
        (is_exposed(id) && is_readable(settings, default)).then(|| path(id))
    };
    // Spring Cloud Gateway 4.1 and later show routes only if they are named; `*` does not include them.
    let routes = if is_named(included, "gateway") { RawAccess::ReadOnly } else { RawAccess::None };
    let actuator = Actuator {
        health: served("health", health, RawAccess::ReadOnly),
        prometheus: served("prometheus", &raw.endpoint.prometheus, RawAccess::ReadOnly),
        gateway: served("gateway", &raw.endpoint.gateway, routes),
        may_refresh: false,
        shows_components: always_shows(health),
        components_are_open: true,
        has_probes: health.probes.enabled.unwrap_or(true),
        base: base.clone(),
    };
    let named = included.iter().map(|name| canonical(name.trim())).filter(|name| name != "*");
    let known = KNOWN_ENDPOINTS.iter().map(|&name| name.to_owned()).filter(|_| has_all(included));
    let mut owned: Vec<String> = named.chain(known).filter(|id| is_exposed(id)).map(|id| path(&id)).collect();
    owned.sort_unstable();
    owned.dedup();
    Some(TrafficEndpoints { actuator, owned, has_probe_paths, ..TrafficEndpoints::default() })
}

/// Returns true if the components of health are shown to everyone.
fn always_shows(health: &RawEndpoint) -> bool {
    let shows = |shown: &Option<String>| shown.as_deref().is_some_and(|shown| canonical(shown.trim()) == "always");
    shows(&health.show_components) || (health.show_components.is_none() && shows(&health.show_details))
}

fn of_switch(on: bool) -> RawAccess {
    if on { RawAccess::Unrestricted } else { RawAccess::None }
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
