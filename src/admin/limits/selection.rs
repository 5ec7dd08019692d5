//! Selection of the rules that a call of the limits API reads or changes, and the plan of a key.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::admin::admin_state::AdminState;
use crate::admin::limits::error::LimitsError;
use crate::admin::reply::known_names;
use tollgate_config::{Config, NamedLimit, PlanResolver, Plans, Route};
use tollgate_limiter::plan::PlanSource;
use tollgate_limiter::store::redis::RedisPlans;

/// Names of a call that select rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    /// Name or bucket of a rule.
    pub(super) rule: Option<String>,
    /// Name of a plan; empty for the rules of requests without a plan.
    pub(super) plan: Option<String>,
}

impl Selector {
    /// Returns the names of a body, or else those of the query.
    pub(super) fn or(self, rule: Option<String>, plan: Option<String>) -> Self {
        Self { rule: rule.or(self.rule), plan: plan.or(self.plan) }
    }
}

impl Selector {
    fn selects(&self, rule: &NamedLimit<'_>) -> bool {
        // In a shell, the `#` of a bucket begins a comment.
        let has_name = |name: &String| {
            self::name(rule) == *name || *rule.scope == **name || rule.scope.strip_prefix('#') == Some(name.as_str())
        };
        self.rule.as_ref().is_none_or(has_name)
            && self.plan.as_ref().is_none_or(|plan| rule.plan.unwrap_or_default() == plan)
    }
}

/// Returns the name of a rule in calls and responses.
pub(super) fn name<'r>(rule: &'r NamedLimit<'_>) -> &'r str {
    rule.name.as_deref().unwrap_or(&rule.scope)
}

/// Returns the name of a rule, or of its bucket, and that of its plan, for messages.
pub(super) fn quoted(name: &str, plan: Option<&str>) -> String {
    plan.map_or_else(|| format!("`{name}`"), |plan| format!("`{name}` of plan `{plan}`"))
}

/// Returns the name of a rule with its plan, for lists of names.
fn shown_name(rule: &NamedLimit<'_>) -> String {
    rule.plan.map_or_else(|| name(rule).to_owned(), |plan| format!("{} of plan {plan}", name(rule)))
}

/// Returns every rule of a route.
pub(super) fn rules(route: &Route) -> Vec<NamedLimit<'_>> {
    route.rate_limiters().flat_map(|naming| naming.all()).collect()
}

/// Returns the rules of `route` to which a key belongs.
///
/// A key belongs to the rules of one key resolver: the limiter's. A rule with a resolver of its own counts other keys,
/// and must be named.
pub(super) fn select<'c>(route: &'c Route, selector: &Selector) -> Result<Vec<NamedLimit<'c>>, LimitsError> {
    let mut selected = rules(route);
    if selected.is_empty() {
        return Err(LimitsError::NoRules(route.id.to_string()));
    }
    selected.retain(|rule| selector.selects(rule));
    let Some(first) = selected.first() else { return Err(no_rule(route, selector)) };
    let inherits = |rule: &&NamedLimit<'_>| rule.limit.key_resolver.is_none();
    let resolver = match selected.iter().find(inherits) {
        Some(rule) if selector.rule.is_none() => rule.key_resolver().clone(),
        _ if selected.iter().any(|rule| rule.key_resolver() != first.key_resolver()) => {
            return Err(LimitsError::SeveralResolvers(choices(&selected)));
        }
        _ => first.key_resolver().clone(),
    };
    selected.retain(|rule| *rule.key_resolver() == resolver);
    Ok(selected)
}

fn no_rule(route: &Route, selector: &Selector) -> LimitsError {
    let selection = match (&selector.rule, &selector.plan) {
        (Some(rule), Some(plan)) => format!("rule `{rule}` of a plan `{plan}`"),
        (None, Some(plan)) => format!("rule of a plan `{plan}`"),
        (rule, None) => format!("rule `{}`", rule.as_deref().unwrap_or_default()),
    };
    let rule_names = known_names("its rules", rules(route).iter().map(shown_name));
    LimitsError::NoRule { route: route.id.to_string(), selection, rule_names }
}

