//! `/api/breakers`: circuit breakers with their states.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::{Map, Value, json};
use tollgate_filters::circuit_breaker::{Breaker, CallKind};

use crate::admin::reply::json;
use crate::admin::state::AdminState;

/// Returns every circuit breaker of a route.
pub(super) fn list(state: &AdminState) -> Response<Full<Bytes>> {
    json(StatusCode::OK, &describe_all(state))
}

/// Describes every circuit breaker of a route.
pub(super) fn describe_all(state: &AdminState) -> Value {
    state.stores.circuit_breakers().all().iter().map(describe).collect()
}

fn describe(breaker: &Arc<Breaker>) -> Value {
    let calls = CallKind::ALL.iter().map(|kind| (kind.as_str().to_owned(), json!(breaker.calls(*kind))));
    json!({
        "name": &**breaker.name(),
        "state": breaker.state().as_str(),
        "failure-rate": breaker.failure_rate(),
        "calls": calls.collect::<Map<_, _>>(),
    })
}
