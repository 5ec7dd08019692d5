//! Arguments of `RequestRateLimiter` as the file has them.

use std::num::NonZeroU32;

use serde::Deserialize;

use crate::de::given::{Given, Named, Texts};
use crate::de::spanned::Spanned;
use crate::de::units::Time;
use crate::rate_limiter::model::{GatewayNumber, StoreKind};
use crate::rate_limiter::plan_resolver_args::PlanResolverArgs;
#[cfg(test)]
use crate::rate_limiter::words::AlgorithmName;
use crate::rate_limiter::words::{
    Align, AtomicityWord, CalendarWord, CostArg, ErrorBodyWord, LockRetryWord, Mode, OnLimitArg, OnStoreFailureWord,
    Window,
};
#[cfg(test)]
use crate::spec::schema::{arguments, with_prefixed_names};
use crate::spec::types::{Count, FieldName, Percent, PositiveTime, Rate, Status};

/// Defines a struct with the given fields and those of every rule, and `rule()`, which copies the latter.
macro_rules! with_rule {
    ($(#[$meta:meta])* struct $name:ident { $($(#[$own_meta:meta])* $own:ident: $own_type:ty,)* }) => {
        with_rule! { @fields
            $(#[$meta])* struct $name { $($(#[$own_meta])* $own: $own_type,)* }
            /// Algorithm: `token-bucket`, `gcra` (the same verdicts, half the memory in Redis), `fixed-window`, `sliding-window-log` (exact), `sliding-window-counter` (an estimate), `leaky-bucket` (paces requests) or `quota`. Default `token-bucket`.
            #[cfg_attr(test, schemars(with = "AlgorithmName"))]
            algorithm: Given<String>,
            /// Buckets: tokens added each `period`, such as `10` or `0.5`. Required for them.
            replenish_rate: Given<Rate>,
            /// Buckets: capacity in tokens, the largest burst. Default 1.
            burst_capacity: Given<Count>,
            /// Buckets and the leaky bucket: time in which the rate is added. Default 1s.
            period: Given<PositiveTime>,
            /// Buckets: another name of `period`.
            replenish_period: Given<PositiveTime>,
            /// Windows: requests in each window. Required for them.
            limit: Given<Count>,
            /// Windows: length of a window; for `fixed-window` also `hour`, `day`, `week`, `month` or `year` of the calendar. Required for windows.
            window: Given<Window>,
            /// Fixed windows: `first` starts a window with the first request of a key, `clock` at multiples of its length since 1970 (UTC). Default `first`.
            align: Given<Align>,
            /// Calendar windows and quotas: time zone such as `Europe/Berlin`. Default `UTC`.
            time_zone: Given<String>,
            /// Leaky bucket: requests that start in each `period`, evenly spaced, such as `10` or `0.5`; the others wait. Required for it.
            rate: Given<Rate>,
            /// Leaky bucket: longest wait; requests that would wait longer are denied. Default 1s.
            max_wait: Given<PositiveTime>,
            /// Leaky bucket: waiting requests per key. Default: bounded by `max-wait` only.
            max_queue: Given<Count>,
            /// Leaky bucket: time in which a key that was idle reaches the full rate. Default: none.
            warm_up: Given<PositiveTime>,
            /// Quota: prepaid total, which nothing refills. Required for it.
            allowance: Given<Count>,
            /// Quota: a new one each `hour`, `day`, `week`, `month` or `year`. Default: never.
            reset: Given<CalendarWord>,
            /// Tokens per request, and the tokens taken before a variable `cost` is known. Default 1.
            requested_tokens: Given<Count>,
            /// Tokens per request: a number, `header:NAME`, `response-header:NAME`, `body-bytes/1KB` or `response-body-bytes/1KB`. Default: `requested-tokens`.
            cost: Given<CostArg>,
            /// Upper bound of a variable `cost`. Default: none.
            max_cost: Given<Count>,
        }
    };
    (@fields
        $(#[$meta:meta])* struct $name:ident { $($(#[$own_meta:meta])* $own:ident: $own_type:ty,)* }
        $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
    ) => {
        #[derive(Clone, Debug, Default, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(default, rename_all = "kebab-case")]
        $(#[$meta])*
        #[cfg_attr(test, schemars(transform = arguments))]
        pub(crate) struct $name {
            $($(#[$field_meta])* pub(super) $field: $type,)*
            $($(#[$own_meta])* pub(super) $own: $own_type,)*
        }

        impl $name {
            /// Returns a copy of the arguments that make a rule.
            pub(super) fn rule(&self) -> RuleArgs {
                RuleArgs { $($field: self.$field.clone(),)* }
            }
        }

        with_rule! { @once $name struct RuleArgs { $($field: $type,)* } }
    };
    (@once LimiterArgs struct RuleArgs { $($field:ident: $type:ty,)* }) => {
        /// Arguments that make one rule.
        #[derive(Clone, Debug, Default)]
        pub(super) struct RuleArgs {
            $(pub(super) $field: $type,)*
        }

        impl RuleArgs {
            /// Returns each argument's name and, if the file has it, its place.
            pub(super) fn places(&self) -> Vec<(String, Option<crate::yaml::Span>)> {
                vec![$((stringify!($field).replace('_', "-"), self.$field.span()),)*]
            }
        }
    };
    (@once $name:ident struct RuleArgs { $($rest:tt)* }) => {};
}

with_rule! {
    /// Arguments of `RequestRateLimiter`. Spring's prefix `redis-rate-limiter.` is accepted before each name.
    #[cfg_attr(test, schemars(transform = with_prefixed_names))]
    struct LimiterArgs {
        /// Several rules instead of one, at most 6, decided together. Default: none.
        limits: Given<Vec<Given<ListedArgs>>>,
        /// Rules by plan: a rule, `limits`, or `unlimited`. Default: none.
        plans: Given<Named<Given<PlanArgs>>>,
        /// Source of a request's plan: a key resolver, `{table: {KEY: PLAN}}` or `{redis-hash: NAME, cache: 5s}`. Required with `plans`.
        plan_resolver: Given<PlanResolverArgs>,
        /// Plan of requests without one. Default: the limiter's own rules.
        default_plan: Given<String>,
        /// Key that requests are counted by, or a list of several: `ip`, `"header:X-Api-Key"`, `route`, `"#{@name}"`. Default `principal`.
        key_resolver: Given<Texts>,
        /// Name of a bucket that all limiters with this name share, on any route. Default: none.
        bucket: Given<String>,
        /// `enforce`, `observe` (decides and reports, denies nothing) or `off`. Default `enforce`.
        mode: Given<Mode>,
        /// Percentage of keys for which the limit is enforced, always the same keys on every gateway; the others are observed. Default 100.
        enforce_percent: Given<Percent>,
        /// Enables the header `X-RateLimit-Would-Deny: RULE` for observed denials. Default false.
        would_deny_header: Given<bool>,
        /// Keys and networks (`10.0.0.0/8`) that are neither counted nor limited; `key:` before a key that looks like an address. Default: none.
        exempt: Given<Texts>,
        /// Keys and networks that are always refused, though exempt. Default: none.
        block: Given<Texts>,
        /// Status of blocked requests. Default 403.
        block_status: Given<Status>,
        /// `deny`, or `forward:/path`: sends a denied request, once, to the route of this path. Default `deny`.
        on_limit: Given<OnLimitArg>,
        /// Enables Spring's exception for denials, which results in 500. Default false.
        throw_on_limit: Given<bool>,
        /// Status of denials. Default 429.
        status_code: Given<Status>,
        /// Body of refusals: `problem` (text, or RFC 9457 for JSON) or `empty`. Default `problem`; in an application.yml `empty`.
        error_body: Given<ErrorBodyWord>,
        /// Body of denials with placeholders. Default: none.
        body: Given<BodyArgs>,
        /// Refuses requests without a key. Default: `filter.request-rate-limiter.deny-empty-key`.
        deny_empty_key: Given<bool>,
        /// Status of requests without a key. Default: `filter.request-rate-limiter.empty-key-status-code`.
        empty_key_status: Given<Status>,
        /// Spring's name of `empty-key-status`.
        empty_key_status_code: Given<Status>,
        /// Store of the counters: `memory` or `redis`. Default: Redis if configured.
        store: Given<StoreKind>,
        /// Decision while Redis is unreachable: `local`, `allow` or `deny`. Default `local`; with a `quota` `deny`; in an application.yml `allow`.
        on_store_failure: Given<OnStoreFailureWord>,
        /// Gateways that share the limit, or `auto`: those that reported to Redis within 5 s. Each admits its part while Redis is unreachable. Default 1.
        gateways: Given<GatewayNumber>,
        /// `script`, or `lock` for servers that forbid scripts. Default `script`.
        atomicity: Given<AtomicityWord>,
        /// Retries of `atomicity: lock`.
        lock: Given<LockArgs>,
        /// Longest time for which a busy key may pay for requests in advance, at most 10s. Default: none.
        lease: Given<PositiveTime>,
        /// Families of header fields: `spring`, `draft` (`RateLimit`), `legacy` (`X-RateLimit-Limit`). Default: `redis-rate-limiter.headers`.
        headers: Given<Texts>,
        /// Adds header fields to responses. Default: `redis-rate-limiter.include-headers`.
        include_headers: Given<bool>,
        /// Name of the field with the remaining tokens. Default: `redis-rate-limiter.remaining-header`.
        remaining_header: Given<FieldName>,
        /// Name of the field with the rate. Default: `redis-rate-limiter.replenish-rate-header`.
        replenish_rate_header: Given<FieldName>,
        /// Name of the field with the capacity. Default: `redis-rate-limiter.burst-capacity-header`.
        burst_capacity_header: Given<FieldName>,
        /// Name of the field with the tokens per request. Default: `redis-rate-limiter.requested-tokens-header`.
        requested_tokens_header: Given<FieldName>,
        /// Spring's bean; only `"#{@redisRateLimiter}"` is accepted and has no effect.
        rate_limiter: Given<String>,
    }
}

with_rule! {
    /// One rule of `limits`.
    struct ListedArgs {
        /// Name of the rule: letters, digits, `-` and `_`. Default: `rule1`, `rule2`, … by position.
        name: Given<String>,
        /// Key that this rule counts by. Default: the limiter's.
        key_resolver: Given<Texts>,
        /// Name of a bucket that all rules with this name share. Default: none.
        bucket: Given<String>,
        /// `enforce`, `observe` or `off`; the weaker of this and the limiter's applies. Default `enforce`.
        mode: Given<Mode>,
        /// Percentage of keys for which the rule is enforced. Default 100.
        enforce_percent: Given<Percent>,
    }
}

with_rule! {
    /// Rules of one plan.
    struct PlanRuleArgs {
        /// Several rules instead of one. Default: none.
        limits: Given<Vec<Given<ListedArgs>>>,
        /// Name of a bucket that all limiters with this name share. Default: none.
        bucket: Given<String>,
    }
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

/// Body of denials.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
#[cfg_attr(test, schemars(transform = arguments))]
pub(super) struct BodyArgs {
    /// `Content-Type` of the body. Default `text/plain; charset=utf-8`.
    pub(super) content_type: Given<String>,
    /// Text with `{retry-after}`, `{limit}`, `{remaining}`, `{rule}` and `{route}`. Required.
    pub(super) text: Given<String>,
}

/// Retries of a decision that finds the lock taken.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
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
