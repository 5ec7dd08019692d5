//! `POST /api/limits/ROUTE`: reads many keys of one rule, and grants tokens to those with `grant`.

use std::time::Duration;

use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{MAX_SAFE_INTEGER, Rule};

use crate::admin::admin_state::AdminState;
use crate::admin::limits::bucket_store::{BucketStore, Reading};
use crate::admin::limits::change::{Change, Lost};
use crate::admin::limits::error::LimitsError;
use crate::admin::limits::reply::{BatchKey, BatchReply, EffectReply, RuleReply};
use crate::admin::limits::selection::{Selector, select};
use crate::admin::reply::{Reply, json, problem_with};
use crate::admin::request::BodyError;
use tollgate_config::{Config, Route};
use tollgate_proxy::state::overrides::EffectiveRule;
use tollgate_telemetry::key_display;

/// Largest number of keys of a call. Redis runs their scripts without interruption, a few microseconds each.
const MAX_KEYS: usize = 256;

/// Body of a POST.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub(in crate::admin) struct Batch {
    /// Name of the rule. Needed if the keys have several.
    pub(super) rule: Option<String>,
    /// Plan of the rule. Needed if several plans have a rule of this name.
    pub(super) plan: Option<String>,
    #[schemars(length(min = 1, max = MAX_KEYS))]
    keys: Vec<KeyGrant>,
}

/// Key of a batch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
struct KeyGrant {
    #[schemars(length(min = 1))]
    key: String,
    /// Tokens to add. If absent, the key is read.
    #[schemars(range(max = MAX_SAFE_INTEGER))]
    grant: Option<u64>,
}

impl Batch {
    /// Largest body, in bytes. It holds the largest number of keys of 1 KB.
    pub(super) const MAX_BYTES: usize = 512 * 1024;

    pub(super) const EXPECTED: &str = "{\"keys\": [{\"key\": \"KEY\", \"grant\": N}]}, optionally with \"rule\" and \
                                       \"plan\"; without \"grant\" the key is read";

    /// Checks the values of a body.
    pub(super) fn check(&self) -> Result<(), BodyError> {
        let keys = &self.keys;
        if !(1..=MAX_KEYS).contains(&keys.len()) {
            return Err(bad(format!("1 to {MAX_KEYS} keys are possible, got {}", keys.len())));
        }
        if keys.iter().any(|entry| entry.key.is_empty()) {
            return Err(bad("a key is empty".into()));
        }
        if keys.iter().any(|entry| entry.grant.is_some_and(|grant| grant > MAX_SAFE_INTEGER)) {
            return Err(bad(format!("a grant is at most {MAX_SAFE_INTEGER}")));
        }
        Ok(())
    }
}

fn bad(reason: String) -> BodyError {
    BodyError::Invalid { expected: Batch::EXPECTED, reason }
}

/// Applies `batch` to `route`. Returns the state of each key in the order of the list, as a problem with 503 if one has
/// none. Adds each grant to `changes`, made or not, for the log.
pub(super) async fn apply(
    batch: Batch,
    route: &Route,
    selector: &Selector,
    config: &Config,
    state: &AdminState,
    changes: &mut Vec<String>,
) -> Result<Reply, LimitsError> {
    let rules = select(route, selector, true)?;
    let Some(selected) = rules.first() else { return Err(LimitsError::NoRules(route.id.to_string())) };
    let rule = &selected.named.limit.rule;
    if batch.keys.iter().any(|entry| entry.grant.is_some()) && !matches!(rule, Rule::Quota(_)) {
        return Err(bad("only a `quota` can be granted to several keys in one call".into()).into());
    }
    let store = BucketStore::of(selected.limiter, config, state);
    let store = store.map_err(|error| match (error, batch.keys.iter().find_map(KeyGrant::change)) {
        (LimitsError::Unreachable, Some(change)) => Lost::unsent().during(change, &rules, 0).into(),
        (error, _) => error,
    })?;
    let ids: Vec<_> = batch.keys.iter().map(|entry| selected.key_id(entry.key.as_bytes())).collect();
    let buckets = || ids.iter().map(|id| BucketKey { scope: &selected.named.scope, id });
    let overrides: Vec<_> = buckets().map(|key| state.stores.overrides.effective_rule(key, rule)).collect();
    let grants: Vec<_> = buckets().zip(batch.keys.iter().map(|entry| entry.grant)).collect();
    let readings = read_all(&store, rule, &grants, &overrides).await;
    let failed = readings.iter().filter(|reading| reading.is_err()).count();
    let readings = readings.into_iter().zip(&overrides);
    let described = batch.keys.iter().zip(&ids).zip(readings).map(|((entry, id), (reading, effective))| {
        let key = key_display::shown(id).to_string();
        let reading = reading.map_err(|lost| match entry.change() {
            Some(change) => lost.during(change, &rules, 0).into(),
            None => LimitsError::Unreachable,
        });
        if let Some(change) = entry.change() {
            let change = change.audit(&route.id, &rules, &key);
            changes.push(reading.as_ref().map_or_else(|error| format!("{change} failed: {error}"), |_| change.clone()));
        }
        let (reading, error) = match reading {
            Ok(reading) => (Some(reading), None),
            Err(error) => (None, Some(error.to_string())),
        };
        BatchKey { key, reading, error, effect: effective.as_ref().map(EffectReply::new) }
    });
    let keys = described.collect();
    let reply = BatchReply { rule: RuleReply::new(route, selected), store: store.name(), keys };
    Ok(match failed {
        0 => json(StatusCode::OK, &reply),
        failed => {
            let detail = format!("{failed} of {} keys failed, each with its `error` in `keys`", batch.keys.len());
            problem_with(StatusCode::SERVICE_UNAVAILABLE, &detail, reply)
        }
    })
}

/// Reads each key of `grants` under the rule in effect for it: one call for each rule.
async fn read_all(
    store: &BucketStore,
    configured: &Rule,
    grants: &[(BucketKey<'_>, Option<u64>)],
    overrides: &[Option<(EffectiveRule, Duration)>],
) -> Vec<Result<Reading, Lost>> {
    let mut groups: Vec<(&Rule, Vec<usize>)> = Vec::new();
    for (position, effective) in overrides.iter().enumerate() {
        let rule = effective.as_ref().and_then(|(effective, _)| effective.rule()).unwrap_or(configured);
        match groups.iter_mut().find(|(grouped, _)| *grouped == rule) {
            Some((_, positions)) => positions.push(position),
            None => groups.push((rule, vec![position])),
        }
    }
    let mut readings = Vec::with_capacity(grants.len());
    for (rule, positions) in groups {
        let group: Vec<_> = positions.iter().filter_map(|position| grants.get(*position).copied()).collect();
        readings.extend(positions.into_iter().zip(store.read_all(rule, &group).await));
    }
    readings.sort_by_key(|(position, _)| *position);
    readings.into_iter().map(|(_, reading)| reading).collect()
}

impl KeyGrant {
    fn change(&self) -> Option<Change> {
        self.grant.map(|grant| Change::Grant(i64::try_from(grant).unwrap_or(i64::MAX)))
    }
}
