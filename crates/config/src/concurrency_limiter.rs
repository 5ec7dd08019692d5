//! `ConcurrencyLimiter`: arguments, checks, and the checked limiter.

use http::StatusCode;
use serde::Deserialize;
use tollgate_filters::concurrency_limiter::{HeaderNames, Settings};
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::request_rate_limiter::ErrorBody;
use tollgate_limiter::concurrency::{Concurrency, ConcurrencyError};
use tollgate_limiter::store::OnStoreFailure;

use crate::de::given::{Given, Texts};
use crate::diagnostics::Diagnostics;
use crate::rate_limiter::context::LimiterContext;
use crate::rate_limiter::model::StoreKind;
use crate::rate_limiter::settings::status;
use crate::rate_limiter::store::store_kind;
use crate::rate_limiter::users::warn_of_key;
use crate::rate_limiter::words::{ErrorBodyWord, OnStoreFailureWord};
use crate::spec::FilterSpec;
#[cfg(test)]
use crate::spec::schema::arguments;
use crate::spec::types::{Count, FieldName, PositiveTime, Status};
use crate::yaml::Span;

/// One concurrency limiter of a route.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimiter {
    /// Slots and their lease.
    pub rule: Concurrency,
    /// Key resolver, and settings of responses.
    pub settings: Settings,
    /// Store of its slots; `None`: Redis if configured.
    pub store: Option<StoreKind>,
    /// Decision while Redis is unreachable.
    pub on_store_failure: OnStoreFailure,
}

/// Arguments of `ConcurrencyLimiter`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
#[cfg_attr(test, schemars(transform = arguments))]
pub(crate) struct ConcurrencyLimiterArgs {
    /// Concurrent requests per key. Required.
    limit: Given<Count>,
    /// Time for which a slot is held without renewal, such as after a crash. Default 30s.
    lease: Given<PositiveTime>,
    /// Interval at which the slots of in-flight requests are renewed. Default: a third of `lease`.
    renew_every: Given<PositiveTime>,
    /// Key that requests are counted by, or a list of several: `ip`, `"header:X-Api-Key"`, `route`, `"#{@name}"`. Required.
    key_resolver: Given<Texts>,
    /// Status if every slot is held. Default 429.
    status_code: Given<Status>,
    /// Refuses requests without a key. Default: `filter.request-rate-limiter.deny-empty-key`.
    deny_empty_key: Given<bool>,
    /// Status of requests without a key. Default: `filter.request-rate-limiter.empty-key-status-code`.
    empty_key_status: Given<Status>,
    /// Store of the slots: `memory` or `redis`. Default: Redis if configured.
    store: Given<StoreKind>,
    /// Decision while Redis is unreachable: `local`, `allow` or `deny`. Default `local`.
    on_store_failure: Given<OnStoreFailureWord>,
    /// Body of refusals: `problem` (text, or RFC 9457 for JSON) or `empty`. Default `problem`.
    error_body: Given<ErrorBodyWord>,
    /// Adds both header fields to responses. Default true.
    include_headers: Given<bool>,
    /// Name of the field with the slots of the key. Default `X-Concurrency-Limit`.
    limit_header: Given<FieldName>,
    /// Name of the field with the free slots. Default `X-Concurrency-Remaining`.
    remaining_header: Given<FieldName>,
}

/// Returns the limiter that `spec` describes. Reports errors; `None` if it cannot be used.
pub(crate) fn check(
    spec: &FilterSpec,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<ConcurrencyLimiter> {
    if let Some(arg) = spec.args.iter().find(|arg| arg.name.is_none()) {
        diagnostics
            .error(arg.span, "`ConcurrencyLimiter` has no shortcut form")
            .help("write `name: ConcurrencyLimiter` and `args: {limit: 10, key-resolver: ip}`");
        return None;
    }
    let args: ConcurrencyLimiterArgs = spec.read(&[], diagnostics);
    let rule = rule(&args, spec.span, diagnostics);
    let settings = settings(&args, spec.span, context, diagnostics);
    let store = store_kind(&args.store, context, diagnostics);
    let on_store_failure = args.on_store_failure.optional()?.map(Into::into).unwrap_or_default();
    Some(ConcurrencyLimiter { rule: rule?, settings: settings?, store: store?, on_store_failure })
}

fn rule(args: &ConcurrencyLimiterArgs, at: Span, diagnostics: &mut Diagnostics) -> Option<Concurrency> {
    let Some(limit) = args.limit.checked().ok()? else {
        diagnostics
            .error(at, "`ConcurrencyLimiter` needs `limit`, the number of concurrent requests per key")
            .help("args: {limit: 10, key-resolver: ip}");
        return None;
    };
    let lease = args.lease.optional()?.map_or(Concurrency::LEASE, |lease| lease.time);
    let renew_every = args.renew_every.optional()?.map(|every| every.time);
    match Concurrency::new(limit.value.0, lease, renew_every) {
        Ok(rule) => {
            if rule.renew_every() > lease / 2 {
                diagnostics
                    .warn(
                        args.renew_every.span().unwrap_or(at),
                        "one failed renewal ends the lease while its request is in flight",
                    )
                    .help(format!("the default is a third of `lease`, {:?}", lease / 3));
            }
            Some(rule)
        }
        Err(error) => {
            let place = match error {
                ConcurrencyError::BadLease => args.lease.span(),
                ConcurrencyError::RenewedTooLate => args.renew_every.span(),
                _ => Some(limit.span),
            };
            diagnostics.error(place.unwrap_or(at), error.to_string());
            None
        }
    }
}

fn settings(
    args: &ConcurrencyLimiterArgs,
    at: Span,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Settings> {
    let key_resolver = key_resolver(args, at, context, diagnostics);
    let refusal = status(&args.status_code, StatusCode::TOO_MANY_REQUESTS, diagnostics);
    let empty_key_status = status(&args.empty_key_status, context.empty_key_status, diagnostics);
    let error_body = match args.error_body.or(ErrorBodyWord::Problem)? {
        ErrorBodyWord::Problem => ErrorBody::Problem,
        ErrorBodyWord::Empty => ErrorBody::Empty,
    };
    let mut headers = HeaderNames { include: args.include_headers.or(true)?, ..HeaderNames::default() };
    for (given, header) in [(&args.limit_header, &mut headers.limit), (&args.remaining_header, &mut headers.remaining)]
    {
        if let Some(name) = given.optional()? {
            *header = name.0;
        }
    }
    let key_resolver = context.with_preflights(key_resolver?);
    let deny_empty_key = args.deny_empty_key.or(context.deny_empty_key)?;
    if key_resolver.needs_principal() {
        warn_of_key(deny_empty_key, args.key_resolver.span().unwrap_or(at), diagnostics);
    }
    Some(Settings {
        key_resolver,
        status: refusal?,
        deny_empty_key,
        empty_key_status: empty_key_status?,
        headers,
        error_body,
    })
}

/// Returns the key. It has no default: Spring's, `principal`, would refuse every request, since no filter
/// authenticates.
fn key_resolver(
    args: &ConcurrencyLimiterArgs,
    at: Span,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<KeyResolver> {
    match args.key_resolver.checked().ok()?.filter(|texts| !texts.value.items().is_empty()) {
        Some(texts) => context.key_resolvers.resolve_all(&texts.value, diagnostics),
        None => {
            diagnostics
                .error(at, "`ConcurrencyLimiter` needs `key-resolver`, the key that requests are counted by")
                .help("`key-resolver: ip` limits each address, `\"header:X-Api-Key\"` each key, `route` all requests together");
            None
        }
    }
}
