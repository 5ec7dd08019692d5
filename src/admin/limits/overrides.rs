//! `/api/overrides`: temporary overrides of limits, of one key or of every key of a rule.

use std::time::{Duration, Instant};

use http::StatusCode;
use humantime::format_duration;
use hyper::body::Incoming;
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::admin::access::Caller;
use crate::admin::admin_state::AdminState;
use crate::admin::limits::error::LimitsError;
use crate::admin::limits::reply::{EndedOverride, ListedOverride, NewOverride, Numbers, OverrideNumbers, RuleReply};
use crate::admin::limits::selection::{Selector, name, only, quoted, select_for};
use crate::admin::limits::{Place, selector};
use crate::admin::reply::{Reply, audited, json, whole_millis};
use crate::admin::request::{BodyError, ExpiresIn, MAX_BYTES, read_body};
use tollgate_config::{Limit, NamedLimit};
use tollgate_proxy::state::overrides::{
    Override, OverrideEffect, OverrideNames, OverrideTarget, RuleChange, check_names,
};
use tollgate_telemetry::key_display;

/// Longest key. Redis returns all overrides in one reply.
const MAX_KEY_BYTES: usize = 1024;

/// Body of a PUT.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::admin) struct OverrideBody {
    rule: Option<String>,
    plan: Option<String>,
    expires_in: ExpiresIn,
    #[schemars(default)]
    unlimited: bool,
    #[schemars(default)]
    block: bool,
    /// Factor of the rule's counts and rates.
    factor: Option<u64>,
    /// Numbers that change.
    #[schemars(flatten, with = "Numbers")]
    numbers: Map<String, Value>,
}

/// Lists the overrides.
pub(in crate::admin) fn list(state: &AdminState) -> Reply {
    json(StatusCode::OK, &state.stores.overrides.all().iter().map(listed).collect::<Vec<_>>())
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
    Ok((id, selector(place.query)))
}

/// Sets an override by `caller`.
pub(in crate::admin) async fn set(
    place: Place<'_>,
    body: Incoming,
    caller: &Caller,
    state: &AdminState,
) -> Result<Reply, LimitsError> {
    let config = state.config.load_full();
    let (id, query) = checked(&place)?;
    let key = place.key;
    let members = read_body(body, MAX_BYTES, "an override").await.map_err(|error| match error {
        BodyError::Invalid { reason, .. } => LimitsError::BadOverride(reason),
        BodyError::Slow => error.into(),
    });
    let body = OverrideBody::of(members?)?;
    let ExpiresIn(time) = body.expires_in;
    let selector = query.or(body.rule.clone(), body.plan.clone());
    let (route, _) = place.route(&config)?;
    let selected = only(&body.fitting(select_for(route, &selector, key, &config, state).await?))?;
    let effect = body.effect(selected.limit)?;
    check_possible(&selected, key)?;
    let target = target(&selected, key, state);
    if state.stores.overrides.is_ambiguous(&target, &selected.limit.rule) {
        return Err(LimitsError::AmbiguousOverride);
    }
    let applied = format!(
        "{}: {effect} for {}, until {}",
        named_override(id, name(&selected), key),
        format_duration(time),
        end_after(time)
    );
    let reply = NewOverride {
        rule: RuleReply::new(route, &selected),
        key: key.map(shown_key),
        numbers: OverrideNumbers::from(&effect),
        expires_in_ms: whole_millis(time),
    };
    let names = OverrideNames { route: id.to_owned(), rule: name(&selected).to_owned(), by: caller.to_string() };
    let new = Override { target, effect, names, until: Instant::now() + time };
    state.stores.set_override(new, &config).await?;
    Ok(audited(json(StatusCode::OK, &reply), applied))
}

/// Refuses a key that no request of the rule has, unless it is a hash.
fn check_possible(selected: &NamedLimit<'_>, key: Option<&[u8]>) -> Result<(), LimitsError> {
    let resolver = selected.key_resolver();
    match key.filter(|key| !key.starts_with(b"#") && !resolver.can_return(&resolver.normal_id(key))) {
        Some(key) => {
            Err(LimitsError::BadOverride(format!("no request has the key `{}` of `{resolver}`", shown_key(key))))
        }
        None => Ok(()),
    }
}

/// Ends an override. One whose rule is no longer that of the key is found by its names.
pub(in crate::admin) async fn end(place: Place<'_>, state: &AdminState) -> Result<Reply, LimitsError> {
    let config = &state.config.load_full();
    let (id, query) = &checked(&place)?;
    let (id, key) = (*id, place.key);
    let configured = match config.routes.iter().find(|route| *route.id == *id) {
        Some(route) => select_for(route, query, key, config, state).await.and_then(|rules| Ok((route, only(&rules)?))),
        None => Err(LimitsError::no_route(id, config)),
    };
    let ended = |rule: String, settings| {
        let applied = format!("{} removed", named_override(id, &rule, key));
        let reply = EndedOverride { route: id.to_owned(), rule, settings, key: key.map(shown_key) };
        Ok(audited(json(StatusCode::OK, &reply), applied))
    };
    if let Ok((route, selected)) = &configured
        && state.stores.remove_override(&target(selected, key, state), config).await?
    {
        let RuleReply { rule, settings, .. } = RuleReply::new(route, selected);
        return ended(rule, Some(settings));
    }
    let overrides = state.stores.overrides.find(id, query.rule.as_deref(), query.plan.as_deref(), key);
    if let [it] = overrides.as_slice()
        && state.stores.remove_override(&it.target, config).await?
    {
        return ended(it.names.rule.clone(), None);
    }
    match configured {
        _ if overrides.len() > 1 => Err(LimitsError::SeveralOverrides(choices(&overrides))),
        Ok(_) | Err(LimitsError::SeveralRules(_) | LimitsError::SeveralResolvers(_)) => Err(LimitsError::NoOverride),
        Err(error) => Err(error),
    }
}

