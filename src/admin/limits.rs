//! `/api/limits`: which rules there are, and for one key what is left under each, set, granted or forgotten.

mod kept;

use bytes::Bytes;
use http::header::ORIGIN;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::MAX_SAFE_INTEGER;

use self::kept::Kept;
use crate::admin::{AdminState, json};
use tollgate_config::{Filter, NamedLimit, Naming, RateLimiter, Route};

/// Bytes of a change's body: it is two numbers.
const MOST_BYTES: usize = 4096;

/// Where the interface begins.
pub(super) const ROOT: &str = "/api/limits";

/// Why nothing came of a request.
#[derive(Debug, Error)]
enum Refused {
    #[error("there is no route `{0}`")]
    NoRoute(String),
    #[error("route `{0}` has no rule {1}")]
    NoRule(String, String),
    #[error("write /api/limits/ROUTE/KEY, each percent-encoded")]
    BadPath,
    #[error("the body must be {{\"remaining\": N}} or {{\"grant\": N}}, and may name a \"rule\": {0}")]
    BadBody(String),
    #[error("limits under `atomicity: lock` are read and changed in Redis itself")]
    Locked,
    #[error("Redis cannot be asked")]
    OutOfReach,
    #[error("only GET, PUT and DELETE are served here")]
    Method,
    #[error("changes are not served to pages of a browser")]
    Browser,
    #[error("changes are served on a loopback address only: set `management.server.address: 127.0.0.1`")]
    Exposed,
}

/// What is to be done with a key.
enum Action {
    Read,
    Change(Change),
    Forget,
}

/// The body of a PUT.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    /// The rule meant, by its name; all of them without.
    rule: Option<String>,
    /// So much is to be left.
    remaining: Option<u64>,
    /// So much is to be given back; of a stock, taken out by a negative number.
    grant: Option<i64>,
}

/// Answers a request whose path begins with [`ROOT`].
pub(super) async fn answer(request: Request<Incoming>, state: &AdminState) -> Response<Full<Bytes>> {
    match respond(request, state).await {
        Ok(body) => json(StatusCode::OK, &body),
        Err(refused) => json(refused.status(), &json!({"error": refused.to_string()})),
    }
}

async fn respond(request: Request<Incoming>, state: &AdminState) -> Result<Value, Refused> {
    let config = state.config.load_full();
    let path = request.uri().path().strip_prefix(ROOT).unwrap_or_default().to_owned();
    if path.trim_matches('/').is_empty() {
        let rules = config.routes.iter().flat_map(|route| {
            let of_limiter = |(_, named): (_, NamedLimit<'_>)| describe(route, &named);
            rules(route).into_iter().map(of_limiter)
        });
        return if request.method() == Method::GET { Ok(rules.collect()) } else { Err(Refused::Method) };
    }
    let (route, key) = path.trim_start_matches('/').split_once('/').ok_or(Refused::BadPath)?;
    let route = String::from_utf8(decode(route)).map_err(|_| Refused::BadPath)?;
    let key = decode(key);
    let route = config.routes.iter().find(|known| *known.id == *route).ok_or(Refused::NoRoute(route))?;
    let action = match *request.method() {
        Method::GET => Action::Read,
        _ if !config.management.address.is_loopback() => return Err(Refused::Exposed),
        // A page whose name was pointed at this address is of the same origin, and still says whose it is.
        _ if request.headers().contains_key(ORIGIN) => return Err(Refused::Browser),
        Method::DELETE => Action::Forget,
        Method::PUT => Action::Change(change(request).await?),
        _ => return Err(Refused::Method),
    };
    let wanted = match &action {
        Action::Change(change) => change.rule.as_deref(),
        _ => None,
    };
    let mut standings = Vec::new();
    for (limiter, named) in rules(route) {
        if wanted.is_some_and(|wanted| named.name.unwrap_or(&named.scope) != wanted) {
            continue;
        }
        let kept = Kept::of(limiter, &config, state)?;
        let key = BucketKey { scope: &named.scope, id: &key };
        let rule = &named.limit.rule;
        match &action {
            Action::Read => {}
            Action::Forget => kept.forget(key, rule).await?,
            Action::Change(Change { remaining: Some(remaining), .. }) => kept.set(key, rule, *remaining).await?,
            Action::Change(Change { grant, .. }) => kept.grant(key, rule, grant.unwrap_or_default()).await?,
        }
        let (remaining, reset_after) = kept.look(key, rule).await?;
        let mut standing = describe(route, &named);
        standing["store"] = json!(kept.name());
        standing["remaining"] = json!(remaining);
        standing["reset-after-ms"] = json!(u64::try_from(reset_after.as_millis()).unwrap_or(u64::MAX));
        standings.push(standing);
    }
    if standings.is_empty() {
        let wanted = wanted.map_or_else(|| "at all".to_owned(), |name| format!("`{name}`"));
        return Err(Refused::NoRule(route.id.to_string(), wanted));
    }
    if !matches!(action, Action::Read) {
        let key = String::from_utf8_lossy(&key);
        let (route, what) = (&*route.id, action.word());
        tracing::info!(route, %key, what, "a limit was changed on the admin port");
    }
    Ok(json!({"route": &*route.id, "key": String::from_utf8_lossy(&key), "limits": standings}))
}

/// Every rule of a route, with its limiter.
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

async fn change(request: Request<Incoming>) -> Result<Change, Refused> {
    let bad = |what: &dyn ToString| Refused::BadBody(what.to_string());
    let body = Limited::new(request.into_body(), MOST_BYTES).collect().await.map_err(|error| bad(&error))?;
    let change: Change = serde_json::from_slice(&body.to_bytes()).map_err(|error| bad(&error))?;
    match (change.remaining, change.grant) {
        (Some(0..=MAX_SAFE_INTEGER), None) | (None, Some(_)) => Ok(change),
        (Some(_), None) => Err(bad(&"the number is too large")),
        _ => Err(bad(&"one of the two")),
    }
}

/// Percent-decodes a path segment; what is no escape stays.
fn decode(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    loop {
        rest = match rest {
            [b'%', high, low, behind @ ..] if digit(high).is_some() && digit(low).is_some() => {
                let byte = digit(high).zip(digit(low)).and_then(|(high, low)| u8::try_from(high << 4 | low).ok());
                out.extend(byte);
                behind
            }
            [byte, behind @ ..] => {
                out.push(*byte);
                behind
            }
            [] => return out,
        };
    }
}

impl Action {
    fn word(&self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Change(Change { remaining: Some(_), .. }) => "set",
            Self::Change(_) => "granted",
            Self::Forget => "forgotten",
        }
    }
}

impl Refused {
    fn status(&self) -> StatusCode {
        match self {
            Self::NoRoute(_) | Self::NoRule(..) => StatusCode::NOT_FOUND,
            Self::BadPath | Self::BadBody(_) => StatusCode::BAD_REQUEST,
            Self::Locked => StatusCode::NOT_IMPLEMENTED,
            Self::OutOfReach => StatusCode::SERVICE_UNAVAILABLE,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Exposed | Self::Browser => StatusCode::FORBIDDEN,
        }
    }
}
