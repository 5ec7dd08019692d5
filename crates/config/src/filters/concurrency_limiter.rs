//! `ConcurrencyLimiter`.

use http::StatusCode;
use serde::Deserialize;
use tollgate_filters::concurrency_limiter::{HeaderNames, Settings};
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_limiter::concurrency::{Concurrency, ConcurrencyError};

use crate::de::{Flag, Given, Spanned, Texts, Word};
use crate::diagnostics::{Diagnostics, Reported};
use crate::filters::model::{ConcurrencyLimiter, Filter};
use crate::filters::row::{Arguments, Entry, FilterInput};
use crate::rate_limiter::access::warn_of_key;
use crate::rate_limiter::context::LimiterContext;
use crate::rate_limiter::model::StoreKind;
use crate::rate_limiter::store::report_missing_redis;
use crate::rate_limiter::value_enums::{ErrorBodyWord, OnStoreFailureWord};
use crate::sections::server::ErrorFormatWord;
#[cfg(test)]
use crate::spec::arguments;
use crate::spec::{Count, FieldName, Shortcut, Status, TimeArgument, refusal, with_keys};
use crate::yaml::Span;

/// Arguments of `ConcurrencyLimiter`.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(transform = arguments))]
#[serde(rename_all = "kebab-case")]
struct ConcurrencyLimiterArgs {
    /// Concurrent requests per key. Required.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Option<Count>"))]
    limit: Given<Count>,
    /// Time for which a slot is held without renewal, such as after a crash. Default 30s.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Option<TimeArgument>"))]
    lease: Given<TimeArgument>,
    /// Interval at which the slots of in-flight requests are renewed. Default: a third of `lease`.
    renew_every: Option<Spanned<TimeArgument>>,
    /// Key that requests are counted by, or a list of several: `ip`, `"header:X-Api-Key"`, `route`, `"#{@name}"`. Required.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Texts"))]
    key_resolver: Given<Texts>,
    /// Status if every slot is held. Default 429.
    status_code: Option<Spanned<Status>>,
    /// Refuses requests without a key. Default: `filter.request-rate-limiter.deny-empty-key`.
    deny_empty_key: Option<bool>,
    /// Status of requests without a key. Default: `filter.request-rate-limiter.empty-key-status-code`.
    empty_key_status: Option<Spanned<Status>>,
    /// Store of the slots: `memory` or `redis`. Default: Redis if configured.
    store: Option<Spanned<StoreKind>>,
    /// Decision while Redis is unreachable: `local`, `allow` or `deny`. Default `local`.
    on_store_failure: Option<OnStoreFailureWord>,
    /// Body of refusals: `problem` (text, or RFC 9457 for JSON) or `empty`.
    error_body: Word<ErrorBodyWord>,
    /// Refusals of clients of gRPC, gRPC-Web and Connect: `auto` (an error of the protocol) or `http`. Default: `server.error-format`.
    error_format: Option<ErrorFormatWord>,
    /// Adds both header fields to responses.
    include_headers: Flag<true>,
    /// Name of the field with the slots of the key. Default `X-Concurrency-Limit`.
    limit_header: Option<FieldName>,
    /// Name of the field with the free slots. Default `X-Concurrency-Remaining`.
    remaining_header: Option<FieldName>,
}

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "ConcurrencyLimiter",
    doc: "Limits concurrent requests per key.",
    args: Arguments::of::<ConcurrencyLimiterArgs>(Shortcut::None("{limit: 10, key-resolver: ip}")),
    check,
}];

