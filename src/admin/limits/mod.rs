//! `/api/limits`: lists the rules, and reads, sets, grants or resets the budget of one key.

mod bucket_store;
mod error;

use bytes::Bytes;
use http::header::ORIGIN;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::MAX_SAFE_INTEGER;

use self::bucket_store::BucketStore;
use self::error::LimitsError;
use crate::admin::reply::json;
use crate::admin::state::AdminState;
use tollgate_config::{Config, Filter, NamedLimit, Naming, RateLimiter, Route};

/// Largest body of a change, in bytes. It holds one number and a rule name.
const MAX_BODY_BYTES: usize = 4096;

/// Path prefix of the API.
pub(super) const ROOT: &str = "/api/limits";

/// Action on the buckets of a key.
enum Action {
    Read,
    Change(Change),
    Reset,
}

/// Body of a PUT.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    /// Name of the rule; without it, all rules of the route change.
    rule: Option<String>,
    /// Tokens that shall remain.
    remaining: Option<u64>,
    /// Tokens to add. A negative number removes them from a quota.
    grant: Option<i64>,
}

/// Returns the response to a request below [`ROOT`].
pub(super) async fn respond(request: Request<Incoming>, state: &AdminState) -> Response<Full<Bytes>> {
    match dispatch(request, state).await {
        Ok(body) => json(StatusCode::OK, &body),
        Err(error) => json(error.status(), &json!({"error": error.to_string()})),
    }
}

async fn dispatch(request: Request<Incoming>, state: &AdminState) -> Result<Value, LimitsError> {
    let config = state.config.load_full();
    let path = request.uri().path().strip_prefix(ROOT).unwrap_or_default().to_owned();
    if path.trim_matches('/').is_empty() {
        return if request.method() == Method::GET { Ok(all_rules(&config)) } else { Err(LimitsError::Method) };
    }
    let (route, key) = path.trim_start_matches('/').split_once('/').ok_or(LimitsError::BadPath)?;
    let route = String::from_utf8(decode(route)).map_err(|_| LimitsError::BadPath)?;
    let key = decode(key);
    let route = config.routes.iter().find(|known| *known.id == *route).ok_or(LimitsError::NoRoute(route))?;
    let action = action(request, &config).await?;
    let limits = apply(&action, route, &key, &config, state).await?;
    let key = String::from_utf8_lossy(&key);
    if !matches!(action, Action::Read) {
        tracing::info!(route = &*route.id, %key, action = action.as_str(), "limit changed on the admin port");
    }
    Ok(json!({"route": &*route.id, "key": key, "limits": limits}))
}

/// Reads the action of a request, and checks that it is allowed.
async fn action(request: Request<Incoming>, config: &Config) -> Result<Action, LimitsError> {
    Ok(match *request.method() {
        Method::GET => Action::Read,
        _ if !config.management.address.is_loopback() => return Err(LimitsError::NotLoopback),
        // DNS rebinding makes a page same-origin with this address; the browser still sends `Origin`.
        _ if request.headers().contains_key(ORIGIN) => return Err(LimitsError::Browser),
        Method::DELETE => Action::Reset,
        Method::PUT => Action::Change(change(request).await?),
        _ => return Err(LimitsError::Method),
    })
}

/// Applies `action` to each rule that it names. Returns the state of each afterwards.
async fn apply(
    action: &Action,
    route: &Route,
    key: &[u8],
    config: &Config,
    state: &AdminState,
) -> Result<Vec<Value>, LimitsError> {
    let wanted = match action {
        Action::Change(change) => change.rule.as_deref(),
        Action::Read | Action::Reset => None,
    };
    let mut limits = Vec::new();
    for (limiter, named) in rules(route) {
        if wanted.is_some_and(|wanted| named.name.unwrap_or(&named.scope) != wanted) {
            continue;
        }
        let store = BucketStore::of(limiter, config, state)?;
        let key = BucketKey { scope: &named.scope, id: key };
        let rule = &named.limit.rule;
        match action {
            Action::Read => {}
            Action::Reset => store.forget(key, rule).await?,
            Action::Change(Change { remaining: Some(remaining), .. }) => store.set(key, rule, *remaining).await?,
            Action::Change(Change { grant, .. }) => store.grant(key, rule, grant.unwrap_or_default()).await?,
        }
        let (remaining, reset_after) = store.read(key, rule).await?;
        let mut limit = describe(route, &named);
        limit["store"] = json!(store.name());
        limit["remaining"] = json!(remaining);
        limit["reset-after-ms"] = json!(u64::try_from(reset_after.as_millis()).unwrap_or(u64::MAX));
        limits.push(limit);
    }
    if limits.is_empty() {
        let route = route.id.to_string();
        return Err(match wanted {
            Some(rule) => LimitsError::NoRule { route, rule: rule.to_owned() },
            None => LimitsError::NoRules(route),
        });
    }
    Ok(limits)
}

/// Lists every rule of every route.
fn all_rules(config: &Config) -> Value {
    let of_route = |route| rules(route).into_iter().map(move |(_, named)| describe(route, &named)).collect::<Vec<_>>();
    config.routes.iter().flat_map(of_route).collect()
}

/// Returns every rule of a route, with its limiter.
fn rules(route: &Route) -> Vec<(&RateLimiter, NamedLimit<'_>)> {
    let limiters = route.filters.iter().filter_map(|filter| match filter {
        Filter::RequestRateLimiter(limiter) => Some(&**limiter),
        _ => None,
    });
    let named = |(at, limiter)| {
        let naming = Naming { route: &route.id, number: at + 1, limiter };
        naming.all().into_iter().map(move |named| (limiter, named))
    };
    limiters.enumerate().flat_map(named).collect()
}

fn describe(route: &Route, named: &NamedLimit<'_>) -> Value {
    let mut described = json!({"route": &*route.id, "rule": named.name.unwrap_or(&named.scope)});
    if let Some(plan) = named.plan {
        described["plan"] = json!(plan);
    }
    described["algorithm"] = json!(named.limit.rule.algorithm().as_str());
    described["capacity"] = json!(named.limit.rule.capacity());
    described
}

async fn change(request: Request<Incoming>) -> Result<Change, LimitsError> {
    let bad = |reason: &dyn ToString| LimitsError::BadBody(reason.to_string());
    let body = Limited::new(request.into_body(), MAX_BODY_BYTES).collect().await.map_err(|error| bad(&error))?;
    let change: Change = serde_json::from_slice(&body.to_bytes()).map_err(|error| bad(&error))?;
    match (change.remaining, change.grant) {
        (Some(0..=MAX_SAFE_INTEGER), None) | (None, Some(_)) => Ok(change),
        (Some(_), None) => Err(bad(&"the number is too large")),
        _ => Err(bad(&"give exactly one of the two")),
    }
}

/// Percent-decodes a path segment. Invalid escapes stay as they are.
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

impl Action {
    fn as_str(&self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Change(Change { remaining: Some(_), .. }) => "set",
            Self::Change(_) => "grant",
            Self::Reset => "reset",
        }
    }
}
