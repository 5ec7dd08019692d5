//! Plan of a key.

use std::time::Duration;

use tollgate_limiter::plan::{PlanLookup, PlanSource};
use tollgate_limiter::store::redis::RedisPlans;

use crate::admin::limits::error::LimitsError;
use crate::admin::limits::selection::RouteRule;
use crate::admin::state::AdminState;
use tollgate_config::{Config, PlanResolver, Plans};

/// Returns the plan of `key` under the first of `rules` whose limiter has plans by key, or no plan. The outer `None`: plans
/// are absent, or each request names its own.
///
/// # Errors
/// Plans are in Redis, which is unreachable.
pub(super) async fn plan(
    rules: &[RouteRule<'_>],
    key: &[u8],
    config: &Config,
    state: &AdminState,
) -> Result<Option<Option<String>>, LimitsError> {
    let Some(plans) = rules.iter().find_map(|rule| rule.limiter.plans.as_ref()) else { return Ok(None) };
    let named = match &plans.resolver {
        PlanResolver::Request(_) => return Ok(None),
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
    Ok(Some(known(plans, named)))
}

/// Returns `named` if there is such a plan, otherwise the default.
fn known(plans: &Plans, named: Option<String>) -> Option<String> {
    let named = named.filter(|named| plans.sets.iter().any(|(plan, _)| plan == named));
    named.or_else(|| plans.default.clone())
}
