//! `/api/upstreams`: endpoints with their states.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::admin::reply::json;
use crate::admin::state::AdminState;
use crate::upstream::balance::Upstream;

/// Returns every upstream with its endpoints.
pub(super) fn list(state: &AdminState) -> Response<Full<Bytes>> {
    json(StatusCode::OK, &describe_all(state))
}

/// Describes every upstream with its endpoints.
pub(super) fn describe_all(state: &AdminState) -> Value {
    state.upstreams.all().iter().map(describe).collect()
}

fn describe(upstream: &Arc<Upstream>) -> Value {
    let endpoints = upstream.states().into_iter().map(|(endpoint, state)| {
        json!({"endpoint": endpoint.to_string(), "state": state.as_str(), "in-flight": endpoint.in_flight()})
    });
    let stats = upstream.stats();
    json!({
        "name": &**upstream.name(),
        "endpoints": endpoints.collect::<Vec<_>>(),
        "ejections": stats.ejections.load(Relaxed),
        "unavailable": stats.unavailable.load(Relaxed),
        "failed-lookups": stats.failed_lookups.load(Relaxed),
    })
}
