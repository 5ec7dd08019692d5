//! Spring Boot's list of endpoints, and the reload of its gateway endpoint.

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use schemars::JsonSchema;
use serde::Serialize;

use crate::admin::reply::{json, problem, reply};
use crate::admin::state::AdminState;
use tollgate_config::Actuator;

/// Endpoints of Spring Boot.
#[derive(Serialize, JsonSchema)]
pub(super) struct Index<'a> {
    #[serde(rename = "_links")]
    links: Links<'a>,
}

#[derive(Serialize, JsonSchema)]
struct Links<'a> {
    #[serde(rename = "self")]
    index: Link<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<Link<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prometheus: Option<Link<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<Link<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct Link<'a> {
    href: &'a str,
    templated: bool,
}

/// Lists the endpoints with their paths.
pub(super) fn index(actuator: &Actuator) -> Response<Full<Bytes>> {
    let link = |href| Link { href, templated: false };
    let links = Links {
        index: link(&actuator.base),
        health: actuator.health.as_deref().map(link),
        prometheus: actuator.prometheus.as_deref().map(link),
        gateway: actuator.gateway.as_deref().map(link),
    };
    json(StatusCode::OK, &Index { links })
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
