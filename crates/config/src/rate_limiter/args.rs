//! Arguments of `RequestRateLimiter` as the file has them.

use std::num::NonZeroU32;

use serde::Deserialize;

use crate::de::{Given, Metadata, NamedEntries, Spanned, Subtree, Texts, Time, field_names, same_name};
use crate::rate_limiter::model::{GatewayNumber, StoreKind};
#[cfg(test)]
use crate::rate_limiter::value_enums::AlgorithmName;
use crate::rate_limiter::value_enums::{
    Align, AtomicityWord, CalendarWord, CostArg, ErrorBodyWord, LockRetryWord, Mode, OnLimitArg, OnStoreFailureWord,
    RefillWord, UpstreamHeadersWord, Window,
};
#[cfg(test)]
use crate::routes::raw_route::RawCondition;
use crate::sections::server::ErrorFormatWord;
use crate::spec::{Count, FieldName, Instant, Percent, Rate, Status, TimeArgument};
#[cfg(test)]
use crate::spec::{arguments, with_prefixed_names};
use crate::yaml::Span;

/// Arguments that make one rule.
#[section(Clone)]
pub(super) struct RuleArgs {
    /// Algorithm: `token-bucket`, `gcra` (the same verdicts, half the memory in Redis), `fixed-window`, `sliding-window-log` (exact), `sliding-window-counter` (an estimate), `leaky-bucket` (paces requests) or `quota`. Default `token-bucket`.
    #[cfg_attr(test, schemars(with = "AlgorithmName"))]
    pub(super) algorithm: Given<String>,
    /// Buckets: tokens added each `period`, such as `10` or `0.5`. Required for them.
    pub(super) replenish_rate: Given<Rate>,
    /// Buckets: capacity in tokens, the largest burst. Default 1.
    pub(super) burst_capacity: Given<Count>,
    /// Buckets and the leaky bucket: time in which the rate is added. Default 1s.
    pub(super) period: Given<TimeArgument>,
    /// Buckets: another name of `period`.
    pub(super) replenish_period: Given<TimeArgument>,
    /// Buckets: `smooth` adds tokens continuously, `interval` those of a period at its end, from a key's first request on, `aligned` likewise at the same times for all keys. Default `smooth`.
    pub(super) refill: Given<RefillWord>,
    /// Buckets with `refill: aligned`: time at which a period begins, such as `2027-01-01T00:00:00Z`. Default: periods are multiples of their length since 1970 (UTC).
    pub(super) refill_anchor: Given<Instant>,
    /// Windows: requests in each window. Required for them.
    pub(super) limit: Given<Count>,
    /// Windows: length of a window; for `fixed-window` also `hour`, `day`, `week`, `month` or `year` of the calendar. Required for windows.
    pub(super) window: Given<Window>,
    /// Fixed windows: `first` starts a window with the first request of a key, `clock` at multiples of its length since 1970 (UTC). Default `first`.
    pub(super) align: Given<Align>,
    /// Calendar windows and quotas: time zone such as `Europe/Berlin`. Default `UTC`.
    pub(super) time_zone: Given<String>,
    /// Leaky bucket: requests that start in each `period`, evenly spaced, such as `10` or `0.5`; the others wait. Required for it.
    pub(super) rate: Given<Rate>,
    /// Leaky bucket: longest wait; requests that would wait longer are denied. Default 1s.
    pub(super) max_wait: Given<TimeArgument>,
    /// Leaky bucket: waiting requests per key. Default: bounded by `max-wait` only.
    pub(super) max_queue: Given<Count>,
    /// Leaky bucket: time in which a key that was idle reaches the full rate. Default: none.
    pub(super) warm_up: Given<TimeArgument>,
    /// Quota: prepaid total, which nothing refills. Required for it.
    pub(super) allowance: Given<Count>,
    /// Quota: a new one each `hour`, `day`, `week`, `month` or `year`. Default: never.
    pub(super) reset: Given<CalendarWord>,
    /// Tokens per request, and the tokens taken before a variable `cost` is known. Default 1.
    pub(super) requested_tokens: Given<Count>,
    /// Tokens per request: a number, `header:NAME`, `response-header:NAME`, `body-bytes/1KB` or `response-body-bytes/1KB`. Default: `requested-tokens`.
    pub(super) cost: Given<CostArg>,
    /// Upper bound of a variable `cost`. Default: none.
    pub(super) max_cost: Given<Count>,
    /// Requests to which the rule applies, as they were routed: predicates as those of routes, which must all match, such as `Method=POST`. It neither counts nor denies others, and they need no key. Default: all requests.
    #[cfg_attr(test, schemars(with = "Vec<RawCondition>"))]
    pub(super) when: Given<Subtree>,
}

