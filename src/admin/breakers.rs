//! `/api/breakers`: circuit breakers with their states, and states that an operator forces.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use humantime::format_duration;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollgate_filters::circuit_breaker::{Breaker, CallKind, ForcedState, State};

use crate::admin::body;
use crate::admin::expires_in::ExpiresIn;
use crate::admin::reply::{audited, json, known_names, problem, whole_millis};
use crate::admin::schema::{count, meaning, number, object, one_of, or_null, text};
use crate::admin::state::AdminState;

/// Returns every circuit breaker of a route.
pub(super) fn list(state: &AdminState) -> Response<Full<Bytes>> {
    json(StatusCode::OK, &describe_all(state))
}

/// Describes every circuit breaker of a route.
pub(super) fn describe_all(state: &AdminState) -> Value {
    state.stores.circuit_breakers().all().iter().map(describe).collect()
}

/// Body of a forced state.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a JSON object")]
struct Force {
    state: Forced,
    expires_in: ExpiresIn,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Forced {
    Open,
    Closed,
}

/// Forces the state of the breaker `name` for a while.
pub(super) async fn force(body: Incoming, name: String, state: &AdminState) -> Response<Full<Bytes>> {
    let expected = "{\"state\": \"open\" or \"closed\", \"expires-in\": \"15m\"}";
    let Force { state: forced, expires_in: ExpiresIn(time) } = match body::read(body, expected).await {
        Ok(force) => force,
        Err(error) => return error.response(),
    };
    let forced = match forced {
        Forced::Open => ForcedState::Open,
        Forced::Closed => ForcedState::Closed,
    };
    change(&name, state, |breaker| {
        breaker.force(forced, time);
        format!("circuit breaker {name} forced {} for {}", breaker.state().as_str(), format_duration(time))
    })
}

/// Ends the forced state of the breaker `name`.
pub(super) fn end_force(name: &str, state: &AdminState) -> Response<Full<Bytes>> {
    change(name, state, |breaker| {
        breaker.end_force();
        format!("forced state of circuit breaker {name} ended")
    })
}

fn change(name: &str, state: &AdminState, change: impl Fn(&Breaker) -> String) -> Response<Full<Bytes>> {
    match state.stores.circuit_breakers().all().into_iter().find(|breaker| **breaker.name() == *name) {
        Some(breaker) => {
            let applied = change(&breaker);
            audited(json(StatusCode::OK, &describe(&breaker)), applied)
        }
        None => {
            // A breaker exists from its first call on.
            let known = state.stores.circuit_breakers().all();
            let known = known_names("breakers that were used", known.iter().map(|breaker| breaker.name().to_string()));
            problem(StatusCode::NOT_FOUND, &format!("unknown circuit breaker `{name}`; {known}"))
        }
    }
}

fn describe(breaker: &Arc<Breaker>) -> Value {
    let calls = CallKind::ALL.iter().map(|kind| (kind.as_str().to_owned(), json!(breaker.calls(*kind))));
    let forced = breaker.forced();
    let mut described = json!({
        "name": &**breaker.name(),
        "state": breaker.state().as_str(),
        "failure-rate": breaker.failure_rate(),
        "calls": calls.collect::<Map<_, _>>(),
    });
    if let Some((_, time)) = forced {
        described["forced-for-ms"] = json!(whole_millis(time));
    }
    described
}

/// Returns the JSON Schema of a circuit breaker.
pub(super) fn schema() -> Value {
    let calls = CallKind::ALL.iter().fold(object(), |calls, kind| calls.with(kind.as_str(), count()));
    let states = [State::Closed, State::HalfOpen, State::Open].map(State::as_str);
    object()
        .with("name", text())
        .with("state", one_of(&states))
        .with("failure-rate", meaning(or_null(&number()), "Percentage; null before the minimum number of calls"))
        .with("calls", meaning(calls.build(), "Calls by outcome"))
        .maybe("forced-for-ms", meaning(count(), "Rest of the time for which the state is forced"))
        .build()
}
