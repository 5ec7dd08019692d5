//! `/api/limits`: lists the rules, and reads, sets, grants or resets the budget of one key, or reads and grants many.

mod batch;
mod bucket_store;
mod change;
mod error;
pub(super) mod overrides;
mod plan;
pub(super) mod schema;
mod selection;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::store::redis::RedisStore;

use self::batch::Batch;
pub(super) use self::bucket_store::BucketStore;
use self::change::{Change, ChangeBody, Lost};
use self::error::LimitsError;
use self::selection::{RouteRule, Selector, rules, select};
use crate::admin::body::BODY_TIMEOUT;
use crate::admin::query::parameters;
use crate::admin::reply::{audited_each, json, whole_millis};
use crate::admin::state::AdminState;
use crate::explain::describe as in_words;
use tollgate_config::{Config, Route};
use tollgate_filters::request_rate_limiter::Enforcement;
use tollgate_proxy::state::overrides::RuleChange;
use tollgate_telemetry::key_display;

/// Largest body of a change, in bytes. It holds one number and a rule name.
const MAX_BODY_BYTES: usize = 4096;

/// Path prefix of the API.
pub(super) const ROOT: &str = "/api/limits";

/// Action on the buckets of a key.
enum Action {
    Read,
    Change(Change),
}

/// Returns the response to a request below [`ROOT`].
pub(super) async fn respond(request: Request<Incoming>, state: &AdminState) -> Response<Full<Bytes>> {
    let mut changes = Vec::new();
    let response = match dispatch(request, state, &mut changes).await {
        Ok(response) => response,
        Err(error) => error.response(state),
    };
    audited_each(response, changes)
}

/// Does the work of a request. Adds each change to `changes`, made or not, for the log.
async fn dispatch(
    request: Request<Incoming>,
    state: &AdminState,
    changes: &mut Vec<String>,
) -> Result<Response<Full<Bytes>>, LimitsError> {
    let config = state.config.load_full();
    let path = request.uri().path().strip_prefix(ROOT).unwrap_or_default().to_owned();
    if path.trim_matches('/').is_empty() {
        let is_read = request.method() == Method::GET;
        if !is_read {
            return Err(LimitsError::Method);
        }
        return all_rules(&config, request.uri().query().unwrap_or_default()).map(|rules| json(StatusCode::OK, &rules));
    }
    let path = path.trim_start_matches('/');
    let (route, key) = path.split_once('/').map_or((path, None), |(route, key)| (route, Some(key)));
    let route = String::from_utf8(decode(route)).map_err(|_| LimitsError::BadPath)?;
    let find =
        || config.routes.iter().find(|known| *known.id == *route).ok_or_else(|| LimitsError::no_route(&route, &config));
    let selector = selector(request.uri().query().unwrap_or_default())?;
    let Some(key) = key.map(decode) else {
        if request.method() != Method::POST {
            return Err(LimitsError::BadPath);
        }
        let mut batch = Batch::parse(&body(request, batch::MAX_BODY_BYTES).await?)?;
        let selector = selector.or(batch.rule.take(), batch.plan.take());
        return batch::apply(batch, find()?, &selector, &config, state, changes).await;
    };
    let route = find()?;
    let (action, selector) = action(request, selector).await?;
    let rules = select(route, &selector, matches!(action, Action::Change(Change::Grant(_) | Change::Set(_))))?;
    let key = rules.first().map_or_else(|| (&*key).into(), |rule| rule.key_id(&key));
    let shown = key_display::shown(&key).to_string();
    let result = match action {
        Action::Read => read(route, &rules, &key, &config, state).await,
        Action::Change(change) => {
            let result = change_and_read(change, route, &rules, &key, &config, state).await;
            let change = change.audit(&route.id, &rules, &shown);
            changes.push(result.as_ref().map_or_else(|error| format!("{change} failed: {error}"), |_| change.clone()));
            result
        }
    };
    let (plan, limits) = result?;
    let mut answer = json!({"route": &*route.id, "key": shown, "limits": limits});
    if let Some(plan) = plan {
        answer["plan"] = json!(plan);
    }
    Ok(json(StatusCode::OK, &answer))
}