impl RuleArgs {
    /// Returns the names of the arguments that the file has, with their places.
    pub(super) fn fields_of_file(&self) -> impl Iterator<Item = (&'static str, Span)> {
        macro_rules! places {
            ($($field:ident)*) => { [$((stringify!($field), self.$field.span())),*] };
        }
        let places = places! {
            algorithm replenish_rate burst_capacity period replenish_period refill refill_anchor limit window
            align time_zone rate max_wait max_queue warm_up allowance reset
            requested_tokens cost max_cost when
        };
        let name = |field: &str| rule_names().iter().find(|name| same_name(name, field)).copied();
        places.into_iter().filter_map(move |(field, place)| place.and_then(|place| Some((name(field)?, place))))
    }
}

/// Returns the names of the arguments that make one rule.
pub(crate) fn rule_names() -> &'static [&'static str] {
    field_names::<RuleArgs>()
}

/// Arguments of `RequestRateLimiter`. Spring's prefix `redis-rate-limiter.` is accepted before each name.
#[section(Clone)]
#[cfg_attr(test, schemars(transform = with_prefixed_names))]
#[cfg_attr(test, schemars(transform = arguments))]
pub(crate) struct LimiterArgs {
    /// The rule, whose arguments stand in the same map.
    #[serde(rename = "$tollgate::SameMap")]
    #[cfg_attr(test, schemars(flatten))]
    pub(super) rule: RuleArgs,
    /// Several rules instead of one, at most 6, decided together. Default: none.
    pub(super) limits: Given<Vec<Given<ListedArgs>>>,
    /// Rules by plan: a rule, `limits`, or `unlimited`. Default: none.
    pub(super) plans: Given<NamedEntries<Given<PlanArgs>>>,
    /// Source of a request's plan: a key resolver, `{table: {KEY: PLAN}}` or `{redis-hash: NAME, cache: 5s}`. Required with `plans`.
    pub(super) plan_resolver: Given<PlanResolverArgs>,
    /// Plan of requests without one. Default: the limiter's own rules.
    pub(super) default_plan: Given<String>,
    /// Key that requests are counted by, or a list of several: `ip`, `"header:X-Api-Key"`, `route`, `"#{@name}"`. Default `principal`.
    pub(super) key_resolver: Given<Texts>,
    /// Name of a bucket that all limiters with this name share, on any route. Default: none.
    pub(super) bucket: Given<String>,
    /// `enforce`, `observe` (decides and reports, denies nothing) or `off`. Default `enforce`.
    pub(super) mode: Given<Mode>,
    /// Percentage of keys for which the limit is enforced, always the same keys on every gateway; the others are observed. Default 100.
    pub(super) enforce_percent: Given<Percent>,
    /// Enables the header `X-RateLimit-Would-Deny: RULE` for observed denials. Default false.
    pub(super) would_deny_header: Given<bool>,
    /// Keys and networks (`10.0.0.0/8`) that are neither counted nor limited; `key:` before a key that looks like an address. Default: none.
    pub(super) exempt: Given<Texts>,
    /// Keys and networks that are always refused, though exempt. Default: none.
    pub(super) block: Given<Texts>,
    /// Status of blocked requests. Default 403.
    pub(super) block_status: Given<Status>,
    /// `deny`, or `forward:/path`: sends a denied request, once, to the route of this path. Default `deny`.
    pub(super) on_limit: Given<OnLimitArg>,
    /// Enables Spring's exception for denials, which results in 500. Default false.
    pub(super) throw_on_limit: Given<bool>,
    /// Status of denials. Default 429.
    pub(super) status_code: Given<Status>,
    /// Body of refusals: `problem` (text, or RFC 9457 for JSON) or `empty`. Default `problem`; in an application.yml `empty`.
    pub(super) error_body: Given<ErrorBodyWord>,
    /// Body of denials with placeholders. Default: none.
    pub(super) body: Given<BodyArgs>,
    /// Refusals of clients of gRPC, gRPC-Web and Connect: `auto` (an error of the protocol) or `http`. Default: `server.error-format`.
    pub(super) error_format: Given<ErrorFormatWord>,
    /// Refuses requests without a key. Default: `filter.request-rate-limiter.deny-empty-key`.
    pub(super) deny_empty_key: Given<bool>,
    /// Status of requests without a key. Default: `filter.request-rate-limiter.empty-key-status-code`.
    pub(super) empty_key_status: Given<Status>,
    /// Spring's name of `empty-key-status`.
    pub(super) empty_key_status_code: Given<Status>,
    /// Store of the counters: `memory` or `redis`. Default: Redis if configured.
    pub(super) store: Given<StoreKind>,
    /// Decision while Redis is unreachable: `local`, `allow` or `deny`. Default `local`; with a `quota` `deny`; in an application.yml `allow`.
    pub(super) on_store_failure: Given<OnStoreFailureWord>,
    /// Gateways that share the limit, or `auto`: those that reported to Redis within 5 s. Each admits its part while Redis is unreachable. Default 1.
    pub(super) gateways: Given<GatewayNumber>,
    /// `script`, or `lock` for servers that forbid scripts. Default `script`.
    pub(super) atomicity: Given<AtomicityWord>,
    /// Retries of `atomicity: lock`.
    pub(super) lock: Given<LockArgs>,
    /// Longest time for which a busy key may pay for requests in advance, at most 10s. Default: none.
    pub(super) lease: Given<TimeArgument>,
    /// Families of header fields: `spring`, `remaining` (of `spring`, that field alone), `draft` (`RateLimit`), `legacy` (`X-RateLimit-Limit`). Default: `redis-rate-limiter.headers`.
    pub(super) headers: Given<Texts>,
    /// Adds header fields to responses. Default: `redis-rate-limiter.include-headers`.
    pub(super) include_headers: Given<bool>,
    /// Such header fields of upstreams: `keep`, or `replace`, which removes `RateLimit*`, `X-RateLimit-*`, `X-Rate-Limit-*` and the names below from their responses. Default `keep`.
    pub(super) upstream_headers: Given<UpstreamHeadersWord>,
    /// Name of the field with the remaining tokens. Default: `redis-rate-limiter.remaining-header`.
    pub(super) remaining_header: Given<FieldName>,
    /// Name of the field with the rate. Default: `redis-rate-limiter.replenish-rate-header`.
    pub(super) replenish_rate_header: Given<FieldName>,
    /// Name of the field with the capacity. Default: `redis-rate-limiter.burst-capacity-header`.
    pub(super) burst_capacity_header: Given<FieldName>,
    /// Name of the field with the tokens per request. Default: `redis-rate-limiter.requested-tokens-header`.
    pub(super) requested_tokens_header: Given<FieldName>,
    /// Spring's bean; only `"#{@redisRateLimiter}"` is accepted and has no effect.
    pub(super) rate_limiter: Given<String>,
}

