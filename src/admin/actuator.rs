//! Spring Boot's endpoints, under the paths that the configuration gives them.

use bytes::Bytes;
use http::header::{ALLOW, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use serde_json::{Map, Value, json};

use crate::admin::{AdminState, health, json, metrics, routes, text};
use tollgate_config::Actuator;

/// What an endpoint's path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page<'p> {
    Index,
    Health,
    Liveness,
    Readiness,
    Prometheus,
    /// What stands behind the gateway endpoint's path.
    Gateway(&'p str),
}

/// Answers `method path`; `None` where no endpoint is there.
pub(super) async fn answer(method: &Method, path: &str, state: &AdminState) -> Option<Response<Full<Bytes>>> {
    let config = state.config.load_full();
    let actuator = &config.management.actuator;
    let page = find(path, actuator)?;
    if *method == Method::POST && page == Page::Gateway("/refresh") {
        return Some(if actuator.may_refresh { refresh(state).await } else { refused("GET, HEAD") });
    }
    if *method != Method::GET && *method != Method::HEAD {
        return Some(refused(if page == Page::Gateway("/refresh") { "POST" } else { "GET, HEAD" }));
    }
    match page {
        Page::Index => Some(index(actuator)),
        Page::Health => Some(health::summary(state, actuator.shows_components)),
        Page::Liveness => Some(health::live()),
        Page::Readiness => Some(health::ready(state)),
        Page::Prometheus => Some(metrics::scrape(state)),
        Page::Gateway(rest) => gateway(rest, state),
    }
}

fn find<'p>(path: &'p str, actuator: &Actuator) -> Option<Page<'p>> {
    if path == actuator.base && !path.is_empty() {
        return Some(Page::Index);
    }
    let behind = |endpoint: &Option<String>| {
        let rest = path.strip_prefix(endpoint.as_deref()?)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    };
    match behind(&actuator.health) {
        Some("") => return Some(Page::Health),
        Some("/liveness") if actuator.has_probes => return Some(Page::Liveness),
        Some("/readiness") if actuator.has_probes => return Some(Page::Readiness),
        _ => {}
    }
    if behind(&actuator.prometheus) == Some("") {
        return Some(Page::Prometheus);
    }
    behind(&actuator.gateway).map(Page::Gateway)
}

/// Every endpoint with its path.
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

/// `rest` behind the gateway endpoint's path.
fn gateway(rest: &str, state: &AdminState) -> Option<Response<Full<Bytes>>> {
    Some(match rest {
        "" => routes::index(&state.config.load().management.actuator),
        "/routes" => routes::list(state),
        "/routedefinitions" => routes::definitions(state),
        "/routefilters" => json(StatusCode::OK, &routes::filters()),
        "/routepredicates" => json(StatusCode::OK, &routes::predicates()),
        // Java's global filters: what they do here is no chain that could be listed.
        "/globalfilters" => json(StatusCode::OK, &Value::Object(Map::new())),
        "/refresh" => refused("POST"),
        _ => {
            let rest = rest.strip_prefix("/routes/")?;
            match rest.strip_suffix("/combinedfilters") {
                Some(id) => routes::combined_filters(state, id),
                None => routes::one(state, rest),
            }
        }
    })
}

/// Reads the configuration again: 200 and nothing where it was taken over.
async fn refresh(state: &AdminState) -> Response<Full<Bytes>> {
    match state.refresh().await {
        Some(true) => crate::admin::reply(StatusCode::OK, "text/plain; charset=utf-8", Bytes::new()),
        Some(false) => text(StatusCode::INTERNAL_SERVER_ERROR, "the new configuration has errors: see the log\n"),
        None => text(StatusCode::SERVICE_UNAVAILABLE, "the gateway is ending\n"),
    }
}

/// 405, and what is served.
fn refused(allowed: &'static str) -> Response<Full<Bytes>> {
    let mut refused =
        text(StatusCode::METHOD_NOT_ALLOWED, "routes are changed in the file; POST /refresh reads it again\n");
    refused.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    refused
}