/// Reads the action of a request.
async fn action(request: Request<Incoming>, selector: Selector) -> Result<(Action, Selector), LimitsError> {
    let action = match *request.method() {
        Method::GET => Action::Read,
        Method::DELETE => Action::Change(Change::Reset),
        Method::PUT => {
            let body = body(request, MAX_BODY_BYTES).await?;
            let mut body: ChangeBody =
                serde_json::from_slice(&body).map_err(|error| LimitsError::BadBody(error.to_string()))?;
            let change = body.change()?;
            return Ok((Action::Change(change), selector.or(body.rule.take(), body.plan.take())));
        }
        _ => return Err(LimitsError::Method),
    };
    Ok((action, selector))
}

/// Reads the names of a query: `rule=NAME&plan=NAME`.
fn selector(query: &str) -> Result<Selector, LimitsError> {
    let mut selector = Selector::default();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = String::from_utf8_lossy(&decode(value)).into_owned();
        match name {
            "rule" => selector.rule = Some(value),
            "plan" => selector.plan = Some(value),
            other => return Err(LimitsError::BadQuery(other.to_owned())),
        }
    }
    Ok(selector)
}

/// Plan of a key, as [`plan::plan`] returns it, and its state under each rule.
type KeyState = (Option<Option<String>>, Vec<Value>);