/// Lists the rules and plans of overrides to choose from.
fn choices(overrides: &[Override]) -> String {
    let name = |each: &Override| quoted(&each.names.rule, each.target.plan.as_deref());
    overrides.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn target(selected: &NamedLimit<'_>, key: Option<&[u8]>, state: &AdminState) -> OverrideTarget {
    OverrideTarget {
        scope: selected.scope.to_string(),
        plan: selected.plan.map(str::to_owned),
        key: key.map(|key| state.stores.overrides.named_id(&selected.key_resolver().normal_id(key))),
    }
}

fn named_override(route: &str, rule: &str, key: Option<&[u8]>) -> String {
    let key = key.map_or_else(|| "every key".to_owned(), |key| format!("key {}", key_display::shown(key)));
    format!("override of rule {rule} of route {route} for {key}")
}

fn shown_key(key: &[u8]) -> String {
    key_display::shown(key).into_owned()
}

fn listed((it, in_effect): &(Override, bool)) -> ListedOverride {
    let left = it.until.saturating_duration_since(Instant::now());
    ListedOverride {
        route: it.names.route.clone(),
        rule: it.names.rule.clone(),
        plan: it.target.plan.clone(),
        key: it.target.key.as_deref().map(shown_key),
        numbers: OverrideNumbers::from(&it.effect),
        in_effect: *in_effect,
        by: it.names.by.clone(),
        expires_in_ms: whole_millis(left),
        expires_at: end_after(left),
    }
}

/// Returns the time of day after `time`, in seconds and UTC.
fn end_after(time: Duration) -> String {
    let end = SignedDuration::try_from(time).ok().and_then(|time| Timestamp::now().checked_add(time).ok());
    end.map(|end| format!("{end:.0}")).unwrap_or_default()
}

impl OverrideBody {
    fn of(mut members: Map<String, Value>) -> Result<Self, LimitsError> {
        let missing = || LimitsError::BadOverride("`expires-in` is missing, a time such as `15m`".into());
        let rule = take(&mut members, "rule")?;
        let plan = take(&mut members, "plan")?;
        let expires_in = take(&mut members, "expires-in")?.ok_or_else(missing)?;
        let unlimited = take(&mut members, "unlimited")?.unwrap_or_default();
        let block = take(&mut members, "block")?.unwrap_or_default();
        let factor = take(&mut members, "factor")?;
        Ok(Self { rule, plan, expires_in, unlimited, block, factor, numbers: members })
    }

    /// Keeps the rules that have all numbers of the body, if there are such rules.
    fn fitting<'c>(&self, rules: Vec<NamedLimit<'c>>) -> Vec<NamedLimit<'c>> {
        let has = |rule: &NamedLimit<'_>, name: &String| {
            rule.limit.rule.algorithm().spec().numbers.iter().any(|number| number.name == name)
        };
        let fits = |rule: &&NamedLimit<'c>| self.numbers.keys().all(|name| has(rule, name));
        let fitting: Vec<_> = rules.iter().filter(fits).cloned().collect();
        if fitting.is_empty() { rules } else { fitting }
    }

    /// Returns the effect on the rule of `limit`. The configuration would warn of numbers that deny every request; here, they
    /// are refused.
    fn effect(&self, limit: &Limit) -> Result<OverrideEffect, LimitsError> {
        let rule = &limit.rule;
        let change = match (self.unlimited, self.block, self.factor, self.numbers.is_empty()) {
            (true, false, None, true) => return Ok(OverrideEffect::Unlimited),
            (false, true, None, true) => return Ok(OverrideEffect::Block),
            (false, false, Some(factor), true) => RuleChange::scaled(rule, factor),
            (false, false, None, _) => {
                check_names(rule.algorithm(), self.numbers.keys().map(String::as_str))
                    .map_err(|error| LimitsError::BadOverride(error.to_string()))?;
                let change = RuleChange::deserialize(&self.numbers);
                change.map_err(|error| LimitsError::BadOverride(error.to_string()))?.with_period_of(rule)
            }
            _ => {
                let reason = "numbers, `factor`, `unlimited` and `block` exclude each other";
                return Err(LimitsError::BadOverride(reason.into()));
            }
        };
        let rule = change.apply(rule).map_err(|error| LimitsError::BadOverride(error.to_string()))?;
        if let Some(reason) = (Limit { rule, ..limit.clone() }).denies_all() {
            return Err(LimitsError::BadOverride(format!("{reason}; to deny every request, use `block`")));
        }
        Ok(OverrideEffect::Rule(change))
    }
}

fn take<T: DeserializeOwned>(members: &mut Map<String, Value>, name: &str) -> Result<Option<T>, LimitsError> {
    let Some(value) = members.remove(name) else { return Ok(None) };
    serde_json::from_value(value).map(Some).map_err(|error| LimitsError::BadOverride(format!("`{name}`: {error}")))
}
