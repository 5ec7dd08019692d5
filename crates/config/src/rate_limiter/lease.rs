//! `lease`: requests that are paid for in advance.

use std::time::Duration;

use tollgate_filters::request_rate_limiter::CostSource;
use tollgate_limiter::store::redis::RedisStore;

use crate::diagnostics::Diagnostics;
use crate::rate_limiter::args::LimiterArgs;
use crate::rate_limiter::model::{Atomicity, Limit};

/// Longest value. Other gateways do not see leased tokens, and one call per second costs nothing.
const LONGEST: Duration = Duration::from_secs(10);

/// Checks `lease`. Returns `Some(None)` if there is none, `None` after an error.
#[expect(clippy::option_option, reason = "the outer one tells an error from an absent lease")]
pub(super) fn lease<'l>(
    args: &LimiterArgs,
    atomicity: &Atomicity,
    in_redis: bool,
    mut limits: impl Iterator<Item = &'l Limit>,
    diagnostics: &mut Diagnostics,
) -> Option<Option<Duration>> {
    let Some(lease) = args.lease.checked().ok()? else { return Some(None) };
    let (at, lease) = (lease.span, lease.value.time);
    if lease > LONGEST {
        diagnostics
            .error(at, format!("`lease` must be at most {LONGEST:?}, got {lease:?}"))
            .help("100ms is enough where thousands of requests per second share a key");
        return None;
    }
    if *atomicity != Atomicity::Script {
        diagnostics.error(at, "`lease` cannot be combined with `atomicity: lock`").help("remove one of them");
        return None;
    }
    let is_late = |limit: &Limit| {
        matches!(
            limit.cost.source,
            CostSource::ResponseHeader(_) | CostSource::RequestBody { .. } | CostSource::ResponseBody { .. }
        )
    };
    match limits.find(|limit| !RedisStore::supports_lease(&limit.rule) || is_late(limit)) {
        Some(limit) if is_late(limit) => {
            diagnostics
                .error(at, "`lease` cannot be combined with a `cost` that is known only after the decision")
                .help("remove one of them, or take the cost from a request header");
            return None;
        }
        Some(limit) => {
            diagnostics
                .error(at, format!("`lease` is not supported by `{}`", limit.rule.algorithm().as_str()))
                .help("use `token-bucket`, `gcra` or `fixed-window`");
            return None;
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
    Some(Some(lease))
}
