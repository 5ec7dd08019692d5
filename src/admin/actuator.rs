//! Spring Boot's actuator endpoints, under configurable paths.

use bytes::Bytes;
use http::header::{ALLOW, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode};
use http_body_util::Full;
use serde_json::{Map, Value, json};

use crate::admin::reply::{json, reply, text};
use crate::admin::state::AdminState;
use crate::admin::{guard, health, metrics, routes};
use tollgate_config::Actuator;

/// Endpoint of an actuator path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page<'p> {
    Index,
    Health,
    Liveness,
    Readiness,
    Prometheus,
    /// The gateway endpoint, with the rest of the path.
    Gateway(&'p str),
}

/// Returns the response to `method path`; `None` if the path is not an actuator endpoint.
pub(super) async fn respond(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    state: &AdminState,
) -> Option<Response<Full<Bytes>>> {
    let config = state.config.load_full();
    let actuator = &config.management.actuator;
    let page = find(path, actuator)?;
    if *method == Method::POST && page == Page::Gateway("/refresh") {
        return Some(match guard::check_change(state.address, headers) {
            _ if !actuator.may_refresh => method_not_allowed("GET, HEAD"),
            Err(error) => json(StatusCode::FORBIDDEN, &json!({"error": error.to_string()})),
            Ok(()) => refresh(state).await,
        });
    }
    if *method != Method::GET && *method != Method::HEAD {
        return Some(method_not_allowed(if page == Page::Gateway("/refresh") { "POST" } else { "GET, HEAD" }));
    }
    match page {
        Page::Index => Some(index(actuator)),
        Page::Health => Some(health::summary(state, actuator.shows_components)),
        Page::Liveness => Some(health::live()),
        Page::Readiness => Some(health::ready(state)),
        Page::Prometheus => Some(metrics::scrape(state, headers)),
        Page::Gateway(rest) => gateway(rest, state),
    }
}

fn find<'p>(path: &'p str, actuator: &Actuator) -> Option<Page<'p>> {
    if path == actuator.base && !path.is_empty() {
        return Some(Page::Index);
    }
    let after = |endpoint: &Option<String>| {
        let rest = path.strip_prefix(endpoint.as_deref()?)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    };
    match after(&actuator.health) {
        Some("") => return Some(Page::Health),
        Some("/liveness") if actuator.has_probes => return Some(Page::Liveness),
        Some("/readiness") if actuator.has_probes => return Some(Page::Readiness),
        _ => {}
    }
    if after(&actuator.prometheus) == Some("") {
        return Some(Page::Prometheus);
    }
    after(&actuator.gateway).map(Page::Gateway)
}

/// Lists the endpoints with their paths.
fn index(actuator: &Actuator) -> Response<Full<Bytes>> {
    let mut links = Map::new();
    links.insert("self".to_owned(), json!({"href": actuator.base, "templated": false}));
    let endpoints =
        [("health", &actuator.health), ("prometheus", &actuator.prometheus), ("gateway", &actuator.gateway)];
    for (name, path) in endpoints {
        if let Some(path) = path {
            links.insert(name.to_owned(), json!({"href": path, "templated": false}));
        }
    }
    json(StatusCode::OK, &json!({"_links": links}))
}

/// Returns the response of the gateway endpoint; `rest` is the path after it.
fn gateway(rest: &str, state: &AdminState) -> Option<Response<Full<Bytes>>> {
    Some(match rest {
        "" => routes::index(&state.config.load().management.actuator, state.address.is_loopback()),
        "/routes" => routes::list(state),
        "/routedefinitions" => routes::definitions(state),
        "/routefilters" => json(StatusCode::OK, &routes::filters()),
        "/routepredicates" => json(StatusCode::OK, &routes::predicates()),
        // Spring's global filters: Tollgate has no such chain.
        "/globalfilters" => json(StatusCode::OK, &Value::Object(Map::new())),
        "/refresh" => method_not_allowed("POST"),
        _ => {
            let rest = rest.strip_prefix("/routes/")?;
            match rest.strip_suffix("/combinedfilters") {
                Some(id) => routes::combined_filters(state, id),
                None => routes::one(state, rest),
            }
        }
    })
}

/// Reloads the configuration. Returns 200 without a body if it was applied.
async fn refresh(state: &AdminState) -> Response<Full<Bytes>> {
    match state.reload().await {
        Some(true) => reply(StatusCode::OK, "text/plain; charset=utf-8", Bytes::new()),
        Some(false) => text(StatusCode::INTERNAL_SERVER_ERROR, "the new configuration was not applied: see the log\n"),
        None => text(StatusCode::SERVICE_UNAVAILABLE, "the gateway is shutting down\n"),
    }
}

/// Returns 405 with the `allowed` methods.
fn method_not_allowed(allowed: &'static str) -> Response<Full<Bytes>> {
    let mut response = text(
        StatusCode::METHOD_NOT_ALLOWED,
        "routes are read-only here: edit the configuration file, then POST /refresh\n",
    );
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}
