//! Routes of the running configuration, in the shape of Spring's `/actuator/gateway/routes`.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::admin::reply::{json, problem};
use crate::admin::schema::{count, integer, list_of, map_of, meaning, null, object, text};
use crate::admin::state::AdminState;
use tollgate_config::{Actuator, Route};
use tollgate_routing::Predicate;

/// Text in place of a value that may be a secret.
const MASK: &str = "****";
/// Read-only pages below the gateway endpoint.
const PAGES: [&str; 5] = ["routes", "routedefinitions", "routefilters", "routepredicates", "globalfilters"];

/// Returns every route, in matching order.
pub(super) fn list(state: &AdminState) -> Response<Full<Bytes>> {
    let config = state.config.load();
    json(StatusCode::OK, &Value::Array(config.routes.iter().map(describe).collect()))
}

/// Returns the route `id`, or 404.
pub(super) fn one(state: &AdminState, id: &str) -> Response<Full<Bytes>> {
    match state.config.load().routes.iter().find(|route| &*route.id == id) {
        Some(route) => json(StatusCode::OK, &describe(route)),
        None => unknown_route(),
    }
}

/// Returns the links of the gateway endpoint.
pub(super) fn index(actuator: &Actuator) -> Response<Full<Bytes>> {
    let base = actuator.gateway.as_deref().unwrap_or_default();
    let mut links: Vec<Value> =
        PAGES.iter().map(|page| json!({"href": format!("{base}/{page}"), "methods": ["GET"]})).collect();
    if actuator.may_refresh {
        links.push(json!({"href": format!("{base}/refresh"), "methods": ["POST"]}));
    }
    json(StatusCode::OK, &Value::Array(links))
}

/// Returns every route as in the file.
pub(super) fn definitions(state: &AdminState) -> Response<Full<Bytes>> {
    let config = state.config.load();
    let definitions = config.routes.iter().map(|route| {
        let definition = &route.definition;
        json!({
            "id": &*route.id,
            "uri": definition.uri,
            "predicates": definition.masked_predicates(),
            "filters": definition.masked_filters(),
            "metadata": masked(&definition.metadata),
            "order": route.order,
        })
    });
    json(StatusCode::OK, &Value::Array(definitions.collect()))
}

/// Returns the filters of the route `id` with their positions, default filters included, or 404.
pub(super) fn combined_filters(state: &AdminState, id: &str) -> Response<Full<Bytes>> {
    match state.config.load().routes.iter().find(|route| &*route.id == id) {
        Some(route) => {
            let positions = route.definition.masked_filters().iter().zip(1_u32..);
            json(StatusCode::OK, &positions.map(|(filter, position)| (filter.clone(), json!(position))).collect())
        }
        None => unknown_route(),
    }
}

/// Returns the names of all filters.
pub(super) fn filters() -> Value {
    tollgate_config::filters().map(|entry| (entry.name.to_owned(), Value::Null)).collect()
}

/// Returns the names of all predicates.
pub(super) fn predicates() -> Value {
    tollgate_config::predicates().iter().map(|entry| (entry.name.to_owned(), Value::Null)).collect()
}

fn unknown_route() -> Response<Full<Bytes>> {
    problem(StatusCode::NOT_FOUND, "no such route")
}

/// Adds the default port to a URI, as Spring shows it.
fn with_port(uri: &str) -> String {
    let parsed = uri.parse::<http::Uri>().ok();
    match parsed.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.authority()?))) {
        Some((scheme @ ("http" | "https"), authority)) if authority.port().is_none() => {
            format!("{scheme}://{}:{}", authority.host(), if scheme == "https" { 443 } else { 80 })
        }
        _ => uri.to_owned(),
    }
}

/// Returns `metadata` with the values masked that have no meaning for the gateway: they may be secrets.
fn masked(metadata: &BTreeMap<String, String>) -> Value {
    let is_known =
        |name: &str| ["connect-timeout", "response-timeout", "http2"].contains(&name) || name.starts_with("cors.");
    metadata.iter().map(|(name, value)| (name.clone(), json!(if is_known(name) { value } else { MASK }))).collect()
}

/// Returns predicates in Spring's form. Expected values of headers, cookies and parameters are masked.
fn predicate(predicates: &[Predicate]) -> String {
    let shown = predicates.iter().map(|predicate| {
        let text = predicate.to_string();
        match text.split_once(" regexp=") {
            Some((start, value)) if value != "null" => format!("{start} regexp={MASK}"),
            _ => text,
        }
    });
    shown.enumerate().fold(String::new(), |joined, (index, text)| match index {
        0 => text,
        _ => format!("({joined} && {text})"),
    })
}

fn describe(route: &Route) -> Value {
    let mut described = json!({
        "route_id": &*route.id,
        "uri": with_port(&route.definition.uri),
        "order": route.order,
        "predicate": predicate(&route.predicates),
        "filters": route.definition.masked_filters(),
    });
    if !route.definition.metadata.is_empty() {
        described["metadata"] = masked(&route.definition.metadata);
    }
    described
}

/// Returns the JSON Schema of a route in effect.
pub(super) fn schema() -> Value {
    object()
        .with("route_id", text())
        .with("uri", text())
        .with("order", integer())
        .with("predicate", text())
        .with("filters", list_of(&text()))
        .maybe("metadata", map_of(&text()))
        .build()
}

/// Returns the JSON Schema of a route as in the file.
pub(super) fn definition_schema() -> Value {
    object()
        .with("id", text())
        .with("uri", text())
        .with("predicates", list_of(&text()))
        .with("filters", list_of(&text()))
        .with("metadata", map_of(&text()))
        .with("order", integer())
        .build()
}

/// Returns the JSON Schema of a link of the gateway endpoint.
pub(super) fn link_schema() -> Value {
    object().with("href", text()).with("methods", list_of(&text())).build()
}

/// Returns the JSON Schema of filters with their positions.
pub(super) fn combined_filters_schema() -> Value {
    map_of(&meaning(count(), "Position of the filter"))
}

/// Returns the JSON Schema of the names of filters or predicates.
pub(super) fn names_schema() -> Value {
    map_of(&null())
}
