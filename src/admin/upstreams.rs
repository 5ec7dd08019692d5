//! `/api/upstreams`: endpoints with their states.

use std::collections::HashMap;
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
    json(StatusCode::OK, &state.upstreams.all().iter().map(describe).collect())
}

fn describe(upstream: &Arc<Upstream>) -> Value {
    let endpoints = upstream.states().into_iter().map(|(endpoint, state)| {
        json!({"endpoint": endpoint.to_string(), "state": state.as_str(), "in-flight": endpoint.in_flight()})
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
