//! Checks of Spring Boot's endpoints.

use crate::de::canonical;
use crate::diagnostics::Diagnostics;
use crate::sections::management::model::Actuator;
use crate::sections::management::raw::{RawAccess, RawEndpoint, RawManagement};

/// The endpoints that `raw` enables. All are enabled by default, since they have a port of their own.
pub(crate) fn check(raw: &RawManagement, diagnostics: &mut Diagnostics) -> Actuator {
    let web = &raw.endpoints.web;
    let base = join(raw.server.base_path.as_deref().unwrap_or(""), web.base_path.as_deref().unwrap_or("/actuator"));
    for (id, path) in &web.path_mapping {
        if !["health", "prometheus", "gateway"].contains(&canonical(id).as_str()) {
            diagnostics
                .note(path.span.key(), format!("endpoint `{id}` does not exist here"))
                .help("endpoints: health, prometheus, gateway");
        }
    }
    let listed = |names: &[String], id: &str| names.iter().any(|name| name.trim() == "*" || canonical(name) == id);
    let most = raw.endpoints.access.max_permitted.unwrap_or(RawAccess::Unrestricted);
    let access = |id: &str, settings: &RawEndpoint| {
        let of_switch = |on: bool| if on { RawAccess::Unrestricted } else { RawAccess::None };
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
    if let Some(asked) = health.probes.add_additional_paths.filter(|asked| asked.value) {
        diagnostics
            .note(asked.span.key(), "`/livez` and `/readyz` do not exist on the port for traffic")
            .help("use `/health/live` and `/health/ready` on the management port");
    }
    let hides = |shown: &Option<String>| shown.as_deref().is_some_and(|shown| canonical(shown.trim()) != "always");
    let gateway = access("gateway", &raw.endpoint.gateway);
    Actuator {
        health: path("health", access("health", health)),
        prometheus: path("prometheus", access("prometheus", &raw.endpoint.prometheus)),
        gateway: path("gateway", gateway),
        may_refresh: gateway == RawAccess::Unrestricted,
        shows_components: !hides(&health.show_components) && !hides(&health.show_details),
        has_probes: health.probes.enabled.unwrap_or(true),
        base,
    }
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