/// One rule of `limits`.
#[section(Clone)]
#[cfg_attr(test, schemars(transform = arguments))]
pub(crate) struct ListedArgs {
    /// The rule, whose arguments stand in the same map.
    #[serde(rename = "$tollgate::SameMap")]
    #[cfg_attr(test, schemars(flatten))]
    pub(super) rule: RuleArgs,
    /// Name of the rule: letters, digits, `-` and `_`. Default: `rule1`, `rule2`, … by position.
    pub(super) name: Given<String>,
    /// Key that this rule counts by. Default: the limiter's.
    pub(super) key_resolver: Given<Texts>,
    /// Name of a bucket that all rules with this name share. Default: none.
    pub(super) bucket: Given<String>,
    /// `enforce`, `observe` or `off`; the weaker of this and the limiter's applies. Default `enforce`.
    pub(super) mode: Given<Mode>,
    /// Percentage of keys for which the rule is enforced. Default 100.
    pub(super) enforce_percent: Given<Percent>,
}

/// Rules of one plan.
#[section(Clone)]
#[cfg_attr(test, schemars(transform = arguments))]
pub(crate) struct PlanRuleArgs {
    /// The rule, whose arguments stand in the same map.
    #[serde(rename = "$tollgate::SameMap")]
    #[cfg_attr(test, schemars(flatten))]
    pub(super) rule: RuleArgs,
    /// Several rules instead of one. Default: none.
    pub(super) limits: Given<Vec<Given<ListedArgs>>>,
    /// Name of a bucket that all limiters with this name share. Default: none.
    pub(super) bucket: Given<String>,
}

