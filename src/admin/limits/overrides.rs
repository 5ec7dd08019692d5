//! `/api/overrides`: temporary overrides of limits, of one key or of every key of a rule.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use humantime::format_duration;
use hyper::body::Incoming;
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::admin::access::Caller;
use crate::admin::expires_in::ExpiresIn;
use crate::admin::limits::error::LimitsError;
use crate::admin::limits::selection::{RouteRule, Selector, select};
use crate::admin::limits::{MAX_BODY_BYTES, Place, describe, read_body, selector};
use crate::admin::reply::{audited, json, whole_millis};
use crate::admin::state::AdminState;
use tollgate_config::Route;
use tollgate_proxy::state::overrides::{Effect, EffectiveRule, Names, Override, RuleChange, Target};
use tollgate_telemetry::key_display;

/// Longest key. Redis returns all overrides in one reply.
const MAX_KEY_BYTES: usize = 1024;

/// Body of a PUT.
struct Change {
    selector: Selector,
    effect: Effect,
    expires_in: ExpiresIn,
}

/// Lists the overrides.
pub(in crate::admin) fn list(state: &AdminState) -> Response<Full<Bytes>> {
    json(StatusCode::OK, &state.stores.overrides().all().iter().map(shown).collect())
}

/// Sets an override by `caller`.
pub(in crate::admin) async fn set(
    place: Place<'_>,
    body: Incoming,
    caller: &Caller,
    state: &AdminState,
) -> Response<Full<Bytes>> {
    respond(new(&place, body, caller, state).await, state)
}

/// Ends an override.
pub(in crate::admin) async fn end(place: Place<'_>, state: &AdminState) -> Response<Full<Bytes>> {
    respond(remove(&place, state).await, state)
}

fn respond(changed: Result<(Value, String), LimitsError>, state: &AdminState) -> Response<Full<Bytes>> {
    match changed {
        Ok((body, applied)) => audited(json(StatusCode::OK, &body), applied),
        Err(error) => error.response(state),
    }
}

/// Checks the path and the query. Returns the id of the route, and the names of the query.
fn checked<'c>(place: &Place<'c>) -> Result<(&'c str, Selector), LimitsError> {
    if place.key.is_some_and(<[u8]>::is_empty) {
        return Err(LimitsError::BadOverride(
            "the key is empty; to override every key, use `/api/overrides/ROUTE`".into(),
        ));
    }
    let id = place.id()?;
    if place.key.is_some_and(|key| key.len() > MAX_KEY_BYTES) {
        return Err(LimitsError::BadOverride(format!("a key of at most {MAX_KEY_BYTES} bytes can be overridden")));
    }
    Ok((id, selector(place.query)?))
}

async fn new(
    place: &Place<'_>,
    body: Incoming,
    caller: &Caller,
    state: &AdminState,
) -> Result<(Value, String), LimitsError> {
    let config = state.config.load_full();
    let (id, named) = checked(place)?;
    let key = place.key;
    let Change { selector, effect, expires_in: ExpiresIn(time) } =
        Change::parse(&read_body(body, MAX_BODY_BYTES).await.map_err(of_override)?, named)?;
    let (route, _) = place.route(&config)?;
    let selected = one(route, &selector)?;
    if let Effect::Rule(change) = &effect {
        change.apply(&selected.named.limit.rule).map_err(|error| LimitsError::BadOverride(error.to_string()))?;
    }
    let target = target(&selected, key, state);
    if state.stores.overrides().is_ambiguous(&target, &selected.named.limit.rule) {
        return Err(LimitsError::AmbiguousOverride);
    }
    let applied = format!(
        "{}: {effect} for {}, until {}",
        named_override(id, selected.name(), key),
        format_duration(time),
        end_after(time).unwrap_or_default()
    );
    let mut answer = described(route, &selected, key);
    answer["override"] = numbers(&effect);
    answer["expires-in-ms"] = json!(whole_millis(time));
    let names = Names { route: id.to_owned(), rule: selected.name().to_owned(), by: caller.to_string() };
    let new = Override { target, effect, names, until: Instant::now() + time };
    state.stores.set_override(new, &config).await?;
    Ok((answer, applied))
}

/// Ends an override. One whose rule is no longer configured is found by its names.
async fn remove(place: &Place<'_>, state: &AdminState) -> Result<(Value, String), LimitsError> {
    let config = &state.config.load_full();
    let (id, named) = &checked(place)?;
    let (id, key) = (*id, place.key);
    let route = config.routes.iter().find(|route| *route.id == *id);
    let selected = route.ok_or_else(|| LimitsError::no_route(id, config)).and_then(|route| one(route, named));
    let (target, mut described, rule) = match (selected, route) {
        (Ok(selected), Some(route)) => {
            (target(&selected, key, state), describe(route, &selected), selected.name().to_owned())
        }
        (Err(error), _) => {
            let found = state.stores.overrides().find(id, named.rule.as_deref(), named.plan.as_deref(), key);
            let Override { target, names, .. } = found.ok_or(error)?;
            (target, json!({"route": id, "rule": names.rule}), names.rule)
        }
        (Ok(_), None) => return Err(LimitsError::no_route(id, config)),
    };
    if !state.stores.remove_override(&target, config).await? {
        return Err(LimitsError::NoOverride);
    }
    if let Some(key) = key {
        described["key"] = json!(key_display::shown(key));
    }
    Ok((described, format!("{} removed", named_override(id, &rule, key))))
}

