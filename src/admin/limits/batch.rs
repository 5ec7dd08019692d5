//! `POST /api/limits/ROUTE`: reads many keys of one rule, and grants tokens to those with `grant`.

use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{MAX_SAFE_INTEGER, Rule};

use crate::admin::admin_state::AdminState;
use crate::admin::limits::bucket_store::{BucketStore, KeyRule, Reading};
use crate::admin::limits::change::{Change, Lost};
use crate::admin::limits::error::LimitsError;
use crate::admin::limits::reply::{BatchKey, BatchReply, EffectReply, RuleReply};
use crate::admin::limits::selection::{Selector, only, select};
use crate::admin::reply::{Reply, json, problem_with};
use crate::admin::request::BodyError;
use tollgate_config::{Config, NamedLimit, Route};
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
    let selected = &only(&select(route, selector)?)?;
    let rules = std::slice::from_ref(selected);
    let rule = &selected.limit.rule;
    if batch.keys.iter().any(|entry| entry.grant.is_some()) && !matches!(rule, Rule::Quota(_)) {
        return Err(bad("only a `quota` can be granted to several keys in one call".into()).into());
    }
    let store = BucketStore::of(selected.limiter, config, state);
    let store = store.map_err(|error| match (error, batch.keys.iter().find_map(KeyGrant::change)) {
        (LimitsError::Unreachable, Some(change)) => Lost::unsent().during(change, rules, 0).into(),
        (error, _) => error,
    })?;
    let ids: Vec<_> = batch.keys.iter().map(|entry| selected.key_resolver().normal_id(entry.key.as_bytes())).collect();
    let key_rule = |id| KeyRule::of(BucketKey { scope: &selected.scope, id }, rule, state);
    let key_rules: Vec<_> = ids.iter().map(|id| key_rule(id)).collect();
    let readings = read_all(&store, &key_rules, &batch.keys).await;
    let failed = readings.iter().filter(|reading| reading.is_err()).count();
    let described = batch.keys.iter().zip(&ids).zip(readings.into_iter().zip(&key_rules));
    let keys = described.map(|((entry, id), (reading, key_rule))| {
        let key = key_display::shown(id).to_string();
        let reading = reading.map_err(|lost| entry.error(lost, rules));
        if let Some(change) = entry.change() {
            let change = change.audit(&route.id, rules, &key);
            changes.push(reading.as_ref().map_or_else(|error| format!("{change} failed: {error}"), |_| change.clone()));
        }
        let error = reading.as_ref().err().map(LimitsError::to_string);
        BatchKey { key, reading: reading.ok(), error, effect: key_rule.overridden.as_ref().map(EffectReply::new) }
    });
    let keys = keys.collect();
    let reply = BatchReply { rule: RuleReply::new(route, selected), store: store.name(), keys };
    Ok(match failed {
        0 => json(StatusCode::OK, &reply),
        failed => {
            let detail = format!("{failed} of {} keys failed, each with its `error` in `keys`", batch.keys.len());
            problem_with(StatusCode::SERVICE_UNAVAILABLE, &detail, reply)
        }
    })
}

/// Reads each key under the rule in effect for it, after its grant: one call for each rule.
async fn read_all(store: &BucketStore, key_rules: &[KeyRule<'_>], keys: &[KeyGrant]) -> Vec<Result<Reading, Lost>> {
    let mut groups: Vec<(&Rule, Vec<usize>, Vec<_>)> = Vec::new();
    for (position, (key_rule, entry)) in key_rules.iter().zip(keys).enumerate() {
        let (rule, grant) = (key_rule.in_effect(), (key_rule.check(0).key, entry.grant));
        match groups.iter_mut().find(|(grouped, ..)| *grouped == rule) {
            Some((_, positions, grants)) => {
                positions.push(position);
                grants.push(grant);
            }
            None => groups.push((rule, vec![position], vec![grant])),
        }
    }
    let mut readings = Vec::with_capacity(keys.len());
    for (rule, positions, grants) in groups {
        readings.extend(positions.into_iter().zip(store.read_all(rule, &grants).await));
    }
    readings.sort_by_key(|(position, _)| *position);
    readings.into_iter().map(|(_, reading)| reading).collect()
}

impl KeyGrant {
    fn change(&self) -> Option<Change> {
        self.grant.map(|grant| Change::Grant(i64::try_from(grant).unwrap_or(i64::MAX)))
    }

    /// Returns the error of a key whose state is lost.
    fn error(&self, lost: Lost, rules: &[NamedLimit<'_>]) -> LimitsError {
        match self.change() {
            Some(change) => lost.during(change, rules, 0).into(),
            None => LimitsError::Unreachable,
        }
    }
}