/// One plan.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename = "$tollgate::Shape", rename_all = "lowercase")]
#[cfg_attr(test, schemars(rename = "Plan", untagged))]
pub(super) enum PlanArgs {
    /// `unlimited`.
    Scalar(Spanned<String>),
    /// Rules.
    Map(Box<PlanRuleArgs>),
}

/// Source of a request's plan.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename = "$tollgate::Shape", rename_all = "lowercase")]
#[cfg_attr(test, schemars(rename = "PlanResolver", untagged))]
pub(super) enum PlanResolverArgs {
    /// A key resolver.
    Scalar(Spanned<String>),
    /// A list of one key resolver.
    Seq(Vec<Spanned<String>>),
    /// A table or a hash in Redis.
    Map(PlanTableArgs),
}

/// Plans by key.
#[section(Clone)]
#[cfg_attr(test, schemars(transform = arguments))]
pub(super) struct PlanTableArgs {
    /// Plan of each key, in this file.
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, String>"))]
    pub(super) table: Given<Metadata>,
    /// Name of a hash in Redis: plans by key.
    pub(super) redis_hash: Given<String>,
    /// Time for which a plan from Redis is cached, at most 1h. Default 5s.
    pub(super) cache: Given<Time>,
}

/// Body of denials.
#[section(Clone)]
#[cfg_attr(test, schemars(transform = arguments))]
pub(super) struct BodyArgs {
    /// `Content-Type` of the body. Default `text/plain; charset=utf-8`.
    pub(super) content_type: Given<String>,
    /// Text with `{retry-after}`, `{limit}`, `{remaining}`, `{rule}`, `{route}`, `{plan}` and `{key}`. Required.
    pub(super) text: Given<String>,
}

/// Retries of a decision that finds the lock taken.
#[section(Clone)]
#[cfg_attr(test, schemars(transform = arguments))]
pub(super) struct LockArgs {
    /// `fixed` or `exponential` pauses. Default `exponential`.
    pub(super) retry: Given<LockRetryWord>,
    /// Each pause, if `fixed`. Default 100ms.
    pub(super) delay: Given<Time>,
    /// First pause, if `exponential`. Default 100ms.
    pub(super) base: Given<Time>,
    /// Longest pause, if `exponential`. Default 2s.
    pub(super) max: Given<Time>,
    /// Random time added to a pause, at most. Default 200ms.
    pub(super) jitter: Given<Time>,
    /// Attempts in total. Default 5.
    pub(super) tries: Given<NonZeroU32>,
}
