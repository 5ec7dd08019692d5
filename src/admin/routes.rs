//! The routes that are served, in the shape of Spring's `/actuator/gateway/routes`.

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use super::{AdminState, json};
use crate::config::Route;
use crate::routing::AllOf;

/// Every route, in the order in which they are tried.
pub(super) fn list(state: &AdminState) -> Response<Full<Bytes>> {
    let config = state.config.load();
    json(StatusCode::OK, &Value::Array(config.routes.iter().map(describe).collect()))
}

/// The route `id`, or 404.
pub(super) fn one(state: &AdminState, id: &str) -> Response<Full<Bytes>> {
    match state.config.load().routes.iter().find(|route| &*route.id == id) {
        Some(route) => json(StatusCode::OK, &describe(route)),
        None => json(StatusCode::NOT_FOUND, &json!({"error": "no such route"})),
    }
}

fn describe(route: &Route) -> Value {
    let mut described = json!({
        "route_id": &*route.id,
        "uri": route.definition.uri,
        "order": route.order,
        "predicate": AllOf(&route.predicates).to_string(),
        "filters": route.definition.filters,
    });
    if !route.definition.metadata.is_empty() {
        described["metadata"] = json!(route.definition.metadata);
    }
    described
}
