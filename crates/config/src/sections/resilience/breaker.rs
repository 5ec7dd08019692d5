//! `resilience4j.circuitbreaker`: settings of circuit breakers.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::Deserialize;
use tollgate_filters::circuit_breaker::{OpenWait, Rules, WindowSize};
use tollgate_filters::fault::FaultSet;

use crate::de::ranged::{PositiveTime, Ranged, Scale, UNBOUNDED, positive};
use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::{Number, Time};
use crate::diagnostics::Diagnostics;
use crate::sections::resilience::faults;
use crate::sections::resilience::inherit::Based;
use crate::spec::types::described_by;

/// Number of calls, or of seconds of a window.
type Count = Ranged<u32, 1, 1_000_000>;

/// Multiplier of a growing wait.
type Multiplier = Ranged<Number, 1, UNBOUNDED>;

/// Percentage at which a breaker opens.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Threshold(Number);

/// Range of a [`Threshold`].
const THRESHOLD: &str = "above 0, up to 100";

described_by! {
    Threshold: "Threshold" {"type": ["number", "string"], "exclusiveMinimum": 0, "maximum": 100, "x-range": THRESHOLD};
}

/// Breakers by name.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawBreakers {
    /// Named settings that instances are based on; `default` applies to breakers without settings. Default: none.
    pub(crate) configs: BTreeMap<String, Spanned<RawBreaker>>,
    /// Settings of each breaker. Default: none.
    pub(crate) instances: BTreeMap<String, Spanned<RawBreaker>>,
    /// Older name of `instances`. Default: none.
    #[cfg_attr(test, schemars(skip))]
    pub(crate) backends: BTreeMap<String, Spanned<RawBreaker>>,
    #[cfg_attr(test, schemars(skip))]
    pub(crate) circuit_breaker_aspect_order: Option<NodeRef>,
    #[cfg_attr(test, schemars(skip))]
    pub(crate) metrics: Option<NodeRef>,
    #[cfg_attr(test, schemars(skip))]
    pub(crate) tags: Option<NodeRef>,
}

/// One breaker.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawBreaker {
    /// Entry of `configs` with the values that are absent here. Default: the entry with the breaker's name, else `default`.
    pub(crate) base_config: Option<Spanned<String>>,
    /// Window of the statistics: `COUNT_BASED`, the last calls, or `TIME_BASED`, the last seconds. Default `COUNT_BASED`.
    pub(crate) sliding_window_type: Option<RawWindowType>,
    /// Size of the window in calls or seconds. Default 100.
    pub(crate) sliding_window_size: Option<Spanned<Count>>,
    /// Calls before the rates are evaluated. Default 100; at most the size of a window of calls.
    pub(crate) minimum_number_of_calls: Option<Spanned<Count>>,
    /// Percentage of failed calls at which the breaker opens. Default 50.
    pub(crate) failure_rate_threshold: Option<Spanned<Threshold>>,
    /// Percentage of slow calls at which the breaker opens. Default 100.
    pub(crate) slow_call_rate_threshold: Option<Spanned<Threshold>>,
    /// Time after which a call is slow. Default 60s.
    pub(crate) slow_call_duration_threshold: Option<Spanned<PositiveTime>>,
    /// Calls that a half-open breaker permits. Default 10.
    pub(crate) permitted_number_of_calls_in_half_open_state: Option<Spanned<Count>>,
    /// Time after which a half-open breaker opens again if those calls do not finish. Default 0: no limit.
    pub(crate) max_wait_duration_in_half_open_state: Option<Spanned<Time>>,
    /// Time for which the breaker stays open. Default 60s.
    pub(crate) wait_duration_in_open_state: Option<Spanned<PositiveTime>>,
    /// Multiplies that time each time the breaker opens again without having closed. Default false.
    pub(crate) enable_exponential_backoff: Option<bool>,
    /// Multiplier of that time. Default 1.5.
    pub(crate) exponential_backoff_multiplier: Option<Spanned<Multiplier>>,
    /// Upper bound of that time. Default: none.
    pub(crate) exponential_max_wait_duration_in_open_state: Option<Spanned<Time>>,
    /// Makes the breaker half-open as soon as that time is over, not with the next call. Default false.
    pub(crate) automatic_transition_from_open_to_half_open_enabled: Option<bool>,
    /// Java exceptions that count as failures; all others count as successes. Default: all exceptions.
    pub(crate) record_exceptions: Option<Vec<Spanned<String>>>,
    /// Java exceptions that are ignored. Default: none.
    pub(crate) ignore_exceptions: Option<Vec<Spanned<String>>>,
    #[cfg_attr(test, schemars(skip))]
    pub(crate) initial_state: Option<Spanned<String>>,
    #[cfg_attr(test, schemars(skip))]
    pub(crate) enable_randomized_wait: Option<Spanned<bool>>,
    #[cfg_attr(test, schemars(skip))]
    pub(crate) randomized_wait_factor: Option<NodeRef>,
    #[cfg_attr(test, schemars(skip))]
    pub(crate) record_failure_predicate: Option<NodeRef>,
    #[cfg_attr(test, schemars(skip))]
    pub(crate) record_result_predicate: Option<NodeRef>,
    #[cfg_attr(test, schemars(skip))]
    pub(crate) ignore_exception_predicate: Option<NodeRef>,
    #[cfg_attr(test, schemars(skip))]
    pub(crate) register_health_indicator: Option<NodeRef>,
    #[cfg_attr(test, schemars(skip))]
    pub(crate) allow_health_indicator_to_fail: Option<NodeRef>,
    #[cfg_attr(test, schemars(skip))]
    pub(crate) event_consumer_buffer_size: Option<NodeRef>,
    #[cfg_attr(test, schemars(skip))]
    pub(crate) writable_stack_trace_enabled: Option<NodeRef>,
    #[cfg_attr(test, schemars(skip))]
    pub(crate) ignore_class_binding_exceptions: Option<NodeRef>,
}

