//! `/api/upstreams`: endpoints with their states, and their draining.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use humantime::format_duration;
use hyper::body::Incoming;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::admin::body;
use crate::admin::expires_in::ExpiresIn;
use crate::admin::reply::{audited, json, problem, whole_millis};
use crate::admin::state::AdminState;
use tollgate_proxy::upstream::balance::{DrainError, EndpointStatus, KnownState, Upstream};

/// Returns every upstream with its endpoints.
pub(super) fn list(state: &AdminState) -> Response<Full<Bytes>> {
    json(StatusCode::OK, &describe_all(state))
}

/// Returns the JSON Schema of the list.
pub(super) fn schema() -> Value {
    let failure = json!({
        "type": "object",
        "description": "Latest attempt without a response",
        "required": ["at", "error"],
        "properties": {"at": {"type": "string", "format": "date-time"}, "error": json!({"type": "string"})},
    });
    let endpoint = json!({
        "type": "object",
        "required": ["endpoint", "state", "in-flight", "consecutive-failures"],
        "properties": {
            "endpoint": json!({"type": "string"}),
            "state": {"enum": KnownState::ALL.map(KnownState::as_str)},
            "in-flight": {"type": "integer", "minimum": 0},
            "consecutive-failures": {"type": "integer", "minimum": 0, "description": "Attempts since the latest response"},
            "last-failure": failure,
        },
    });
    let properties = json!({"name": json!({"type": "string"}), "endpoints": {"type": "array", "items": endpoint}});
    let upstream = json!({"type": "object", "required": ["name", "endpoints"], "properties": properties});
    json!({"type": "array", "items": upstream})
}

/// Describes every upstream with its endpoints.
pub(super) fn describe_all(state: &AdminState) -> Value {
    state.upstreams.all().iter().map(describe).collect()
}

/// Body of a drain.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a JSON object")]
struct Drain {
    expires_in: ExpiresIn,
    /// True if the last endpoint that gets requests may be drained.
    #[serde(default)]
    allow_last: bool,
}

/// Drains an endpoint for a while: `names` are the upstream and the endpoint.
pub(super) async fn drain(body: Incoming, names: &[String], state: &AdminState) -> Response<Full<Bytes>> {
    match body::read(body, "{\"expires-in\": \"15m\"}, optionally with \"allow-last\": true").await {
        Ok(Drain { expires_in: ExpiresIn(time), allow_last }) => change(names, state, |upstream, endpoint| {
            upstream.drain(endpoint, time, allow_last)?;
            Ok(format!("endpoint {endpoint} of {} drained for {}", upstream.name(), format_duration(time)))
        }),
        Err(error) => error.response(),
    }
}

/// Ends the draining of an endpoint.
pub(super) fn end_drain(names: &[String], state: &AdminState) -> Response<Full<Bytes>> {
    change(names, state, |upstream, endpoint| {
        upstream.end_drain(endpoint)?;
        Ok(format!("draining of endpoint {endpoint} of {} ended", upstream.name()))
    })
}

/// Applies `change` to the upstream and the endpoint of `names`.
fn change(
    names: &[String],
    state: &AdminState,
    change: impl FnOnce(&Arc<Upstream>, &str) -> Result<String, DrainError>,
) -> Response<Full<Bytes>> {
    let [name, endpoint] = names else { return problem(StatusCode::NOT_FOUND, "unknown endpoint") };
    let Some(upstream) = state.upstreams.all().into_iter().find(|upstream| **upstream.name() == **name) else {
        return problem(StatusCode::NOT_FOUND, &format!("unknown upstream `{name}`"));
    };
    match change(&upstream, endpoint) {
        Ok(applied) => audited(json(StatusCode::OK, &describe(&upstream)), applied),
        Err(DrainError::Unknown) => {
            problem(StatusCode::NOT_FOUND, &format!("upstream `{name}` has no endpoint `{endpoint}`"))
        }
        Err(DrainError::Last) => problem(
            StatusCode::CONFLICT,
            &format!(
                "no other endpoint of `{name}` gets requests: \"allow-last\": true drains the last one, and clients get 503"
            ),
        ),
    }
}

/// Formats a time as RFC 3339 in UTC, with milliseconds.
pub(super) fn shown_time(time: SystemTime) -> String {
    Timestamp::try_from(time).map(|time| format!("{time:.3}")).unwrap_or_default()
}

fn describe(upstream: &Arc<Upstream>) -> Value {
    let endpoints = upstream.statuses().into_iter().map(|status| {
        let EndpointStatus { endpoint, state, consecutive_failures, last_failure } = status;
        let drained_for = upstream.drained_for(&endpoint);
        let mut described = json!({
            "endpoint": endpoint.to_string(),
            "state": state.as_str(),
            "in-flight": endpoint.in_flight(),
            "consecutive-failures": consecutive_failures,
        });
        if let Some(failure) = last_failure {
            described["last-failure"] = json!({"at": shown_time(failure.at), "error": failure.error});
        }
        if let Some(time) = drained_for {
            described["drained-for-ms"] = json!(whole_millis(time));
        }
        described
    });
    let stats = upstream.stats();
    let mut described = json!({
        "name": &**upstream.name(),
        "endpoints": endpoints.collect::<Vec<_>>(),
        "ejections": stats.ejections.load(Relaxed),
        "unavailable": stats.unavailable.load(Relaxed),
        "failed-lookups": stats.failed_lookups.load(Relaxed),
    });
    if let Some(source) = upstream.source() {
        described["registry"] = json!({
            "kind": source.registry.kind(),
            "server": source.registry.server(),
            "age-seconds": source.confirmed.elapsed().as_secs(),
            "error": source.registry.error(),
        });
        let zones = source.instances.iter().filter_map(|one| Some((one.address.to_string(), one.zone.as_deref()?)));
        let zones: HashMap<String, &str> = zones.collect();
        for endpoint in described["endpoints"].as_array_mut().into_iter().flatten() {
            if let Some(zone) = endpoint["endpoint"].as_str().and_then(|address| zones.get(address)) {
                endpoint["zone"] = json!(zone);
            }
        }
    }
    described
}
