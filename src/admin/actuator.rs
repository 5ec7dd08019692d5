//! Spring Boot's list of endpoints, and the reload of its gateway endpoint.

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::{Map, Value, json};

use crate::admin::reply::{json, problem, reply};
use crate::admin::schema::{flag, map_of, object, text};
use crate::admin::state::AdminState;
use tollgate_config::Actuator;

/// Lists the endpoints with their paths.
pub(super) fn index(actuator: &Actuator) -> Response<Full<Bytes>> {
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

/// Reloads the configuration. Returns 200 without a body if it was applied, as Spring does.
pub(super) async fn refresh(state: &AdminState) -> Response<Full<Bytes>> {
    match state.reload().await {
        Some(Ok(_)) => reply(StatusCode::OK, "text/plain; charset=utf-8", Bytes::new()),
        Some(Err(_)) => {
            problem(StatusCode::INTERNAL_SERVER_ERROR, "the new configuration was not applied: see the log")
        }
        None => problem(StatusCode::SERVICE_UNAVAILABLE, "the gateway is shutting down"),
    }
}

/// Returns the JSON Schema of the list of endpoints.
pub(super) fn schema() -> Value {
    let link = object().with("href", text()).with("templated", flag());
    object().with("_links", map_of(&link.build())).build()
}
