//! Selection of the rules that a call of the limits API reads or changes, and the plan of a key.

use std::borrow::Cow;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::admin::admin_state::AdminState;
use crate::admin::limits::error::LimitsError;
use crate::admin::reply::known_names;
use tollgate_config::{Config, NamedLimit, Naming, PlanResolver, Plans, RateLimiter, Route};
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::request_rate_limiter::Enforcement;
use tollgate_limiter::plan::{PlanLookup, PlanSource};
use tollgate_limiter::store::redis::RedisPlans;

/// Rule of a route, with its limiter.
#[derive(Clone, Debug)]
pub(super) struct RouteRule<'c> {
    /// The limiter.
    pub(super) limiter: &'c RateLimiter,
    /// The rule with its names.
    pub(super) named: NamedLimit<'c>,
}

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

impl RouteRule<'_> {
    /// Returns the name of the rule in calls and responses.
    pub(super) fn name(&self) -> &str {
        self.named.name.as_deref().unwrap_or(&self.named.scope)
    }

    /// Returns the name of the rule with its plan, for messages.
    fn shown_name(&self) -> String {
        self.named.plan.map_or_else(|| self.name().to_owned(), |plan| format!("{} of plan {plan}", self.name()))
    }

    /// Returns the resolver of the keys that this rule counts.
    pub(super) fn key_resolver(&self) -> &KeyResolver {
        self.named.limit.key_resolver.as_ref().unwrap_or(&self.limiter.settings.key_resolver)
    }

    /// Returns the id under which the rule counts `key`.
    pub(super) fn key_id<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        self.key_resolver().normal_id(key)
    }

    /// Returns the enforcement of the rule, with that of its limiter.
    pub(super) fn enforcement(&self) -> Enforcement {
        self.named.limit.enforcement.and(self.limiter.settings.enforcement)
    }

    fn matches(&self, selector: &Selector) -> bool {
        let has_name = |rule: &String| self.name() == *rule || *self.named.scope == **rule;
        selector.rule.as_ref().is_none_or(has_name)
            && selector.plan.as_ref().is_none_or(|plan| self.named.plan.unwrap_or_default() == plan)
    }
}

/// Returns every rule of a route.
pub(super) fn rules<'c>(route: &'c Route) -> Vec<RouteRule<'c>> {
    let of_limiter = |naming: Naming<'c>| {
        let limiter = naming.limiter;
        naming.all().into_iter().map(move |named| RouteRule { limiter, named })
    };
    route.rate_limiters().flat_map(of_limiter).collect()
}

/// Returns the rules of `route` to which a key belongs.
///
/// A key belongs to the rules of one key resolver: the limiter's. A rule with a resolver of its own counts other keys,
/// and must be named. `is_change` is true for a call whose number has a meaning under one rule only.
pub(super) fn select<'c>(
    route: &'c Route,
    selector: &Selector,
    is_change: bool,
) -> Result<Vec<RouteRule<'c>>, LimitsError> {
    let mut selected = rules(route);
    if selected.is_empty() {
        return Err(LimitsError::NoRules(route.id.to_string()));
    }
    selected.retain(|rule| rule.matches(selector));
    let Some(first) = selected.first() else {
        let selection = match (&selector.rule, &selector.plan) {
            (Some(rule), Some(plan)) => format!("rule `{rule}` of a plan `{plan}`"),
            (None, Some(plan)) => format!("rule of a plan `{plan}`"),
            (rule, None) => format!("rule `{}`", rule.as_deref().unwrap_or_default()),
        };
        let rule_names = known_names("its rules", rules(route).iter().map(RouteRule::shown_name));
        return Err(LimitsError::NoRule { route: route.id.to_string(), selection, rule_names });
    };
    let inherits = |rule: &&RouteRule<'_>| rule.named.limit.key_resolver.is_none();
    let resolver = match selected.iter().find(inherits) {
        Some(rule) if selector.rule.is_none() => rule.key_resolver().clone(),
        _ if selected.iter().any(|rule| rule.key_resolver() != first.key_resolver()) => {
            return Err(LimitsError::SeveralResolvers(choices(&selected)));
        }
        _ => first.key_resolver().clone(),
    };
    selected.retain(|rule| *rule.key_resolver() == resolver);
    if is_change && selected.len() > 1 {
        return Err(LimitsError::SeveralRules(choices(&selected)));
    }
    Ok(selected)
}

/// Lists the buckets and plans to choose from.
fn choices(rules: &[RouteRule<'_>]) -> String {
    let bucket = |rule: &RouteRule<'_>| match rule.named.plan {
        Some(plan) => format!("`{}` of plan `{plan}`", rule.named.scope),
        None => format!("`{}`", rule.named.scope),
    };
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
    rules: &[RouteRule<'_>],
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
            let hashes = config.redis.as_ref().is_some_and(|redis| redis.hash_keys);
            let source = RedisPlans::new(client, hash.clone(), Duration::ZERO).hash_keys(hashes);
            let plan = match source.plan(key) {
                PlanLookup::Ready(plan) => plan,
                PlanLookup::Pending(plan) => plan.await,
            };
            plan.map(|plan| plan.to_string())
        }
    };
    Ok(KeyPlan::ByKey(configured(plans, name)))
}

/// Returns `name` if there is such a plan, otherwise the default.
fn configured(plans: &Plans, name: Option<String>) -> Option<String> {
    let name = name.filter(|name| plans.sets.iter().any(|(plan, _)| plan == name));
    name.or_else(|| plans.default.clone())
}
