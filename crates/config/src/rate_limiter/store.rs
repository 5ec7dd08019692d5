//! Where a limiter's buckets are kept, and what happens without Redis.

use std::num::NonZeroU32;
use std::time::Duration;

use tollgate_limiter::store::OnStoreFailure;

use crate::de::units::parse_time;
use crate::diagnostics::Diagnostics;
use crate::model::{Atomicity, GatewayNumber, LockRetry, StoreKind};
use crate::rate_limiter::args::Section;
use crate::rate_limiter::limits::Limits;
use crate::yaml::Span;

/// Where, what without Redis, shared by how many gateways, and how decisions are kept apart.
pub(super) fn store(
    section: &Section<'_>,
    span: Span,
    limits: &Limits<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<(Option<StoreKind>, OnStoreFailure, GatewayNumber, Atomicity)> {
    let kind = match section.word("store", &["memory", "redis"], diagnostics).ok()? {
        None => None,
        Some(0) => Some(StoreKind::Memory),
        Some(_) => {
            if !limits.has_redis {
                let at = section.first("store").map_or(span, |arg| arg.span);
                diagnostics
                    .error(at, "`store: redis` without `redis:`")
                    .help("add `redis: {url: \"redis://127.0.0.1:6379\"}`");
            }
            Some(StoreKind::Redis)
        }
    };
    let asks_redis = limits.has_redis && kind != Some(StoreKind::Memory);
    let on_failure = on_store_failure(section, span, asks_redis, diagnostics)?;
    let atomicity = atomicity(section, diagnostics)?;
    let gateways = gateways(section, diagnostics)?;
    let at = section.first("gateways").map_or(span, |arg| arg.span);
    if section.has("gateways") && (!asks_redis || on_failure != OnStoreFailure::Local && !section.has("lease")) {
        diagnostics.warn(at, "`gateways` does nothing: it divides the limit where Redis is out of reach and `on-store-failure` is `local`").ineffective()
            .help("remove it");
    } else if gateways == GatewayNumber::Auto && atomicity != Atomicity::Script {
        diagnostics
            .error(at, "`gateways: auto` counts by a script, which `atomicity: lock` does without")
            .help("write how many gateways there are");
    }
    Some((kind, on_failure, gateways, atomicity))
}

fn gateways(section: &Section<'_>, diagnostics: &mut Diagnostics) -> Option<GatewayNumber> {
    let Some(arg) = section.get("gateways", diagnostics) else {
        return (!section.has("gateways")).then_some(GatewayNumber::Fixed(NonZeroU32::MIN));
    };
    let text = arg.value.trim();
    if text.eq_ignore_ascii_case("auto") {
        return Some(GatewayNumber::Auto);
    }
    let count = text.parse().ok().map(GatewayNumber::Fixed);
    if count.is_none() {
        diagnostics.error(arg.span, format!("`gateways` must be `auto` or from 1 to {}, got `{text}`", u32::MAX));
    }
    count
}

fn on_store_failure(
    section: &Section<'_>,
    span: Span,
    asks_redis: bool,
    diagnostics: &mut Diagnostics,
) -> Option<OnStoreFailure> {
    Some(match section.word("on-store-failure", &["local", "allow", "deny"], diagnostics).ok()? {
        Some(0) => OnStoreFailure::Local,
        Some(1) => OnStoreFailure::Allow,
        Some(_) => OnStoreFailure::Deny,
        None if !diagnostics.is_spring => OnStoreFailure::Local,
        None => {
            if asks_redis {
                diagnostics
                    .info(span, "while Redis is out of reach every request passes, as in Spring")
                    .help("`on-store-failure: local` limits in memory meanwhile");
            }
            OnStoreFailure::Allow
        }
    })
}

fn atomicity(section: &Section<'_>, diagnostics: &mut Diagnostics) -> Option<Atomicity> {
    let word = section.word("atomicity", &["script", "lock"], diagnostics).ok()?;
    let lock = section.map("lock");
    if word != Some(1) {
        if let Some(arg) = section.first("lock") {
            diagnostics.error(arg.span.key(), "`lock` goes with `atomicity: lock`").help("remove it, or add that");
        }
        return Some(Atomicity::Script);
    }
    lock.check_names("`lock`", &["retry", "delay", "base", "max", "jitter", "tries"], diagnostics);
    let exponential = lock.word("retry", &["fixed", "exponential"], diagnostics).ok()? != Some(0);
    let field = if exponential { "base" } else { "delay" };
    for other in
        ["delay", "base", "max"].into_iter().filter(|other| *other != field && (!exponential || *other == "delay"))
    {
        if let Some(arg) = lock.first(other) {
            let retry = if exponential { "exponential" } else { "fixed" };
            diagnostics.error(arg.span.key(), format!("`{other}` is not a field of `retry: {retry}`"));
        }
    }
    let time = |name: &str, default: u64, diagnostics: &mut Diagnostics| match lock.get(name, diagnostics) {
        None => Some(Duration::from_millis(default)),
        Some(arg) => parse_time(&arg.value).map_err(|message| diagnostics.error(arg.span, message)).ok(),
    };
    let tries = match lock.number("tries", diagnostics).ok()? {
        None => NonZeroU32::MIN.saturating_add(4),
        Some(tries) => match u32::try_from(tries).ok().and_then(NonZeroU32::new) {
            Some(tries) => tries,
            None => {
                let at = lock.first("tries").map_or(Span::ROOT, |arg| arg.span);
                diagnostics.error(at, "`tries` must be at least 1");
                return None;
            }
        },
    };
    let retry = LockRetry {
        exponential,
        base: time(field, 100, diagnostics)?,
        max: time("max", 2_000, diagnostics)?,
        jitter: time("jitter", 200, diagnostics)?,
        tries,
    };
    Some(Atomicity::Lock(retry))
}
