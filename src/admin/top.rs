//! `/api/top`: the keys that limiters deny, observe or allow most often.

use std::borrow::Cow;

use http::StatusCode;
use thiserror::Error;

use crate::admin::admin_state::AdminState;
use crate::admin::reply::{Reply, json, problem};
use crate::admin::request::parameters;
use tollgate_telemetry::key_display;
use tollgate_telemetry::top_keys::{CountedVerdict, Query, RuleTop};

/// Number of keys without `limit`.
const DEFAULT_LIMIT: usize = 10;
/// Largest `limit`.
const MAX_LIMIT: usize = 100;

/// Values of `verdict`. `asked` is another name of `all`.
pub(super) const VERDICTS: [&str; 5] = ["denied", "observed", "allowed", "all", "asked"];

/// Most frequent keys.
#[reply]
pub(super) struct TopReply<'t> {
    #[schemars(extend("enum" = VERDICTS))]
    verdict: &'static str,
    /// Time that the counts cover.
    seconds: u64,
    /// False if a worker did not respond.
    complete: bool,
    /// True if keys are shown as hashes.
    hashed: bool,
    rules: Vec<TopRule<'t>>,
}

/// Rule with its most frequent keys.
#[reply]
pub(super) struct TopRule<'t> {
    route: &'t str,
    rule: &'t str,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'t str>,
    /// Requests of all keys.
    total: u64,
    keys: Vec<TopKey<'t>>,
}

#[reply]
struct TopKey<'t> {
    key: Cow<'t, str>,
    /// Upper bound of the requests.
    count: u64,
    /// `count - error` is a lower bound.
    error: u64,
    /// True if the key is longer than its shown part.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

/// Error of a query.
#[derive(Debug, Error)]
enum TopError {
    #[error("unknown verdict `{0}`; use denied, observed, allowed or all")]
    Verdict(String),
    #[error("`limit` must be a number from 1 to {MAX_LIMIT}, got `{0}`")]
    Limit(String),
}

/// Returns the most frequent keys of each rule.
pub(super) async fn respond(query: &str, state: &AdminState) -> Reply {
    let (query, verdict) = match parse(query) {
        Ok(query) => query,
        Err(error) => return problem(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let top = state.top.read(&query).await;
    let reply = TopReply {
        verdict,
        seconds: top.covered.as_secs(),
        complete: top.is_complete,
        hashed: key_display::is_hashed(),
        rules: top.rules.iter().map(describe).collect(),
    };
    json(StatusCode::OK, &reply)
}

/// Returns a rule with its most frequent keys.
pub(super) fn describe(rule: &RuleTop) -> TopRule<'_> {
    let keys = rule.keys.iter().map(|key| TopKey {
        key: key_display::shown(&key.key),
        count: key.count,
        error: key.error,
        cut: key.is_cut,
    });
    TopRule {
        route: &rule.name.route,
        rule: &rule.name.rule,
        plan: rule.name.plan.as_deref(),
        total: rule.total,
        keys: keys.collect(),
    }
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
            _ => {}
        }
    }
    Ok((parsed, verdict))
}

fn verdicts(name: &str) -> Option<(&'static [CountedVerdict], &'static str)> {
    let word = VERDICTS.into_iter().find(|word| *word == name)?;
    let verdicts = match CountedVerdict::ALL.iter().find(|verdict| verdict.as_str() == name) {
        Some(verdict) => std::slice::from_ref(verdict),
        None => &CountedVerdict::ALL,
    };
    Some((verdicts, word))
}
