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
use crate::admin::reply::{audited, json, known_names, problem, whole_millis};
use crate::admin::schema::{count, list_of, meaning, object, one_of, or_null, text, time};
use crate::admin::state::AdminState;
use tollgate_proxy::upstream::balance::{DrainError, EndpointStatus, KnownState, Upstream};

/// Returns every upstream with its endpoints.
pub(super) fn list(state: &AdminState) -> Response<Full<Bytes>> {
    json(StatusCode::OK, &describe_all(state))
}

/// Returns the JSON Schema of an upstream.
pub(super) fn schema() -> Value {
    let failure = object().with("at", time()).with("error", text()).build();
    let endpoint = object()
        .with("endpoint", text())
        .with("state", one_of(&KnownState::ALL.map(KnownState::as_str)))
        .with("in-flight", meaning(count(), "Requests in flight"))
        .with("consecutive-failures", meaning(count(), "Attempts since the latest response that got none"))
        .maybe("last-failure", meaning(failure, "Latest attempt without a response"))
        .maybe("check-error", meaning(text(), "Reason of the latest health check, while it is down"))
        .maybe("drained-for-ms", meaning(count(), "Rest of the time for which an operator drains it"))
        .maybe("zone", meaning(text(), "Zone in the registry"));
    let registry = object()
        .with("kind", text())
        .with("server", text())
        .with("age-seconds", meaning(count(), "Time since the registry confirmed the list"))
        .with("error", meaning(or_null(&text()), "Latest error of the registry"));
    object()
        .with("name", text())
        .with("endpoints", list_of(&endpoint.build()))
        .with("ejections", meaning(count(), "Ejections of endpoints since the start"))
        .with("unavailable", meaning(count(), "Requests that found no endpoint"))
        .with("failed-lookups", meaning(count(), "Failed lookups of names in DNS"))
        .maybe("registry", meaning(registry.build(), "Source of the endpoints"))
        .build()
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
pub(super) async fn drain(body: Incoming, names: [String; 2], state: &AdminState) -> Response<Full<Bytes>> {
    match body::read(body, "{\"expires-in\": \"15m\"}, optionally with \"allow-last\": true").await {
        Ok(Drain { expires_in: ExpiresIn(time), allow_last }) => change(&names, state, |upstream, endpoint| {
            upstream.drain(endpoint, time, allow_last)?;
            Ok(format!("endpoint {endpoint} of {} drained for {}", upstream.name(), format_duration(time)))
        }),
        Err(error) => error.response(),
    }
}

/// Ends the draining of an endpoint.
pub(super) fn end_drain(names: &[String; 2], state: &AdminState) -> Response<Full<Bytes>> {
    change(names, state, |upstream, endpoint| {
        upstream.end_drain(endpoint)?;
        Ok(format!("draining of endpoint {endpoint} of {} ended", upstream.name()))
    })
}

/// Applies `change` to the upstream and the endpoint of `names`.
fn change(
    [name, endpoint]: &[String; 2],
    state: &AdminState,
    change: impl FnOnce(&Arc<Upstream>, &str) -> Result<String, DrainError>,
) -> Response<Full<Bytes>> {
    let Some(upstream) = state.upstreams.all().into_iter().find(|upstream| **upstream.name() == **name) else {
        let known = state.upstreams.all();
        let known = known_names("upstreams", known.iter().map(|upstream| upstream.name().to_string()));
        return problem(StatusCode::NOT_FOUND, &format!("unknown upstream `{name}`; {known}"));
    };
    match change(&upstream, endpoint) {
        Ok(applied) => audited(json(StatusCode::OK, &describe(&upstream)), applied),
        Err(DrainError::Unknown) => {
            let known = upstream.statuses().into_iter().map(|status| status.endpoint.to_string());
            let known = known_names("its endpoints", known);
            problem(StatusCode::NOT_FOUND, &format!("upstream `{name}` has no endpoint `{endpoint}`; {known}"))
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
        let EndpointStatus { endpoint, state, consecutive_failures, last_failure, check_error } = status;
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
        if let Some(error) = check_error {
            described["check-error"] = json!(error);
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
