//! `lease`: requests that are paid for in advance.

use std::time::Duration;

use tollgate_filters::request_rate_limiter::CostSource;
use tollgate_limiter::store::redis::RedisStore;

use crate::diagnostics::{Diagnostics, Reported};
use crate::rate_limiter::args::LimiterArgs;
use crate::rate_limiter::model::{Atomicity, Limit};

/// Longest value. Other gateways do not see leased tokens, and one call per second costs nothing.
const LONGEST: Duration = Duration::from_secs(10);

/// Checks `lease`. Returns `None` if there is none.
pub(super) fn lease<'l>(
    args: &LimiterArgs,
    atomicity: &Atomicity,
    in_redis: bool,
    mut limits: impl Iterator<Item = &'l Limit>,
    diagnostics: &mut Diagnostics,
) -> Result<Option<Duration>, Reported> {
    let Some(lease) = args.lease.checked()? else { return Ok(None) };
    let (at, lease) = (lease.span, lease.value.time);
    if lease > LONGEST {
        let error = diagnostics.error(at, format!("`lease` must be at most {LONGEST:?}, got {lease:?}"));
        return Err(error.reported_with("100ms is enough where thousands of requests per second share a key"));
    }
    if *atomicity != Atomicity::Script {
        let error = diagnostics.error(at, "`lease` cannot be combined with `atomicity: lock`");
        return Err(error.reported_with("remove one of them"));
    }
    let is_late = |limit: &Limit| {
        matches!(
            limit.cost.source,
            CostSource::ResponseHeader(_) | CostSource::RequestBody { .. } | CostSource::ResponseBody { .. }
        )
    };
    match limits.find(|limit| !RedisStore::supports_lease(&limit.rule) || is_late(limit)) {
        Some(limit) if is_late(limit) => {
            let message = "`lease` cannot be combined with a `cost` that is known only after the decision";
            let help = "remove one of them, or take the cost from a request header";
            return Err(diagnostics.error(at, message).reported_with(help));
        }
        Some(limit) => {
            if limit.rule.algorithm().spec().leasable {
                let message = "`lease` is supported with `refill: smooth` only";
                return Err(diagnostics.error(at, message).reported_with("remove one of them"));
            }
            let message = format!("`lease` is not supported by `{}`", limit.rule.algorithm().as_str());
            return Err(diagnostics.error(at, message).reported_with("use `token-bucket`, `gcra` or `fixed-window`"));
        }
        None => {}
    }
    if lease > RedisStore::MAX_LEASE {
        diagnostics
            .warn(at, "a `lease` lasts at most 1s, so that an operator's change reaches every gateway within that time")
            .help("write `lease: 1s`");
    }
    if !in_redis {
        diagnostics
            .warn(at, "`lease` has no effect in memory: it saves calls of Redis")
            .ineffective()
            .help("remove it");
    }
    Ok(Some(lease))
}
