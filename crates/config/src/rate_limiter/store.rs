//! Store of a limiter, decisions while Redis is unreachable, and leases: requests that are paid for in advance.

use std::num::NonZeroU32;
use std::time::Duration;

use tollgate_filters::request_rate_limiter::CostSource;
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::store::redis::RedisStore;

use crate::de::{Given, Spanned, Time};
use crate::diagnostics::{Diagnostics, Reported};
use crate::rate_limiter::args::{LimiterArgs, LockArgs};
use crate::rate_limiter::context::LimiterContext;
use crate::rate_limiter::model::{Atomicity, GatewayNumber, Limit, LockRetry, RateLimiter, StoreKind};
use crate::rate_limiter::value_enums::{AtomicityWord, LockRetryWord};
use crate::yaml::Span;

/// Longest `lease`. Other gateways do not see leased tokens, and one call per second costs nothing.
const LONGEST_LEASE: Duration = Duration::from_secs(10);

/// Store settings of one limiter.
pub(super) struct Storage {
    /// `None` if `store` is absent: Redis if configured, otherwise memory.
    pub(super) kind: Option<StoreKind>,
    pub(super) on_failure: OnStoreFailure,
    pub(super) gateways: GatewayNumber,
    pub(super) atomicity: Atomicity,
}

/// Checks the store settings of a limiter at `at`.
pub(super) fn storage(
    args: &LimiterArgs,
    at: Span,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<Storage, Reported> {
    let store = args.store.checked()?;
    if let Some(store) = store {
        report_missing_redis(store, context, diagnostics);
    }
    let kind = store.map(|store| store.value);
    let in_redis = context.has_redis && kind != Some(StoreKind::Memory);
    let on_failure = args.on_store_failure.optional()?.or(context.settings.on_store_failure);
    let on_failure = on_failure.map(OnStoreFailure::from).unwrap_or_default();
    let atomicity = atomicity(args, diagnostics)?;
    let gateways = args.gateways.or(GatewayNumber::Fixed(NonZeroU32::MIN))?;
    let gateways_at = args.gateways.span().unwrap_or(at);
    let divides = in_redis && (on_failure == OnStoreFailure::Local || args.lease.is_given());
    if args.gateways.is_given() && !divides {
        diagnostics
            .warn(gateways_at, "`gateways` has no effect: it needs Redis, and `on-store-failure: local` or a `lease`")
            .ineffective()
            .help("remove it");
    } else if gateways == GatewayNumber::Auto && atomicity != Atomicity::Script {
        diagnostics
            .error(gateways_at, "`gateways: auto` needs scripts, which `atomicity: lock` avoids")
            .help("write the number of gateways");
    }
    Ok(Storage { kind, on_failure, gateways, atomicity })
}

/// Reports limits of which a gateway has less than one request while Redis is unreachable.
pub(super) fn warn_of_small_shares(limiter: &RateLimiter, at: Span, diagnostics: &mut Diagnostics) {
    let (GatewayNumber::Fixed(gateways), OnStoreFailure::Local) = (limiter.gateways, limiter.on_store_failure) else {
        return;
    };
    let is_small = |rule: &&Rule| {
        let has_shares = !matches!(rule, Rule::LeakyBucket(_));
        has_shares && (1..u64::from(gateways.get())).contains(&rule.capacity())
    };
    if let Some(rule) = limiter.limits().map(|limit| &limit.rule).find(is_small) {
        diagnostics
            .warn(
                at,
                format!(
                    "while Redis is unreachable, each of {gateways} gateways has less than one request of the limit of {}, and \
                     responds with 503",
                    rule.capacity()
                ),
            )
            .help("raise the limit, or write `on-store-failure: allow`");
    }
}

/// Reports a store in Redis without a section `redis`.
pub(crate) fn report_missing_redis(
    store: &Spanned<StoreKind>,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) {
    if store.value == StoreKind::Redis && !context.has_redis {
        diagnostics
            .error(store.span, "`store: redis` without `redis:`")
            .help("add `redis: {url: \"redis://127.0.0.1:6379\"}`");
    }
}

fn atomicity(args: &LimiterArgs, diagnostics: &mut Diagnostics) -> Result<Atomicity, Reported> {
    if args.atomicity.or(AtomicityWord::Script)? == AtomicityWord::Lock {
        let lock = args.lock.or(LockArgs::default())?;
        return lock_retry(&lock, diagnostics).map(Atomicity::Lock);
    }
    if let Some(lock) = args.lock.span() {
        diagnostics
            .error(lock.key(), "`lock` applies to `atomicity: lock` only")
            .help("remove it, or add `atomicity: lock`");
    }
    Ok(Atomicity::Script)
}

fn lock_retry(lock: &LockArgs, diagnostics: &mut Diagnostics) -> Result<LockRetry, Reported> {
    let exponential = lock.retry.or(LockRetryWord::Exponential)? == LockRetryWord::Exponential;
    let (first, retry, other_fields) = match exponential {
        true => (&lock.base, "exponential", vec![("delay", lock.delay.span())]),
        false => (&lock.delay, "fixed", vec![("base", lock.base.span()), ("max", lock.max.span())]),
    };
    for (name, span) in other_fields {
        if let Some(span) = span {
            diagnostics.error(span.key(), format!("`{name}` is not a field of `retry: {retry}`"));
        }
    }
    let time = |given: &Given<Time>, default_ms| given.or(Time(Duration::from_millis(default_ms))).map(|time| time.0);
    Ok(LockRetry {
        exponential,
        base: time(first, 100)?,
        max: time(&lock.max, 2_000)?,
        jitter: time(&lock.jitter, 200)?,
        tries: lock.tries.or(NonZeroU32::MIN.saturating_add(4))?,
    })
}

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
    if lease > LONGEST_LEASE {
        let error = diagnostics.error(at, format!("`lease` must be at most {LONGEST_LEASE:?}, got {lease:?}"));
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
