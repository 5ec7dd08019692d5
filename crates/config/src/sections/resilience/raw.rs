//! Raw `resilience4j`: its own keys and, in a Spring file, those of `spring.cloud.circuitbreaker.resilience4j`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::Time;

/// Circuit breakers and time limiters.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawResilience {
    /// Circuit breakers of `CircuitBreaker` filters.
    pub(crate) circuitbreaker: RawBreakers,
    /// Time limits of their calls.
    pub(crate) timelimiter: RawTimeLimiters,
    /// Disables time limits. Default false.
    pub(crate) disable_time_limiter: Option<bool>,
    /// Names of breakers without time limits. Default: none.
    pub(crate) disable_time_limiter_map: BTreeMap<String, bool>,
    /// Spring's switch of the filter.
    #[schemars(skip)]
    pub(crate) enabled: Option<Spanned<bool>>,
    #[schemars(skip)]
    pub(crate) reactive: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) blocking: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) enable_group_meter_filter: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) default_group_tag: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) enable_semaphore_default_bulkhead: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) disable_thread_pool: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) bulkhead: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) thread_pool_bulkhead: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) ratelimiter: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) retry: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) scheduled: Option<NodeRef>,
}

/// Breakers by name.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawBreakers {
    /// Named settings that instances are based on; `default` applies to breakers without settings. Default: none.
    pub(crate) configs: BTreeMap<String, Spanned<RawBreaker>>,
    /// Settings of each breaker. Default: none.
    pub(crate) instances: BTreeMap<String, Spanned<RawBreaker>>,
    /// Older name of `instances`. Default: none.
    #[schemars(skip)]
    pub(crate) backends: BTreeMap<String, Spanned<RawBreaker>>,
    #[schemars(skip)]
    pub(crate) circuit_breaker_aspect_order: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) metrics: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) tags: Option<NodeRef>,
}

/// One breaker.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawBreaker {
    /// Entry of `configs` with the values that are absent here. Default: the entry with the breaker's name, else `default`.
    pub(crate) base_config: Option<Spanned<String>>,
    /// Window of the statistics: `COUNT_BASED`, the last calls, or `TIME_BASED`, the last seconds. Default `COUNT_BASED`.
    pub(crate) sliding_window_type: Option<RawWindowType>,
    /// Size of the window in calls or seconds. Default 100.
    pub(crate) sliding_window_size: Option<Spanned<u32>>,
    /// Calls before the rates are evaluated. Default 100; at most the size of a window of calls.
    pub(crate) minimum_number_of_calls: Option<Spanned<u32>>,
    /// Percentage of failed calls at which the breaker opens. Default 50.
    pub(crate) failure_rate_threshold: Option<Spanned<Number>>,
    /// Percentage of slow calls at which the breaker opens. Default 100.
    pub(crate) slow_call_rate_threshold: Option<Spanned<Number>>,
    /// Time after which a call is slow. Default 60s.
    pub(crate) slow_call_duration_threshold: Option<Spanned<Time>>,
    /// Calls that a half-open breaker permits. Default 10.
    pub(crate) permitted_number_of_calls_in_half_open_state: Option<Spanned<u32>>,
    /// Time after which a half-open breaker opens again if those calls do not finish. Default 0: no limit.
    pub(crate) max_wait_duration_in_half_open_state: Option<Spanned<Time>>,
    /// Time for which the breaker stays open. Default 60s.
    pub(crate) wait_duration_in_open_state: Option<Spanned<Time>>,
    /// Multiplies that time each time the breaker opens again without having closed. Default false.
    pub(crate) enable_exponential_backoff: Option<bool>,
    /// Multiplier of that time. Default 1.5.
    pub(crate) exponential_backoff_multiplier: Option<Spanned<Number>>,
    /// Upper bound of that time. Default: none.
    pub(crate) exponential_max_wait_duration_in_open_state: Option<Spanned<Time>>,
    /// Makes the breaker half-open as soon as that time is over, not with the next call. Default false.
    pub(crate) automatic_transition_from_open_to_half_open_enabled: Option<bool>,
    /// Java exceptions that count as failures; all others count as successes. Default: all exceptions.
    pub(crate) record_exceptions: Option<Vec<Spanned<String>>>,
    /// Java exceptions that are ignored. Default: none.
    pub(crate) ignore_exceptions: Option<Vec<Spanned<String>>>,
    #[schemars(skip)]
    pub(crate) initial_state: Option<Spanned<String>>,
    #[schemars(skip)]
    pub(crate) enable_randomized_wait: Option<Spanned<bool>>,
    #[schemars(skip)]
    pub(crate) randomized_wait_factor: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) record_failure_predicate: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) record_result_predicate: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) ignore_exception_predicate: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) register_health_indicator: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) allow_health_indicator_to_fail: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) event_consumer_buffer_size: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) writable_stack_trace_enabled: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) ignore_class_binding_exceptions: Option<NodeRef>,
}

/// Window of the statistics.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum RawWindowType {
    /// The last calls.
    CountBased,
    /// The calls of the last seconds.
    TimeBased,
}

/// Time limits by the name of the breaker.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawTimeLimiters {
    /// Named settings that instances are based on; `default` applies to breakers without settings. Default: none.
    pub(crate) configs: BTreeMap<String, Spanned<RawTimeLimiter>>,
    /// Time limit of each breaker. Default: none.
    pub(crate) instances: BTreeMap<String, Spanned<RawTimeLimiter>>,
    #[schemars(skip)]
    pub(crate) time_limiter_aspect_order: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) metrics: Option<NodeRef>,
    #[schemars(skip)]
    pub(crate) tags: Option<NodeRef>,
}

/// One time limit.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawTimeLimiter {
    /// Entry of `configs` with the values that are absent here. Default: the entry with the breaker's name, else `default`.
    pub(crate) base_config: Option<Spanned<String>>,
    /// Timeout for the head of the upstream's response. Default 1s.
    pub(crate) timeout_duration: Option<Spanned<Time>>,
    #[schemars(skip)]
    pub(crate) cancel_running_future: Option<Spanned<bool>>,
    #[schemars(skip)]
    pub(crate) event_consumer_buffer_size: Option<NodeRef>,
}

/// A decimal number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number(pub(crate) f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        number
            .map(Self)
            .ok_or_else(|| D::Error::custom(format!("expected a number such as `50` or `12.5`, found `{text}`")))
    }
}

impl JsonSchema for Number {
    fn schema_name() -> Cow<'static, str> {
        "Number".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["number", "string"], "description": "`50`, `12.5`", "examples": [50, 12.5]})
    }
}