/// Returns the rules of `route` that count `key` at present: unless the call names a plan, those of the plan that the key has
/// in the table or in Redis. If each request names its own plan, the rules of all plans.
pub(super) async fn select_for<'c>(
    route: &'c Route,
    selector: &Selector,
    key: Option<&[u8]>,
    config: &Config,
    state: &AdminState,
) -> Result<Vec<NamedLimit<'c>>, LimitsError> {
    let mut selected = select(route, selector)?;
    let (Some(key), None, [first, _, ..]) = (key, &selector.plan, selected.as_slice()) else { return Ok(selected) };
    let key = first.key_resolver().normal_id(key);
    let KeyPlan::ByKey(plan) = key_plan(&selected, &key, config, state).await? else { return Ok(selected) };
    let planned = selected.iter().find(|rule| rule.limiter.plans.is_some()).map(|rule| rule.limiter);
    let has_plan = |rule: &NamedLimit<'_>| planned.is_some_and(|limiter| std::ptr::eq(limiter, rule.limiter));
    selected.retain(|rule| !has_plan(rule) || rule.plan == plan.as_deref());
    if selected.is_empty() {
        return Err(no_rule(route, &Selector { plan: Some(plan.unwrap_or_default()), ..selector.clone() }));
    }
    Ok(selected)
}

/// Returns the only one of `rules`, for a call whose number has a meaning under one rule only.
pub(super) fn only<'c>(rules: &[NamedLimit<'c>]) -> Result<NamedLimit<'c>, LimitsError> {
    let [rule] = rules else { return Err(LimitsError::SeveralRules(choices(rules))) };
    Ok(rule.clone())
}

/// Lists the buckets and plans to choose from.
fn choices(rules: &[NamedLimit<'_>]) -> String {
    let bucket = |rule: &NamedLimit<'_>| quoted(rule.scope.strip_prefix('#').unwrap_or(&rule.scope), rule.plan);
    rules.iter().map(bucket).collect::<Vec<_>>().join(", ")
}

/// Plan of a key.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(in crate::admin) enum KeyPlan {
    /// Plans are absent, or each request names its own.
    #[serde(skip)]
    Absent,
    /// Plan that the key has; null for a key without a plan.
    ByKey(Option<String>),
}

impl KeyPlan {
    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// Returns the plan of `key` under the first of `rules` whose limiter has plans by key.
///
/// # Errors
/// Plans are in Redis, which is unreachable.
pub(super) async fn key_plan(
    rules: &[NamedLimit<'_>],
    key: &[u8],
    config: &Config,
    state: &AdminState,
) -> Result<KeyPlan, LimitsError> {
    let Some(plans) = rules.iter().find_map(|rule| rule.limiter.plans.as_ref()) else { return Ok(KeyPlan::Absent) };
    let name = match &plans.resolver {
        PlanResolver::Request(_) => return Ok(KeyPlan::Absent),
        PlanResolver::Table(table) => std::str::from_utf8(key).ok().and_then(|key| table.get(key)).cloned(),
        PlanResolver::RedisHash { key: hash, .. } => {
            let client = state.stores.redis_client().ok_or(LimitsError::Unreachable)?;
            let hashes = config.redis.as_ref().is_some_and(|redis| redis.limiters.hash_keys.get());
            let source = RedisPlans::new(client, hash.clone(), Duration::ZERO).hash_keys(hashes);
            source.plan(key).get().await.map(|plan| plan.to_string())
        }
    };
    Ok(KeyPlan::ByKey(configured(plans, name)))
}

/// Returns `name` if there is such a plan, otherwise the default.
fn configured(plans: &Plans, name: Option<String>) -> Option<String> {
    let name = name.filter(|name| plans.sets.iter().any(|(plan, _)| plan == name));
    name.or_else(|| plans.default.clone())
}
