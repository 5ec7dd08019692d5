//! Whether the process lives, and whether it should be sent requests.

use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::json;

use crate::admin::{AdminState, json};

/// 200 as long as the process answers at all.
pub(super) fn live() -> Response<Full<Bytes>> {
    json(StatusCode::OK, &json!({"status": "UP"}))
}

/// 200 when requests are welcome; 503 before the start, from the signal that ends the gateway on, and, where
/// `management.readiness.redis` says so, while Redis cannot be reached.
pub(super) fn ready(state: &AdminState) -> Response<Full<Bytes>> {
    let (status, why) = readiness(state);
    let code = if why.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    match why {
        None => json(code, &json!({"status": status})),
        Some(why) => json(code, &json!({"status": status, "reason": why})),
    }
}

/// Readiness and, `with_components`, its parts, in the shape of Spring Boot's health endpoint.
pub(super) fn summary(state: &AdminState, with_components: bool) -> Response<Full<Bytes>> {
    let (status, why) = readiness(state);
    let code = if why.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if !with_components {
        return json(code, &json!({"status": status}));
    }
    let mut components = json!({
        "memory": {"status": "UP", "details": {"keys": state.limits.memory().len()}},
    });
    let clients = state.limits.redis();
    if !clients.is_empty() {
        let connected = clients.iter().filter(|client| client.connected()).count();
        let status = if connected == clients.len() { "UP" } else { "DOWN" };
        let error = clients.iter().find_map(|client| client.last_error().map(str::to_owned));
        components["redis"] = json!({
            "status": status,
            "details": {"connected": connected, "workers": clients.len(), "error": error},
        });
    }
    json(code, &json!({"status": status, "components": components}))
}

fn readiness(state: &AdminState) -> (&'static str, Option<&'static str>) {
    if state.draining.load(Relaxed) {
        return ("OUT_OF_SERVICE", Some("the gateway is ending"));
    }
    if !state.ready.load(Relaxed) {
        return ("OUT_OF_SERVICE", Some("the gateway is starting"));
    }
    let needs_redis = state.config.load().management.readiness_needs_redis;
    if needs_redis && state.limits.redis().iter().any(|client| !client.reaches_any()) {
        return ("DOWN", Some("Redis cannot be reached"));
    }
    ("UP", None)
}
