//! `resilience4j:` as typed: its own keys and, in a Spring file, those of `spring.cloud.circuitbreaker.resilience4j`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::Time;

/// When circuit breakers open and close, and how long calls may take.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawResilience {
    /// When the breakers of `CircuitBreaker` filters open and close.
    pub(crate) circuitbreaker: RawBreakers,
    /// How long their calls may take.
    pub(crate) timelimiter: RawTimeLimiters,
    /// Whether calls may take any time. Default false.
    pub(crate) disable_time_limiter: Option<bool>,
    /// The same for breakers by name. Default: none.
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
    /// Settings that instances are based on; `default` are those of every breaker that is not named here. Default: none.
    pub(crate) configs: BTreeMap<String, Spanned<RawBreaker>>,
    /// The breaker of each name. Default: none.
    pub(crate) instances: BTreeMap<String, Spanned<RawBreaker>>,
    /// An older word for `instances`. Default: none.
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
    /// The entry of `configs` that holds where nothing is said here. Default: the one called like the breaker, or `default`.
    pub(crate) base_config: Option<Spanned<String>>,
    /// What a breaker looks back on: `COUNT_BASED`, the last calls, or `TIME_BASED`, the last seconds. Default `COUNT_BASED`.
    pub(crate) sliding_window_type: Option<RawWindowType>,
    /// How many calls or seconds. Default 100.
    pub(crate) sliding_window_size: Option<Spanned<u32>>,
    /// Calls before which it does not judge. Default 100; not more than a window of calls holds.
    pub(crate) minimum_number_of_calls: Option<Spanned<u32>>,
    /// Share of failed calls at which it opens, in percent. Default 50.
    pub(crate) failure_rate_threshold: Option<Spanned<Number>>,
    /// Share of slow calls at which it opens, in percent. Default 100.
    pub(crate) slow_call_rate_threshold: Option<Spanned<Number>>,
    /// Time after which a call is slow. Default 60s.
    pub(crate) slow_call_duration_threshold: Option<Spanned<Time>>,
    /// Calls that it lets through, half open, to see how they end. Default 10.
    pub(crate) permitted_number_of_calls_in_half_open_state: Option<Spanned<u32>>,
    /// Time after which it opens again where those calls do not end. Default 0: it waits for them.
    pub(crate) max_wait_duration_in_half_open_state: Option<Spanned<Time>>,
    /// Time for which it stays open. Default 60s.
    pub(crate) wait_duration_in_open_state: Option<Spanned<Time>>,
    /// Whether that time grows each time that it opens without having closed. Default false.
    pub(crate) enable_exponential_backoff: Option<bool>,
    /// What it is multiplied by then. Default 1.5.
    pub(crate) exponential_backoff_multiplier: Option<Spanned<Number>>,
    /// It never grows beyond this. Default: any length.
    pub(crate) exponential_max_wait_duration_in_open_state: Option<Spanned<Time>>,
    /// Whether it counts as half open as soon as the time is over, rather than with the next call. Default false.
    pub(crate) automatic_transition_from_open_to_half_open_enabled: Option<bool>,
    /// Java exceptions that are failures; all others are successes. Default: every exception is a failure.
    pub(crate) record_exceptions: Option<Vec<Spanned<String>>>,
    /// Java exceptions that do not count. Default: none.
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

/// What a breaker looks back on.
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
    /// Settings that instances are based on; `default` holds for every breaker that is not named here. Default: none.
    pub(crate) configs: BTreeMap<String, Spanned<RawTimeLimiter>>,
    /// The limit of each breaker. Default: none.
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
    /// The entry of `configs` that holds where nothing is said here. Default: the one called like the breaker, or `default`.
    pub(crate) base_config: Option<Spanned<String>>,
    /// Time within which the head of the upstream's answer must come. Default 1s.
    pub(crate) timeout_duration: Option<Spanned<Time>>,
    #[schemars(skip)]
    pub(crate) cancel_running_future: Option<Spanned<bool>>,
    #[schemars(skip)]
    pub(crate) event_consumer_buffer_size: Option<NodeRef>,
}

/// A number that may have a fraction.
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
