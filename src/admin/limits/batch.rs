//! `POST /api/limits/ROUTE`: reads many keys of one rule, and grants tokens to those that ask for it.

use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{MAX_SAFE_INTEGER, Rule};

use crate::admin::limits::bucket_store::{BucketStore, Reading};
use crate::admin::limits::describe;
use crate::admin::limits::error::LimitsError;
use crate::admin::limits::overrides::in_effect;
use crate::admin::limits::selection::{Selector, select};
use crate::admin::state::AdminState;
use tollgate_config::{Config, Route};
use tollgate_proxy::state::overrides::EffectiveRule;
use tollgate_proxy::telemetry::key_display;

/// Largest number of keys of a call. Redis runs their scripts without interruption, a few microseconds each.
const MAX_KEYS: usize = 256;

/// Largest body, in bytes. It holds the largest number of keys of 1 KB.
pub(super) const MAX_BODY_BYTES: usize = 512 * 1024;

/// Body of a POST.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Batch {
    /// Name of the rule. Needed if the keys have several.
    pub(super) rule: Option<String>,
    /// Plan of the rule. Needed if several plans have a rule of this name.
    pub(super) plan: Option<String>,
    keys: Vec<Entry>,
}

/// Key of a batch.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: String,
    /// Tokens to add; `None` reads the key.
    grant: Option<u64>,
}

impl Batch {
    /// Reads and checks a body.
    pub(super) fn parse(body: &[u8]) -> Result<Self, LimitsError> {
        let bad = |reason: String| LimitsError::BadBatch(reason);
        let batch: Self = serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?;
        if !(1..=MAX_KEYS).contains(&batch.keys.len()) {
            return Err(bad(format!("1 to {MAX_KEYS} keys are possible, got {}", batch.keys.len())));
        }
        if batch.keys.iter().any(|entry| entry.key.is_empty()) {
            return Err(bad("a key is empty".into()));
        }
        if batch.keys.iter().any(|entry| entry.grant.is_some_and(|grant| grant > MAX_SAFE_INTEGER)) {
            return Err(bad(format!("a grant is at most {MAX_SAFE_INTEGER}")));
        }
        Ok(batch)
    }
}

/// Applies `batch` to `route`. Returns the state of each key in the order of the list, with 503 if one has none.
pub(super) async fn apply(
    batch: Batch,
    route: &Route,
    selector: &Selector,
    config: &Config,
    state: &AdminState,
) -> Result<(StatusCode, Value), LimitsError> {
    let rules = select(route, selector, true)?;
    let Some(selected) = rules.first() else { return Err(LimitsError::NoRules(route.id.to_string())) };
    let rule = &selected.named.limit.rule;
    if batch.keys.iter().any(|entry| entry.grant.is_some()) && !matches!(rule, Rule::Quota(_)) {
        return Err(LimitsError::BadBatch("only a `quota` can be granted to several keys in one call".into()));
    }
    let store = BucketStore::of(selected.limiter, config, state)?;
    let bucket = |entry| BucketKey { scope: &selected.named.scope, id: Entry::id(entry) };
    let overrides: Vec<_> =
        batch.keys.iter().map(|entry| state.stores.overrides().effective_rule(bucket(entry), rule)).collect();
    let wanted: Vec<_> = batch.keys.iter().map(|entry| (bucket(entry), entry.grant)).collect();
    let readings = read_all(&store, rule, &wanted, &overrides).await;
    for entry in batch.keys.iter().filter(|entry| entry.grant.is_some()) {
        tracing::info!(route = &*route.id, key = %key_display::shown(entry.id()), action = "grant", "limit changed on the admin port");
    }
    let has_failed = readings.iter().any(Result::is_err);
    let readings = readings.into_iter().zip(&overrides);
    let described = batch.keys.iter().zip(readings).map(|(entry, (reading, effective))| {
        let mut described = entry.describe(reading);
        if let Some((effective, left)) = effective {
            described["override"] = in_effect(effective, *left);
        }
        described
    });
    let keys: Vec<_> = described.collect();
    let mut answer = describe(route, selected);
    answer["store"] = json!(store.name());
    answer["keys"] = json!(keys);
    Ok((if has_failed { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }, answer))
}

/// Reads each of `wanted` under the rule in effect for it: one call for each rule.
async fn read_all(
    store: &BucketStore,
    configured: &Rule,
    wanted: &[(BucketKey<'_>, Option<u64>)],
    overrides: &[Option<(EffectiveRule, Duration)>],
) -> Vec<Result<Reading, LimitsError>> {
    let mut groups: Vec<(&Rule, Vec<usize>)> = Vec::new();
    for (position, effective) in overrides.iter().enumerate() {
        let rule = match effective {
            Some((EffectiveRule::Rule(rule), _)) => rule,
            Some((EffectiveRule::Unlimited | EffectiveRule::Blocked, _)) | None => configured,
        };
        match groups.iter_mut().find(|(known, _)| *known == rule) {
            Some((_, positions)) => positions.push(position),
            None => groups.push((rule, vec![position])),
        }
    }
    let mut readings = Vec::with_capacity(wanted.len());
    for (rule, positions) in groups {
        let group: Vec<_> = positions.iter().filter_map(|position| wanted.get(*position).copied()).collect();
        readings.extend(positions.into_iter().zip(store.read_all(rule, &group).await));
    }
    readings.sort_by_key(|(position, _)| *position);
    readings.into_iter().map(|(_, reading)| reading).collect()
}

impl Entry {
    fn id(&self) -> &[u8] {
        self.key.as_bytes()
    }

    fn describe(&self, reading: Result<Reading, LimitsError>) -> Value {
        let key = key_display::shown(self.id());
        match reading {
            Ok(reading) => json!({
                "key": key,
                "remaining": reading.remaining,
                "reset-after-ms": u64::try_from(reading.reset_after.as_millis()).unwrap_or(u64::MAX),
            }),
            Err(error) if self.grant.is_some() => {
                json!({"key": key, "error": format!("{error}; the grant may have been made: read the key first")})
            }
            Err(error) => json!({"key": key, "error": error.to_string()}),
        }
    }
}
