//! `/api/breakers`: circuit breakers with their states, and states that an operator forces.

use std::sync::Arc;

use http::StatusCode;
use humantime::format_duration;
use hyper::body::Incoming;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value};
use tollgate_filters::circuit_breaker::{Breaker, CallKind, ForcedState, State};

use crate::admin::admin_state::AdminState;
use crate::admin::reply::{Reply, audited, json, known_names, problem, whole_millis};
use crate::admin::request::{ExpiresIn, MAX_BYTES, read_body};

/// Circuit breaker.
#[reply]
pub(super) struct BreakerReply {
    name: String,
    #[schemars(extend("enum" = [State::Closed, State::HalfOpen, State::Open].map(State::as_str)))]
    state: &'static str,
    /// Percentage; null before the minimum number of calls.
    failure_rate: Option<f64>,
    /// Calls by outcome.
    #[schemars(schema_with = "calls")]
    calls: Map<String, Value>,
    /// Rest of the time for which the state is forced.
    #[serde(skip_serializing_if = "Option::is_none")]
    forced_for_ms: Option<u64>,
}

/// Describes every circuit breaker of a route.
pub(super) fn describe_all(state: &AdminState) -> Vec<BreakerReply> {
    state.stores.circuit_breakers.all().iter().map(|(_, breaker)| describe(breaker)).collect()
}

/// Body of a forced state.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a JSON object")]
pub(super) struct Force {
    #[serde(with = "Forced")]
    state: ForcedState,
    expires_in: ExpiresIn,
}

/// Form of [`ForcedState`].
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", remote = "ForcedState")]
enum Forced {
    Open,
    Closed,
}

/// Forces the state of the breaker `name` for a while.
pub(super) async fn force(body: Incoming, name: String, state: &AdminState) -> Reply {
    let expected = "{\"state\": \"open\" or \"closed\", \"expires-in\": \"15m\"}";
    let Force { state: forced, expires_in: ExpiresIn(time) } = match read_body(body, MAX_BYTES, expected).await {
        Ok(force) => force,
        Err(error) => return error.response(),
    };
    change(&name, state, |breaker| {
        breaker.force(forced, time);
        format!("circuit breaker {name} forced {} for {}", breaker.state().as_str(), format_duration(time))
    })
}

/// Ends the forced state of the breaker `name`.
pub(super) fn end_force(name: &str, state: &AdminState) -> Reply {
    change(name, state, |breaker| {
        breaker.end_force();
        format!("forced state of circuit breaker {name} ended")
    })
}

fn change(name: &str, state: &AdminState, change: impl Fn(&Breaker) -> String) -> Reply {
    match state.stores.circuit_breakers.all().into_iter().find(|(breaker_name, _)| **breaker_name == *name) {
        Some((_, breaker)) => {
            let applied = change(&breaker);
            audited(json(StatusCode::OK, &describe(&breaker)), applied)
        }
        None => {
            // A breaker exists from its first call on.
            let breakers = state.stores.circuit_breakers.all();
            let names = breakers.iter().map(|(name, _)| name.to_string());
            let names = known_names("breakers that were used", names);
            problem(StatusCode::NOT_FOUND, &format!("unknown circuit breaker `{name}`; {names}"))
        }
    }
}

fn describe(breaker: &Arc<Breaker>) -> BreakerReply {
    BreakerReply {
        name: breaker.name().to_string(),
        state: breaker.state().as_str(),
        failure_rate: breaker.failure_rate(),
        calls: CallKind::ALL.iter().map(|kind| (kind.as_str().to_owned(), breaker.calls(*kind).into())).collect(),
        forced_for_ms: breaker.forced().map(|(_, time)| whole_millis(time)),
    }
}

fn calls(generator: &mut SchemaGenerator) -> Schema {
    let names = CallKind::ALL.map(CallKind::as_str);
    let counts: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), u64::json_schema(generator).into())).collect();
    json_schema!({"type": "object", "required": names, "properties": counts})
}
