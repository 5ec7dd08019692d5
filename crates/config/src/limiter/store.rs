//! Where a limiter's buckets are kept, and what happens without Redis.

use std::num::NonZeroU32;
use std::time::Duration;

use tollgate_limiter::store::OnStoreFailure;

use super::args::Section;
use super::{Atomicity, GatewayNumber, Limits, LockRetry, StoreKind};
use crate::problem::Sink;
use crate::units::parse_time;
use crate::yaml::Origin;

/// Where, what without Redis, shared by how many gateways, and how decisions are kept apart.
pub(super) fn store(
    section: &Section<'_>,
    origin: Origin,
    limits: &Limits<'_>,
    sink: &mut Sink,
) -> Option<(Option<StoreKind>, OnStoreFailure, GatewayNumber, Atomicity)> {
    let kind = match section.word("store", &["memory", "redis"], sink).ok()? {
        None => None,
        Some(0) => Some(StoreKind::Memory),
        Some(_) => {
            if !limits.has_redis {
                let at = section.first("store").map_or(origin, |arg| arg.origin);
                sink.error(at, "`store: redis` without `redis:`")
                    .help("add `redis: {url: \"redis://127.0.0.1:6379\"}`");
            }
            Some(StoreKind::Redis)
        }
    };
    let asks_redis = limits.has_redis && kind != Some(StoreKind::Memory);
    let on_failure = on_store_failure(section, origin, asks_redis, sink)?;
    let atomicity = atomicity(section, sink)?;
    let gateways = gateways(section, sink)?;
    let at = section.first("gateways").map_or(origin, |arg| arg.origin);
    if section.has("gateways") && (!asks_redis || on_failure != OnStoreFailure::Local && !section.has("lease")) {
        sink.warn(at, "`gateways` does nothing: it divides the limit where Redis is out of reach and `on-store-failure` is `local`")
            .help("remove it");
    } else if gateways == GatewayNumber::Auto && atomicity != Atomicity::Script {
        sink.error(at, "`gateways: auto` counts by a script, which `atomicity: lock` does without")
            .help("write how many gateways there are");
    }
    Some((kind, on_failure, gateways, atomicity))
}

fn gateways(section: &Section<'_>, sink: &mut Sink) -> Option<GatewayNumber> {
    let Some(arg) = section.get("gateways", sink) else {
        return (!section.has("gateways")).then_some(GatewayNumber::Fixed(NonZeroU32::MIN));
    };
    let text = arg.value.trim();
    if text.eq_ignore_ascii_case("auto") {
        return Some(GatewayNumber::Auto);
    }
    let count = text.parse().ok().map(GatewayNumber::Fixed);
    if count.is_none() {
        sink.error(arg.origin, format!("`gateways` must be `auto` or from 1 to {}, got `{text}`", u32::MAX));
    }
    count
}

fn on_store_failure(
    section: &Section<'_>,
    origin: Origin,
    asks_redis: bool,
    sink: &mut Sink,
) -> Option<OnStoreFailure> {
    Some(match section.word("on-store-failure", &["local", "allow", "deny"], sink).ok()? {
        Some(0) => OnStoreFailure::Local,
        Some(1) => OnStoreFailure::Allow,
        Some(_) => OnStoreFailure::Deny,
        None if !sink.is_spring => OnStoreFailure::Local,
        None => {
            if asks_redis {
                sink.info(origin, "while Redis is out of reach every request passes, as in Spring")
                    .help("`on-store-failure: local` limits in memory meanwhile");
            }
            OnStoreFailure::Allow
        }
    })
}

fn atomicity(section: &Section<'_>, sink: &mut Sink) -> Option<Atomicity> {
    let word = section.word("atomicity", &["script", "lock"], sink).ok()?;
    let lock = section.map("lock");
    if word != Some(1) {
        if let Some(arg) = section.first("lock") {
            sink.error(arg.origin.key(), "`lock` goes with `atomicity: lock`").help("remove it, or add that");
        }
        return Some(Atomicity::Script);
    }
    lock.check_names("`lock`", &["retry", "delay", "base", "max", "jitter", "tries"], sink);
    let exponential = lock.word("retry", &["fixed", "exponential"], sink).ok()? != Some(0);
    let field = if exponential { "base" } else { "delay" };
    for other in
        ["delay", "base", "max"].into_iter().filter(|other| *other != field && (!exponential || *other == "delay"))
    {
        if let Some(arg) = lock.first(other) {
            let retry = if exponential { "exponential" } else { "fixed" };
            sink.error(arg.origin.key(), format!("`{other}` is not a field of `retry: {retry}`"));
        }
    }
    let time = |name: &str, default: u64, sink: &mut Sink| match lock.get(name, sink) {
        None => Some(Duration::from_millis(default)),
        Some(arg) => parse_time(&arg.value).map_err(|message| sink.error(arg.origin, message)).ok(),
    };
    let tries = match lock.number("tries", sink).ok()? {
        None => NonZeroU32::MIN.saturating_add(4),
        Some(tries) => match u32::try_from(tries).ok().and_then(NonZeroU32::new) {
            Some(tries) => tries,
            None => {
                let at = lock.first("tries").map_or(Origin::ROOT, |arg| arg.origin);
                sink.error(at, "`tries` must be at least 1");
                return None;
            }
        },
    };
    let retry = LockRetry {
        exponential,
        base: time(field, 100, sink)?,
        max: time("max", 2_000, sink)?,
        jitter: time("jitter", 200, sink)?,
        tries,
    };
    Some(Atomicity::Lock(retry))
}