/// Returns the limiter at `at` that `args` describe. Reports errors.
fn check(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Result<Filter, Reported> {
    let args: &ConcurrencyLimiterArgs = &input.read(diagnostics)?;
    let (at, context) = (input.spec.span, &input.context.limiters);
    let rule = rule(args, at, diagnostics);
    let settings = settings(args, at, context, diagnostics);
    if let Some(store) = &args.store {
        report_missing_redis(store, context, diagnostics);
    }
    let on_store_failure = args.on_store_failure.map(Into::into).unwrap_or_default();
    let store = args.store.map(|store| store.value);
    let limiter = ConcurrencyLimiter { rule: rule?, settings: settings?, store, on_store_failure };
    Ok(Filter::ConcurrencyLimiter(Box::new(limiter)))
}

fn rule(args: &ConcurrencyLimiterArgs, at: Span, diagnostics: &mut Diagnostics) -> Result<Concurrency, Reported> {
    let Some(limit) = args.limit.checked()? else {
        let error =
            diagnostics.error(at, "`ConcurrencyLimiter` needs `limit`, the number of concurrent requests per key");
        return Err(error.reported_with("args: {limit: 10, key-resolver: ip}"));
    };
    let ttl = args.lease.optional()?.map_or(Concurrency::TTL, |ttl| ttl.time);
    let renewal_span = args.renew_every.map(|every| every.span);
    let rule = Concurrency::new(limit.value.0).and_then(|rule| rule.with_ttl(ttl));
    let rule = rule.and_then(|rule| args.renew_every.map_or(Ok(rule), |every| rule.with_renewal(every.value.time)));
    let rule = rule.map_err(|error| {
        let span = match error {
            ConcurrencyError::TtlOutOfRange => args.lease.span(),
            ConcurrencyError::RenewedTooLate => renewal_span,
            _ => Some(limit.span),
        };
        diagnostics.error(span.unwrap_or(at), with_keys(&error)).reported()
    })?;
    if rule.renew_every() > ttl / 2 {
        diagnostics
            .warn(renewal_span.unwrap_or(at), "one failed renewal ends the lease while its request is in flight")
            .help(format!("the default is a third of `lease`, {:?}", ttl / 3));
    }
    Ok(rule)
}

fn settings(
    args: &ConcurrencyLimiterArgs,
    at: Span,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<Settings, Reported> {
    let key_resolver = key_resolver(args, at, context, diagnostics);
    let status = refusal(args.status_code, StatusCode::TOO_MANY_REQUESTS, diagnostics);
    let empty_key_status = refusal(args.empty_key_status, context.empty_key_status, diagnostics);
    let default = HeaderNames::default();
    let or = |name: &Option<FieldName>, default| name.as_ref().map_or(default, |name| name.0.clone());
    let headers = HeaderNames {
        include: args.include_headers.get(),
        limit: or(&args.limit_header, default.limit),
        remaining: or(&args.remaining_header, default.remaining),
    };
    let key_resolver = context.with_preflights(key_resolver?);
    let deny_empty_key = args.deny_empty_key.unwrap_or(context.settings.deny_empty_key.get());
    if key_resolver.needs_principal() {
        let first = args.key_resolver.value().and_then(|texts| texts.items().first());
        let key_at = first.map_or(at, |text| text.span);
        warn_of_key(deny_empty_key, key_at, diagnostics);
    }
    let error_body = args.error_body.0.into();
    let error_format = args.error_format.unwrap_or(context.error_format).into();
    Ok(Settings { key_resolver, status, deny_empty_key, empty_key_status, headers, error_body, error_format })
}

/// Returns the key. It has no default: Spring's, `principal`, would refuse every request, since no filter
/// authenticates.
fn key_resolver(
    args: &ConcurrencyLimiterArgs,
    at: Span,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<KeyResolver, Reported> {
    let texts = args.key_resolver.checked()?.map_or(&[][..], |texts| texts.value.items());
    context.key_resolvers.resolve_all(texts, diagnostics)?.ok_or_else(|| {
        diagnostics
            .error(at, "`ConcurrencyLimiter` needs `key-resolver`, the key that requests are counted by")
            .reported_with("`key-resolver: ip` limits each address, `\"header:X-Api-Key\"` each key, `route` all requests together")
    })
}