/// Window of the statistics.
#[derive(Clone, Copy, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum RawWindowType {
    /// The last calls.
    CountBased,
    /// The calls of the last seconds.
    TimeBased,
}

/// Checked settings of one breaker.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Checked {
    pub(crate) rules: Rules,
    pub(crate) recorded: FaultSet,
    pub(crate) ignored: FaultSet,
}

/// Default multiplier of resilience4j for a growing wait.
const MULTIPLIER: f64 = 1.5;

/// Checks `raw` and fills in defaults.
pub(super) fn check(raw: &RawBreaker, diagnostics: &mut Diagnostics) -> Checked {
    refuse(raw, diagnostics);
    let default = Rules::default();
    let size = count(raw.sliding_window_size, 100, "sliding-window-size", diagnostics);
    let rules = Rules {
        window: match raw.sliding_window_type {
            None | Some(RawWindowType::CountBased) => WindowSize::Calls(size),
            Some(RawWindowType::TimeBased) => WindowSize::Seconds(size),
        },
        minimum_calls: count(raw.minimum_number_of_calls, 100, "minimum-number-of-calls", diagnostics).get(),
        failure_rate: percent(raw.failure_rate_threshold, default.failure_rate, diagnostics),
        slow_rate: percent(raw.slow_call_rate_threshold, default.slow_rate, diagnostics),
        slow_after: positive(raw.slow_call_duration_threshold, default.slow_after.as_secs(), diagnostics),
        wait: wait(raw, default.wait.first, diagnostics),
        trial_calls: count(
            raw.permitted_number_of_calls_in_half_open_state,
            default.trial_calls,
            "permitted-number-of-calls-in-half-open-state",
            diagnostics,
        )
        .get(),
        trial_wait: raw.max_wait_duration_in_half_open_state.map(|time| time.value.0).filter(|wait| !wait.is_zero()),
        automatic: raw.automatic_transition_from_open_to_half_open_enabled.unwrap_or(false),
    };
    Checked {
        rules,
        recorded: match &raw.record_exceptions {
            // resilience4j reads an empty list as absent.
            Some(classes) if !classes.is_empty() => faults::of_classes(classes, diagnostics),
            _ => FaultSet::ALL,
        },
        ignored: raw
            .ignore_exceptions
            .as_ref()
            .map_or(FaultSet::NONE, |classes| faults::of_classes(classes, diagnostics)),
    }
}

fn wait(raw: &RawBreaker, default: Duration, diagnostics: &mut Diagnostics) -> OpenWait {
    let first = positive(raw.wait_duration_in_open_state, default.as_secs(), diagnostics);
    let grows = raw.enable_exponential_backoff.unwrap_or(false);
    if !grows {
        let unused = raw.exponential_backoff_multiplier.map(|number| number.span);
        if let Some(at) = unused.or(raw.exponential_max_wait_duration_in_open_state.map(|time| time.span)) {
            diagnostics
                .mistake(at, "this has no effect without `enable-exponential-backoff: true`")
                .ineffective()
                .help("add that, or remove it");
        }
        return OpenWait { first, multiplier: 1.0, max: None };
    }
    let multiplier = raw.exponential_backoff_multiplier;
    if let Some((span, value)) = multiplier.and_then(|number| Some((number.span, number.value.outside()?))) {
        diagnostics.error(span, format!("must be {}, {}", Multiplier::range(), value.found()));
    }
    OpenWait {
        first,
        multiplier: multiplier.map_or(MULTIPLIER, |number| number.value.clamped().0),
        max: raw.exponential_max_wait_duration_in_open_state.map(|time| time.value.0),
    }
}