/// Applies `change` to each of `rules`. Returns the state of the key afterwards.
async fn change_and_read(
    change: Change,
    route: &Route,
    rules: &[RouteRule<'_>],
    key: &[u8],
    config: &Config,
    state: &AdminState,
) -> Result<KeyState, LimitsError> {
    let unsent = |error| match error {
        LimitsError::Unreachable => Lost::unsent().during(change, rules, 0).into(),
        error => error,
    };
    // Everything that may fail without a change comes first.
    plan::plan(rules, key, config, state).await.map_err(unsent)?;
    let store = |selected: &RouteRule<'_>| BucketStore::of(selected.limiter, config, state).map_err(unsent);
    let stores = rules.iter().map(store).collect::<Result<Vec<_>, _>>()?;
    let mut ended = Vec::with_capacity(rules.len());
    for (position, (selected, store)) in rules.iter().zip(&stores).enumerate() {
        let key = BucketKey { scope: &selected.named.scope, id: key };
        let rule = &selected.named.limit.rule;
        let effective = state.stores.overrides().effective_rule(key, rule);
        let rule = effective.as_ref().map_or(rule, |(effective, _)| effective.rule().unwrap_or(rule));
        let ends_leases = store.ends_leases(rule, change, config);
        let changed = store.change(key, rule, change, ends_leases).await;
        changed.map_err(|lost| lost.during(change, rules, position))?;
        ended.push(ends_leases);
    }
    let read = read(route, rules, key, config, state).await;
    let (plan, mut limits) = read.map_err(|error| match error {
        LimitsError::Unreachable => Lost::unsent().during(change, rules, rules.len()).into(),
        error => error,
    })?;
    for (limit, _) in limits.iter_mut().zip(ended).filter(|(_, ended)| *ended) {
        limit["leases-end-within-ms"] = json!(whole_millis(RedisStore::MAX_LEASE));
    }
    Ok((plan, limits))
}

/// Returns the state of a key under each of `rules`.
async fn read(
    route: &Route,
    rules: &[RouteRule<'_>],
    key: &[u8],
    config: &Config,
    state: &AdminState,
) -> Result<KeyState, LimitsError> {
    let plan = plan::plan(rules, key, config, state).await?;
    let mut limits = Vec::with_capacity(rules.len());
    for selected in rules {
        let store = BucketStore::of(selected.limiter, config, state)?;
        let key = BucketKey { scope: &selected.named.scope, id: key };
        let rule = &selected.named.limit.rule;
        let effective = state.stores.overrides().effective_rule(key, rule);
        let rule = effective.as_ref().map_or(rule, |(effective, _)| effective.rule().unwrap_or(rule));
        let probe = store.probe(key, rule, 1).await?.under(effective.as_ref());
        let mut limit = describe(route, selected);
        limit["capacity"] = json!(rule.capacity());
        limit["limit"] = json!(in_words(rule));
        limit["numbers"] = json!(RuleChange::of(rule));
        if let Some((effective, left)) = &effective {
            limit["override"] = overrides::in_effect(effective, *left);
        }
        limit["store"] = json!(store.name());
        limit["remaining"] = json!(probe.remaining);
        limit["reset-after-ms"] = json!(whole_millis(probe.reset_after));
        limit["retry-after-ms"] = if probe.is_exceeded { json!(probe.retry_after.map(whole_millis)) } else { json!(0) };
        limits.push(limit);
    }
    Ok((plan, limits))
}

/// Lists every rule of every route, or of the one that `route=ID` names.
fn all_rules(config: &Config, query: &str) -> Result<Value, LimitsError> {
    let mut id = None;
    for (name, value) in parameters(query) {
        match name.as_str() {
            "route" => id = Some(value).filter(|id| !id.is_empty()),
            _ => return Err(LimitsError::BadListQuery(name)),
        }
    }
    let is_listed = |route: &&Route| id.as_ref().is_none_or(|id| *route.id == **id);
    let mut routes = config.routes.iter().filter(is_listed).peekable();
    if let (Some(id), None) = (&id, routes.peek()) {
        return Err(LimitsError::no_route(id, config));
    }
    let of_route = |route| rules(route).iter().map(|rule| describe(route, rule)).collect::<Vec<_>>();
    Ok(routes.flat_map(of_route).collect())
}

fn describe(route: &Route, rule: &RouteRule<'_>) -> Value {
    let mut described = json!({"route": &*route.id, "rule": rule.name()});
    if let Some(plan) = rule.named.plan {
        described["plan"] = json!(plan);
    }
    described["key-resolver"] = json!(rule.key_resolver().to_string());
    described["algorithm"] = json!(rule.named.limit.rule.algorithm().as_str());
    described["capacity"] = json!(rule.named.limit.rule.capacity());
    described["limit"] = json!(in_words(&rule.named.limit.rule));
    described["numbers"] = json!(RuleChange::of(&rule.named.limit.rule));
    match rule.enforcement() {
        Enforcement::FULL => described["mode"] = json!("enforce"),
        Enforcement::OBSERVE => described["mode"] = json!("observe"),
        Enforcement::Off => described["mode"] = json!("off"),
        Enforcement::Keys(of_10_000) => {
            described["mode"] = json!("enforce");
            described["enforce-percent"] = json!(f64::from(of_10_000) / 100.0);
        }
    }
    described
}

async fn body(request: Request<Incoming>, max_bytes: usize) -> Result<Bytes, LimitsError> {
    let body = Limited::new(request.into_body(), max_bytes).collect();
    let body = tokio::time::timeout(BODY_TIMEOUT, body).await.map_err(|_| LimitsError::SlowBody)?;
    Ok(body.map_err(|error| LimitsError::BadBody(error.to_string()))?.to_bytes())
}

/// Decodes the percent-escapes of a path segment. Invalid escapes stay as they are.
fn decode(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    loop {
        rest = match rest {
            [b'%', high, low, after @ ..] if digit(high).is_some() && digit(low).is_some() => {
                let byte = digit(high).zip(digit(low)).and_then(|(high, low)| u8::try_from(high << 4 | low).ok());
                out.extend(byte);
                after
            }
            [byte, after @ ..] => {
                out.push(*byte);
                after
            }
            [] => return out,
        };
    }
}
