//! Liveness, readiness, and the summary in the shape of Spring Boot's health endpoint.

use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::admin::reply::json;
use crate::admin::schema::{count, meaning, object, one_of, or_null, text};
use crate::admin::state::AdminState;
use tollgate_config::Actuator;

/// Statuses of the readiness.
const STATUSES: [&str; 3] = ["UP", "DOWN", "OUT_OF_SERVICE"];

/// Returns 200: the process responds.
pub(super) fn live() -> Response<Full<Bytes>> {
    json(StatusCode::OK, &json!({"status": "UP"}))
}

/// Returns 200 if the gateway accepts requests, otherwise 503: until all workers have started, once the gateway shuts
/// down, and, with `management.readiness.redis`, while Redis is unreachable.
pub(super) fn ready(state: &AdminState) -> Response<Full<Bytes>> {
    let (status, reason) = readiness(state);
    let code = if reason.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    match reason {
        None => json(code, &json!({"status": status})),
        Some(reason) => json(code, &json!({"status": status, "reason": reason})),
    }
}

/// Returns the readiness. The status is for everyone; the state of memory and Redis is for those who may read, or open.
pub(super) fn summary(state: &AdminState, actuator: &Actuator, may_read: bool) -> Response<Full<Bytes>> {
    let with_components = actuator.shows_components && (actuator.components_are_open || may_read);
    let (status, reason) = readiness(state);
    let code = if reason.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if !with_components {
        return json(code, &json!({"status": status}));
    }
    let mut components = json!({
        "memory": {"status": "UP", "details": {"keys": state.stores.memory().len()}},
    });
    if let Some(redis) = redis(state) {
        components["redis"] = redis;
    }
    json(code, &json!({"status": status, "components": components}))
}

/// Describes the connections to Redis; `None` without Redis.
pub(super) fn redis(state: &AdminState) -> Option<Value> {
    let clients = state.stores.redis();
    if clients.is_empty() {
        return None;
    }
    let connected = clients.iter().filter(|client| client.connected()).count();
    let status = if connected == clients.len() { "UP" } else { "DOWN" };
    let error = clients.iter().find_map(|client| client.last_error().map(str::to_owned));
    let details = json!({"connected": connected, "workers": clients.len(), "error": error});
    Some(json!({"status": status, "details": details}))
}

/// Returns the status in Spring Boot's words, and the reason if the gateway is not ready.
pub(super) fn readiness(state: &AdminState) -> (&'static str, Option<&'static str>) {
    if state.draining.load(Relaxed) {
        return ("OUT_OF_SERVICE", Some("the gateway is shutting down"));
    }
    if !state.ready.load(Relaxed) {
        return ("OUT_OF_SERVICE", Some("the gateway is starting"));
    }
    let needs_redis = state.config.load().management.readiness_needs_redis;
    if needs_redis && state.stores.redis().iter().any(|client| !client.reaches_any()) {
        return ("DOWN", Some("Redis is unreachable"));
    }
    ("UP", None)
}

/// Returns the JSON Schema of the liveness.
pub(super) fn live_schema() -> Value {
    object().with("status", one_of(&["UP"])).build()
}

/// Returns the JSON Schema of the readiness.
pub(super) fn ready_schema() -> Value {
    object().with("status", one_of(&STATUSES)).maybe("reason", meaning(text(), "Reason if it is not ready")).build()
}

/// Returns the JSON Schema of the summary.
pub(super) fn summary_schema() -> Value {
    let keys = object().with("keys", meaning(count(), "Keys in memory")).build();
    let memory = object().with("status", one_of(&["UP"])).with("details", keys).build();
    let components = object().with("memory", memory).maybe("redis", redis_schema()).build();
    object().with("status", one_of(&STATUSES)).maybe("components", components).build()
}

/// Returns the JSON Schema of the connections to Redis.
pub(super) fn redis_schema() -> Value {
    let details = object()
        .with("connected", meaning(count(), "Workers that are connected"))
        .with("workers", count())
        .with("error", meaning(or_null(&text()), "Latest error"));
    object().with("status", one_of(&["UP", "DOWN"])).with("details", details.build()).build()
}