fn count(number: Option<Spanned<Count>>, default: u32, key: &str, diagnostics: &mut Diagnostics) -> NonZeroU32 {
    NonZeroU32::new(number.map_or(default, |number| number.within(key, diagnostics))).unwrap_or(NonZeroU32::MIN)
}

fn percent(number: Option<Spanned<Threshold>>, default: f64, diagnostics: &mut Diagnostics) -> f64 {
    let Some(Spanned { value: Threshold(percent), span }) = number else { return default };
    if percent.0 <= 0.0 || percent.0 > 100.0 {
        diagnostics.error(span, format!("expected a percentage {THRESHOLD}, found {}", percent.0));
    }
    percent.0
}

/// Reports settings that need Java or have no effect here.
fn refuse(raw: &RawBreaker, diagnostics: &mut Diagnostics) {
    for (node, name) in [
        (raw.record_failure_predicate, "record-failure-predicate"),
        (raw.record_result_predicate, "record-result-predicate"),
        (raw.ignore_exception_predicate, "ignore-exception-predicate"),
    ] {
        if let Some(node) = node {
            diagnostics
                .error(node.0.key(), format!("`{name}` needs a Java class"))
                .help("use `record-exceptions`, `ignore-exceptions` and the filter's `statusCodes`");
        }
    }
    if let Some(state) = raw.initial_state.as_ref().filter(|state| !state.value.eq_ignore_ascii_case("CLOSED")) {
        diagnostics
            .error(state.span, "`initial-state` is not supported: a breaker starts closed")
            .help("remove `initial-state`");
    }
    if let Some(wait) = raw.enable_randomized_wait.filter(|wait| wait.value) {
        diagnostics
            .warn(wait.span, "randomized waits are not supported: breakers of several gateways open independently")
            .help("remove `enable-randomized-wait`");
    }
    for (node, name, why) in [
        (raw.register_health_indicator, "register-health-indicator", "`/metrics` shows the state of each breaker"),
        (
            raw.allow_health_indicator_to_fail,
            "allow-health-indicator-to-fail",
            "a breaker does not make the gateway unhealthy",
        ),
        (raw.event_consumer_buffer_size, "event-consumer-buffer-size", "the log has an entry for each change of state"),
        (raw.writable_stack_trace_enabled, "writable-stack-trace-enabled", "there are no stack traces"),
        (raw.ignore_class_binding_exceptions, "ignore-class-binding-exceptions", "classes are names here"),
    ] {
        if let Some(node) = node {
            diagnostics.note(node.0.key(), format!("`{name}` has no effect here")).ineffective().help(why);
        }
    }
}

impl Based for RawBreaker {
    fn base(&self) -> Option<&Spanned<String>> {
        self.base_config.as_ref()
    }

    // Unsupported settings are reported where they are, so they are not merged.
    fn over(self, base: Self) -> Self {
        Self {
            sliding_window_type: self.sliding_window_type.or(base.sliding_window_type),
            sliding_window_size: self.sliding_window_size.or(base.sliding_window_size),
            minimum_number_of_calls: self.minimum_number_of_calls.or(base.minimum_number_of_calls),
            failure_rate_threshold: self.failure_rate_threshold.or(base.failure_rate_threshold),
            slow_call_rate_threshold: self.slow_call_rate_threshold.or(base.slow_call_rate_threshold),
            slow_call_duration_threshold: self.slow_call_duration_threshold.or(base.slow_call_duration_threshold),
            permitted_number_of_calls_in_half_open_state: self
                .permitted_number_of_calls_in_half_open_state
                .or(base.permitted_number_of_calls_in_half_open_state),
            max_wait_duration_in_half_open_state: self
                .max_wait_duration_in_half_open_state
                .or(base.max_wait_duration_in_half_open_state),
            wait_duration_in_open_state: self.wait_duration_in_open_state.or(base.wait_duration_in_open_state),
            enable_exponential_backoff: self.enable_exponential_backoff.or(base.enable_exponential_backoff),
            exponential_backoff_multiplier: self.exponential_backoff_multiplier.or(base.exponential_backoff_multiplier),
            exponential_max_wait_duration_in_open_state: self
                .exponential_max_wait_duration_in_open_state
                .or(base.exponential_max_wait_duration_in_open_state),
            automatic_transition_from_open_to_half_open_enabled: self
                .automatic_transition_from_open_to_half_open_enabled
                .or(base.automatic_transition_from_open_to_half_open_enabled),
            record_exceptions: self.record_exceptions.or(base.record_exceptions),
            ignore_exceptions: self.ignore_exceptions.or(base.ignore_exceptions),
            ..self
        }
    }
}
