//! Liveness, readiness, and the summary in the shape of Spring Boot's health endpoint.

use std::sync::atomic::Ordering::Relaxed;

use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use crate::admin::admin_state::AdminState;
use crate::admin::reply::{Reply, json};
use tollgate_config::Actuator;

/// Status in Spring Boot's words.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum Status {
    Up,
    Down,
    OutOfService,
}

/// Liveness of the process.
#[reply]
pub(super) struct Liveness {
    #[schemars(extend("enum" = ["UP"]))]
    status: Status,
}

/// Readiness of the gateway.
#[reply]
pub(super) struct Readiness {
    pub(super) status: Status,
    /// Reason if it is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<&'static str>,
}

/// Summary in the shape of Spring Boot's health endpoint.
#[reply]
pub(super) struct Summary {
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    components: Option<Components>,
}

#[reply]
struct Components {
    memory: MemoryHealth,
    #[serde(skip_serializing_if = "Option::is_none")]
    redis: Option<RedisHealth>,
}

#[reply]
struct MemoryHealth {
    #[schemars(extend("enum" = ["UP"]))]
    status: Status,
    details: MemoryDetails,
}

#[reply]
struct MemoryDetails {
    /// Keys in memory.
    keys: usize,
}

/// Connections to Redis.
#[reply]
pub(super) struct RedisHealth {
    #[schemars(extend("enum" = ["UP", "DOWN"]))]
    status: Status,
    pub(super) details: RedisDetails,
}

#[reply]
pub(super) struct RedisDetails {
    /// Workers that are connected.
    connected: usize,
    workers: usize,
    /// Latest error.
    error: Option<String>,
}

/// Returns 200: the process responds.
pub(super) fn live() -> Reply {
    json(StatusCode::OK, &Liveness { status: Status::Up })
}

/// Returns 200 if the gateway accepts requests, otherwise 503: until all workers have started, once the gateway shuts
/// down, and, with `management.readiness.redis`, while Redis is unreachable.
pub(super) fn ready(state: &AdminState) -> Reply {
    let readiness = readiness(state);
    json(readiness.code(), &readiness)
}

/// Returns the readiness. The status is for everyone; the state of memory and Redis is for those who may read, or open.
pub(super) fn summary(state: &AdminState, actuator: &Actuator, may_read: bool) -> Reply {
    let has_components = actuator.shows_components && (actuator.components_are_open || may_read);
    let readiness = readiness(state);
    let details = || MemoryDetails { keys: state.stores.memory.len() };
    let components = has_components
        .then(|| Components { memory: MemoryHealth { status: Status::Up, details: details() }, redis: redis(state) });
    json(readiness.code(), &Summary { status: readiness.status, components })
}

/// Describes the connections to Redis; `None` without Redis.
pub(super) fn redis(state: &AdminState) -> Option<RedisHealth> {
    let clients = state.stores.redis();
    if clients.is_empty() {
        return None;
    }
    let connected = clients.iter().filter(|client| client.connected()).count();
    let status = if connected == clients.len() { Status::Up } else { Status::Down };
    let error = clients.iter().find_map(|client| client.last_error().map(str::to_owned));
    Some(RedisHealth { status, details: RedisDetails { connected, workers: clients.len(), error } })
}

/// Returns the readiness.
pub(super) fn readiness(state: &AdminState) -> Readiness {
    let not_ready = |status, reason| Readiness { status, reason: Some(reason) };
    if state.draining.load(Relaxed) {
        return not_ready(Status::OutOfService, "the gateway is shutting down");
    }
    if !state.ready.load(Relaxed) {
        return not_ready(Status::OutOfService, "the gateway is starting");
    }
    let needs_redis = state.config.load().management.readiness_needs_redis;
    if needs_redis && state.stores.redis().iter().any(|client| !client.reaches_any()) {
        return not_ready(Status::Down, "Redis is unreachable");
    }
    Readiness { status: Status::Up, reason: None }
}

impl Readiness {
    fn code(&self) -> StatusCode {
        if self.reason.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
    }
}
