//! `/api/top`: the keys that limiters deny, observe or allow most often.

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};
use thiserror::Error;

use crate::admin::query::parameters;
use crate::admin::reply::{json, problem};
use crate::admin::schema::{count, flag, list_of, meaning, object, one_of, text};
use crate::admin::state::AdminState;
use tollgate_telemetry::key_display;
use tollgate_telemetry::top_keys::{CountedVerdict, KeyCount, Query, RuleTop};

/// Number of keys without `limit`.
const DEFAULT_LIMIT: usize = 10;
/// Largest `limit`.
const MAX_LIMIT: usize = 100;

/// Values of `verdict`. `asked` is another name of `all`.
pub(super) const VERDICTS: [&str; 5] = ["denied", "observed", "allowed", "all", "asked"];

/// Error of a query.
#[derive(Debug, Error)]
enum TopError {
    #[error("unknown query parameter `{0}`; use route, rule, verdict or limit")]
    Parameter(String),
    #[error("unknown verdict `{0}`; use denied, observed, allowed or all")]
    Verdict(String),
    #[error("`limit` must be a number from 1 to {MAX_LIMIT}, got `{0}`")]
    Limit(String),
}

/// Returns the most frequent keys of each rule.
pub(super) async fn respond(query: &str, state: &AdminState) -> Response<Full<Bytes>> {
    let (query, verdict) = match parse(query) {
        Ok(query) => query,
        Err(error) => return problem(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let top = state.top.read(&query).await;
    json(
        StatusCode::OK,
        &json!({
            "verdict": verdict,
            "seconds": top.covered.as_secs(),
            "complete": top.is_complete,
            "hashed": key_display::is_hashed(),
            "rules": top.rules.iter().map(describe).collect::<Vec<_>>(),
        }),
    )
}

/// Returns a rule with its most frequent keys.
pub(super) fn describe(rule: &RuleTop) -> Value {
    let mut described = json!({"route": &*rule.name.route, "rule": &*rule.name.rule});
    if let Some(plan) = &rule.name.plan {
        described["plan"] = json!(&**plan);
    }
    described["total"] = json!(rule.total);
    let key = |key: &KeyCount| {
        let mut described = json!({"key": key_display::shown(&key.key), "count": key.count, "error": key.error});
        if key.is_cut {
            described["cut"] = json!(true);
        }
        described
    };
    described["keys"] = rule.keys.iter().map(key).collect();
    described
}

/// Returns the JSON Schema of the most frequent keys.
pub(super) fn schema() -> Value {
    let key = object()
        .with("key", text())
        .with("count", meaning(count(), "Upper bound of the requests"))
        .with("error", meaning(count(), "`count - error` is a lower bound"))
        .maybe("cut", meaning(flag(), "True if the key is longer than what is shown"));
    let rule = object()
        .with("route", text())
        .with("rule", text())
        .maybe("plan", text())
        .with("total", meaning(count(), "Requests of all keys"))
        .with("keys", list_of(&key.build()));
    object()
        .with("verdict", one_of(&VERDICTS))
        .with("seconds", meaning(count(), "Time that the counts cover"))
        .with("complete", meaning(flag(), "False if a worker did not respond"))
        .with("hashed", meaning(flag(), "True if keys are shown as hashes"))
        .with("rules", list_of(&rule.build()))
        .build()
}

/// Reads a query, and the name of its verdict.
fn parse(query: &str) -> Result<(Query, &'static str), TopError> {
    let mut parsed = Query { verdicts: &[CountedVerdict::Denied], route: None, rule: None, limit: DEFAULT_LIMIT };
    let mut verdict = CountedVerdict::Denied.as_str();
    for (name, value) in parameters(query) {
        match name.as_str() {
            "route" => parsed.route = Some(value).filter(|route| !route.is_empty()),
            "rule" => parsed.rule = Some(value).filter(|rule| !rule.is_empty()),
            "verdict" => (parsed.verdicts, verdict) = verdicts(&value).ok_or(TopError::Verdict(value))?,
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
                parsed.limit = limit.ok_or(TopError::Limit(value))?;
            }
            _ => return Err(TopError::Parameter(name)),
        }
    }
    Ok((parsed, verdict))
}

fn verdicts(name: &str) -> Option<(&'static [CountedVerdict], &'static str)> {
    let word = VERDICTS.into_iter().find(|known| *known == name)?;
    let verdicts = match CountedVerdict::ALL.iter().find(|known| known.as_str() == name) {
        Some(verdict) => std::slice::from_ref(verdict),
        None => &CountedVerdict::ALL,
    };
    Some((verdicts, word))
}
