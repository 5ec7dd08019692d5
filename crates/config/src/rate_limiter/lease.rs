//! `lease`: requests that are paid for in advance.

use std::time::Duration;

use tollgate_filters::request_rate_limiter::CostSource;
use tollgate_limiter::store::redis::RedisStore;

use crate::diagnostics::Diagnostics;
use crate::model::{Atomicity, Limit};
use crate::rate_limiter::args::Section;

/// What is held longer is missed by other gateways for longer, and more than a call a second saves nothing.
const LONGEST: Duration = Duration::from_secs(10);

/// For how long, if at all.
pub(super) fn lease<'l>(
    section: &Section<'_>,
    atomicity: &Atomicity,
    in_redis: bool,
    mut limits: impl Iterator<Item = &'l Limit>,
    diagnostics: &mut Diagnostics,
) -> Option<Option<Duration>> {
    let Some(lease) = section.time("lease", diagnostics).ok()? else { return Some(None) };
    let at = section.first("lease").map(|arg| arg.span)?;
    if lease > LONGEST {
        diagnostics
            .error(at, format!("`lease` must be at most {LONGEST:?}, got {lease:?}"))
            .help("100ms is enough where thousands of requests a second share a key");
        return None;
    }
    if *atomicity != Atomicity::Script {
        diagnostics.error(at, "`lease` does not go with `atomicity: lock`").help("remove one of them");
        return None;
    }
    let late = |limit: &Limit| {
        matches!(
            limit.cost.source,
            CostSource::ResponseHeader(_) | CostSource::RequestBody { .. } | CostSource::ResponseBody { .. }
        )
    };
    match limits.find(|limit| !RedisStore::leases(&limit.rule) || late(limit)) {
        Some(limit) if late(limit) => {
            diagnostics
                .error(at, "`lease` does not go with a `cost` that is known only later")
                .help("remove one of them, or let the request say what it costs");
            return None;
        }
        Some(limit) => {
            diagnostics
                .error(at, format!("`lease` does not go with `{}`", limit.rule.algorithm().as_str()))
                .help("it goes with `token-bucket`, `gcra` and `fixed-window`");
            return None;
        }
        None => {}
    }
    if !in_redis {
        diagnostics.warn(at, "`lease` does nothing: it saves calls of Redis").ineffective().help("remove it");
    }
    Some(Some(lease))
}
