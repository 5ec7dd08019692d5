//! Plan of a key.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tollgate_limiter::plan::{PlanLookup, PlanSource};
use tollgate_limiter::store::redis::RedisPlans;

use crate::admin::limits::error::LimitsError;
use crate::admin::limits::selection::RouteRule;
use crate::admin::state::AdminState;
use tollgate_config::{Config, PlanResolver, Plans};

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
pub(super) async fn plan(
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
