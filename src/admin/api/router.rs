//! Search of the endpoint for a request.

use http::Method;
use percent_encoding::percent_decode_str;

use crate::admin::api::{Base, ENDPOINTS, Endpoint, Operation, Verb};
use tollgate_config::Actuator;

/// Result of a search.
#[derive(Debug)]
pub(in crate::admin) enum Found {
    /// The endpoint, and the values of its path's variables, percent-decoded.
    Endpoint(&'static Endpoint, Vec<String>),
    /// The path has endpoints, but none for this method: the methods that it has.
    OtherMethods(String),
    /// The path has no endpoint.
    Nothing,
}

/// Finds the endpoint of `method path` among those that `actuator` enables.
pub(in crate::admin) fn find(method: &Method, path: &str, actuator: &Actuator) -> Found {
    find_among(ENDPOINTS.iter(), method, path, actuator)
}

/// Finds the endpoint of `method path` among those of Spring Boot that only read.
pub(in crate::admin) fn find_exposed(method: &Method, path: &str, actuator: &Actuator) -> Found {
    let is_exposed = |endpoint: &&Endpoint| endpoint.base != Base::Root && endpoint.method == Verb::Get;
    find_among(ENDPOINTS.iter().filter(is_exposed), method, path, actuator)
}

fn find_among(
    endpoints: impl Iterator<Item = &'static Endpoint>,
    method: &Method,
    path: &str,
    actuator: &Actuator,
) -> Found {
    let mut allowed: Vec<&'static str> = Vec::new();
    let mut is_known = false;
    for endpoint in endpoints {
        let mut values = Vec::new();
        let rest = base(endpoint.base, actuator).and_then(|base| path.strip_prefix(base));
        if !rest.is_some_and(|rest| matches(endpoint.path, rest, &mut values)) || is_hidden(endpoint, actuator) {
            continue;
        }
        is_known = true;
        if !is_enabled(endpoint, actuator) {
            continue;
        }
        if endpoint.method.names().contains(&method.as_str()) {
            return Found::Endpoint(endpoint, values);
        }
        for name in endpoint.method.names() {
            if !allowed.contains(name) {
                allowed.push(name);
            }
        }
    }
    if is_known { Found::OtherMethods(allowed.join(", ")) } else { Found::Nothing }
}

/// Returns the path of an endpoint, with its variables; `None` if `actuator` disables it.
pub(super) fn path(endpoint: &Endpoint, actuator: &Actuator) -> Option<String> {
    let base = base(endpoint.base, actuator)?;
    let is_served = !is_hidden(endpoint, actuator) && is_enabled(endpoint, actuator);
    is_served.then(|| format!("{base}{}", endpoint.path))
}

/// Returns the start of the paths of `base`; `None` if the configuration disables them.
fn base(base: Base, actuator: &Actuator) -> Option<&str> {
    match base {
        Base::Root => Some(""),
        Base::Actuator => Some(&*actuator.base).filter(|base| !base.is_empty()),
        Base::Health => actuator.health.as_deref(),
        Base::Prometheus => actuator.prometheus.as_deref(),
        Base::Gateway => actuator.gateway.as_deref(),
    }
}

/// Returns true for an endpoint that the configuration hides.
fn is_hidden(endpoint: &Endpoint, actuator: &Actuator) -> bool {
    endpoint.base == Base::Health && !endpoint.path.is_empty() && !actuator.has_probes
}

/// Returns false for a change that the configuration forbids.
fn is_enabled(endpoint: &Endpoint, actuator: &Actuator) -> bool {
    endpoint.operation != Operation::Refresh || actuator.may_refresh
}

/// Matches `path` with `template`, and adds the values of its variables. A final slash is ignored.
fn matches(template: &str, path: &str, values: &mut Vec<String>) -> bool {
    let Some((before, rest)) = template.split_once('{') else {
        return path == template || path.strip_suffix('/') == Some(template);
    };
    let Some((name, after)) = rest.split_once('}') else { return false };
    let Some(path) = path.strip_prefix(before) else { return false };
    let (value, path) = match name.ends_with("...") {
        true => match path.strip_suffix(after) {
            Some(value) => (value, after),
            None => return false,
        },
        false => path.split_at(path.find('/').unwrap_or(path.len())),
    };
    if value.is_empty() {
        return false;
    }
    values.push(percent_decode_str(value).decode_utf8_lossy().into_owned());
    matches(after, path, values)
}

impl Verb {
    /// Returns the methods that the endpoint serves.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Get => &["GET", "HEAD"],
            Self::Put => &["PUT"],
            Self::Post => &["POST"],
            Self::Delete => &["DELETE"],
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    fn actuator() -> Actuator {
        let path = |name: &str| Some(format!("/manage/{name}"));
        Actuator {
            base: "/manage".into(),
            health: path("health"),
            prometheus: None,
            gateway: path("gateway"),
            may_refresh: false,
            shows_components: true,
            components_are_open: false,
            has_probes: false,
        }
    }

    fn found(method: &str, path: &str) -> (Option<Operation>, Vec<String>) {
        let method = Method::from_bytes(method.as_bytes()).unwrap_or_default();
        match find(&method, path, &actuator()) {
            Found::Endpoint(endpoint, values) => (Some(endpoint.operation), values),
            Found::OtherMethods(allowed) => (None, vec![allowed]),
            Found::Nothing => (None, Vec::new()),
        }
    }

    #[test]
    fn variables_take_one_segment_or_the_rest() {
        let some = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        for (method, path, operation, values) in [
            ("GET", "/health/live", Some(Operation::Live), &[][..]),
            ("HEAD", "/health/live/", Some(Operation::Live), &[]),
            ("GET", "/api/limits", Some(Operation::Rules), &[]),
            ("PUT", "/api/limits/a%2Fb/c/d%20e", Some(Operation::SetLimit), &["a/b", "c/d e"]),
            ("GET", "/api/limits/a/", None, &["POST"]),
            ("POST", "/api/limits/a/b", None, &["GET, HEAD, PUT, DELETE"]),
            ("GET", "/manage", Some(Operation::Index), &[]),
            ("GET", "/manage/gateway/routes/a/b", Some(Operation::Route), &["a/b"]),
            ("GET", "/manage/gateway/routes/a/b/combinedfilters", Some(Operation::CombinedFilters), &["a/b"]),
            ("POST", "/manage/gateway/refresh", None, &[""]),
            ("GET", "/manage/health", Some(Operation::Health), &[]),
            ("GET", "/manage/health/liveness", None, &[]),
            ("GET", "/manage/prometheus", None, &[]),
            ("GET", "/metricsx", None, &[]),
            ("GET", "/", Some(Operation::Dashboard), &[]),
            ("GET", "/dashboard/app.js", Some(Operation::DashboardFile), &["app.js"]),
            ("GET", "/dashboard/a/b", None, &[]),
        ] {
            assert_eq!(found(method, path), (operation, some(values)), "{method} {path}");
        }
    }
}
