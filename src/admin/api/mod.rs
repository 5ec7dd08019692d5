//! Endpoints of the admin port. One table routes requests and generates the OpenAPI document.

mod description;
mod endpoint;
mod openapi;
mod rows;

use http::Method;
use percent_encoding::percent_decode_str;

use self::endpoint::Base;
pub(super) use self::endpoint::{Call, Endpoint, EndpointPath, Run};
use self::rows::ENDPOINTS;
use tollgate_config::Actuator;

/// Result of a search.
pub(super) enum EndpointSearch {
    /// The endpoint, its path, and the values of the path's variables, percent-decoded.
    Endpoint(&'static Endpoint, EndpointPath, Vec<Vec<u8>>),
    /// The path has endpoints, but none for this method: the methods that it has.
    OtherMethods(String),
    /// The path has no endpoint.
    Nothing,
}

/// Finds the endpoint of `method path` among those that `actuator` enables.
pub(super) fn find(method: &Method, path: &str, actuator: &Actuator) -> EndpointSearch {
    find_among(|_, _| true, method, path, actuator)
}

/// Finds the endpoint of `method path` among those of Spring Boot that only read.
pub(super) fn find_exposed(method: &Method, path: &str, actuator: &Actuator) -> EndpointSearch {
    let is_exposed = |endpoint: &Endpoint, path: EndpointPath| path.0 != Base::Root && endpoint.method == Method::GET;
    find_among(is_exposed, method, path, actuator)
}

/// Returns the methods and paths of all endpoints, those of Spring Boot last.
pub(super) fn all_names() -> Vec<String> {
    let mut paths: Vec<_> = paths().collect();
    paths.sort_by_key(|(_, path)| path.0);
    let shown = paths.into_iter().map(|(endpoint, path)| endpoint.names(path));
    shown.map(|(method, path)| format!("{method} {path}")).collect()
}

/// Returns the methods and paths of the pages below Spring's gateway endpoint that `actuator` enables.
fn gateway_pages(actuator: &Actuator) -> impl Iterator<Item = (&'static str, String)> {
    let is_page = |path: EndpointPath| path.0 == Base::Gateway && !path.1.is_empty() && !path.1.contains('{');
    paths().filter(move |(endpoint, path)| is_page(*path) && endpoint.is_enabled(*path, actuator)).map(
        |(endpoint, path)| (endpoint.method.as_str(), format!("{}{}", path.base(actuator).unwrap_or_default(), path.1)),
    )
}

fn paths() -> impl Iterator<Item = (&'static Endpoint, EndpointPath)> {
    ENDPOINTS.iter().flat_map(|endpoint| endpoint.paths.iter().map(move |path| (endpoint, *path)))
}

fn find_among(
    is_served: impl Fn(&Endpoint, EndpointPath) -> bool,
    method: &Method,
    path: &str,
    actuator: &Actuator,
) -> EndpointSearch {
    let mut allowed: Vec<&'static str> = Vec::new();
    let mut is_known = false;
    for (endpoint, candidate) in paths().filter(|(endpoint, path)| is_served(endpoint, *path)) {
        let mut values = Vec::new();
        let rest = candidate.base(actuator).and_then(|base| path.strip_prefix(base));
        if !rest.is_some_and(|rest| matches(candidate.1, rest, &mut values)) {
            continue;
        }
        is_known = true;
        if !endpoint.is_enabled(candidate, actuator) {
            continue;
        }
        let is_get = endpoint.method == Method::GET;
        if endpoint.method == *method || is_get && *method == Method::HEAD {
            return EndpointSearch::Endpoint(endpoint, candidate, values);
        }
        let names = if is_get { "GET, HEAD" } else { endpoint.method.as_str() };
        if !allowed.contains(&names) {
            allowed.push(names);
        }
    }
    if is_known { EndpointSearch::OtherMethods(allowed.join(", ")) } else { EndpointSearch::Nothing }
}

/// Matches `path` with `template`, and adds the values of its variables. A final slash is ignored.
fn matches(template: &str, path: &str, values: &mut Vec<Vec<u8>>) -> bool {
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
    values.push(percent_decode_str(value).collect());
    matches(after, path, values)
}

#[cfg(test)]
mod tests {
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

    fn found(method: &str, path: &str) -> (Option<&'static str>, Vec<String>) {
        let method = Method::from_bytes(method.as_bytes()).unwrap_or_default();
        match find(&method, path, &actuator()) {
            EndpointSearch::Endpoint(endpoint, _, values) => {
                let values = values.into_iter().map(|value| String::from_utf8_lossy(&value).into_owned());
                (Some(endpoint.description.id), values.collect())
            }
            EndpointSearch::OtherMethods(allowed) => (None, vec![allowed]),
            EndpointSearch::Nothing => (None, Vec::new()),
        }
    }

    #[test]
    fn variables_take_one_segment_or_the_rest() {
        let some = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        for (method, path, operation, values) in [
            ("GET", "/health/live", Some("live"), &[][..]),
            ("HEAD", "/health/live/", Some("live"), &[]),
            ("GET", "/api/limits", Some("listRules"), &[]),
            ("PUT", "/api/limits/a%2Fb/c/d%20e", Some("setLimit"), &["a/b", "c/d e"]),
            ("GET", "/api/limits/a/", None, &["POST"]),
            ("POST", "/api/limits/a/b", None, &["GET, HEAD, PUT, DELETE"]),
            ("GET", "/manage", Some("actuator"), &[]),
            ("GET", "/manage/gateway/routes/a/b", Some("readRoute"), &["a/b"]),
            ("GET", "/manage/gateway/routes/a/b/combinedfilters", Some("combinedFilters"), &["a/b"]),
            ("POST", "/manage/gateway/refresh", None, &[""]),
            ("GET", "/manage/health", Some("health"), &[]),
            ("GET", "/manage/health/liveness", None, &[]),
            ("GET", "/manage/prometheus", None, &[]),
            ("GET", "/metricsx", None, &[]),
            ("GET", "/", Some("dashboard"), &[]),
            ("GET", "/dashboard/app.js", Some("dashboardFile"), &["app.js"]),
            ("GET", "/dashboard/a/b", None, &[]),
        ] {
            assert_eq!(found(method, path), (operation, some(values)), "{method} {path}");
        }
    }
}