/// Describes the form of an override in the error of a body.
fn of_override(error: LimitsError) -> LimitsError {
    match error {
        LimitsError::BadBody(reason) => LimitsError::BadOverride(reason),
        error => error,
    }
}

/// Returns the only rule of `route` that `selector` names.
fn one<'c>(route: &'c Route, selector: &Selector) -> Result<RouteRule<'c>, LimitsError> {
    let selected = select(route, selector, true)?;
    selected.into_iter().next().ok_or_else(|| LimitsError::NoRules(route.id.to_string()))
}

fn target(selected: &RouteRule<'_>, key: Option<&[u8]>, state: &AdminState) -> Target {
    Target {
        scope: selected.named.scope.to_string(),
        plan: selected.named.plan.map(str::to_owned),
        key: key.map(|key| state.stores.overrides().named_id(&selected.key_id(key))),
    }
}

fn named_override(route: &str, rule: &str, key: Option<&[u8]>) -> String {
    let key = key.map_or_else(|| "every key".to_owned(), |key| format!("key {}", key_display::shown(key)));
    format!("override of rule {rule} of route {route} for {key}")
}

fn described(route: &Route, selected: &RouteRule<'_>, key: Option<&[u8]>) -> Value {
    let mut described = describe(route, selected);
    if let Some(key) = key {
        described["key"] = json!(key_display::shown(key));
    }
    described
}

fn shown((it, applies): &(Override, bool)) -> Value {
    let left = it.until.saturating_duration_since(Instant::now());
    let mut shown = json!({"route": it.names.route, "rule": it.names.rule});
    if let Some(plan) = &it.target.plan {
        shown["plan"] = json!(plan);
    }
    if let Some(key) = &it.target.key {
        shown["key"] = json!(key_display::shown(key));
    }
    shown["override"] = numbers(&it.effect);
    shown["in-effect"] = json!(applies);
    shown["by"] = json!(it.names.by);
    shown["expires-in-ms"] = json!(whole_millis(left));
    shown["expires-at"] = json!(end_after(left));
    shown
}

/// Returns the time of day after `time`, in seconds and UTC.
fn end_after(time: Duration) -> Option<String> {
    let end = Timestamp::now().checked_add(SignedDuration::try_from(time).ok()?).ok()?;
    Some(format!("{end:.0}"))
}

/// Returns the override as the members of a body.
fn numbers(effect: &Effect) -> Value {
    match effect {
        Effect::Rule(change) => json!(change),
        Effect::Unlimited => json!({"unlimited": true}),
        Effect::Block => json!({"block": true}),
    }
}

/// Returns the rule in effect for an overridden key, and the time that it lasts.
pub(super) fn in_effect(effective: &EffectiveRule, left: Duration) -> Value {
    let mut shown = match effective {
        EffectiveRule::Rule(rule) => json!({"rate": rule.rate(), "capacity": rule.capacity()}),
        EffectiveRule::Unlimited => json!({"unlimited": true}),
        EffectiveRule::Blocked => json!({"block": true}),
    };
    shown["expires-in-ms"] = json!(whole_millis(left));
    shown
}

impl Change {
    /// Reads a body. `named` are the names of the query.
    fn parse(body: &[u8], named: Selector) -> Result<Self, LimitsError> {
        let bad = |reason: String| LimitsError::BadOverride(reason);
        let mut members: Map<String, Value> = serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?;
        let rule: Option<String> = take(&mut members, "rule")?;
        let plan: Option<String> = take(&mut members, "plan")?;
        let expires_in = take(&mut members, "expires-in")?;
        let expires_in = expires_in.ok_or_else(|| bad("`expires-in` is missing, a time such as `15m`".into()))?;
        let unlimited: bool = take(&mut members, "unlimited")?.unwrap_or_default();
        let block: bool = take(&mut members, "block")?.unwrap_or_default();
        let effect = match (unlimited, block, members.is_empty()) {
            (true, false, true) => Effect::Unlimited,
            (false, true, true) => Effect::Block,
            (false, false, _) => {
                let change: RuleChange = parse(Value::Object(members))?;
                Effect::Rule(change)
            }
            _ => return Err(bad("numbers, `unlimited` and `block` exclude each other".into())),
        };
        Ok(Self { selector: named.or(rule, plan), effect, expires_in })
    }
}

fn take<T: DeserializeOwned>(members: &mut Map<String, Value>, name: &str) -> Result<Option<T>, LimitsError> {
    let Some(value) = members.remove(name) else { return Ok(None) };
    serde_json::from_value(value).map(Some).map_err(|error| LimitsError::BadOverride(format!("`{name}`: {error}")))
}

fn parse<T: DeserializeOwned>(value: Value) -> Result<T, LimitsError> {
    serde_json::from_value(value).map_err(|error| LimitsError::BadOverride(error.to_string()))
}
