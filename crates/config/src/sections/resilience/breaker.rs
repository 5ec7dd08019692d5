//! One breaker's settings.

use std::num::NonZeroU32;
use std::time::Duration;

use tollgate_filters::circuit_breaker::{OpenWait, Rules, WindowSize};
use tollgate_filters::fault::FaultSet;

use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;
use crate::sections::resilience::raw::{Number, RawBreaker, RawWindowType};

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
    let size = count(raw.sliding_window_size, 100, "`sliding-window-size`", diagnostics);
    let rules = Rules {
        window: match raw.sliding_window_type {
            None | Some(RawWindowType::CountBased) => WindowSize::Calls(size),
            Some(RawWindowType::TimeBased) => WindowSize::Seconds(size),
        },
        minimum_calls: count(raw.minimum_number_of_calls, 100, "`minimum-number-of-calls`", diagnostics).get(),
        failure_rate: percent(raw.failure_rate_threshold, default.failure_rate, diagnostics),
        slow_rate: percent(raw.slow_call_rate_threshold, default.slow_rate, diagnostics),
        slow_after: positive(
            raw.slow_call_duration_threshold.map(|time| (time.value.0, time)),
            default.slow_after,
            diagnostics,
        ),
        wait: wait(raw, default.wait.first, diagnostics),
        trial_calls: count(
            raw.permitted_number_of_calls_in_half_open_state,
            default.trial_calls,
            "`permitted-number-of-calls-in-half-open-state`",
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
            Some(classes) if !classes.is_empty() => faults(classes, diagnostics),
            _ => FaultSet::ALL,
        },
        ignored: raw.ignore_exceptions.as_ref().map_or(FaultSet::NONE, |classes| faults(classes, diagnostics)),
    }
}

fn wait(raw: &RawBreaker, default: Duration, diagnostics: &mut Diagnostics) -> OpenWait {
    let first = positive(raw.wait_duration_in_open_state.map(|time| (time.value.0, time)), default, diagnostics);
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
    if let Some(number) = multiplier.filter(|number| number.value.0 < 1.0) {
        diagnostics.error(number.span, format!("must be at least 1, found {}", number.value.0));
    }
    OpenWait {
        first,
        multiplier: multiplier.map_or(MULTIPLIER, |number| number.value.0),
        max: raw.exponential_max_wait_duration_in_open_state.map(|time| time.value.0),
    }
}

fn count(number: Option<Spanned<u32>>, default: u32, name: &str, diagnostics: &mut Diagnostics) -> NonZeroU32 {
    const MAX: u32 = 1_000_000;
    if let Some(number) = number.filter(|number| !(1..=MAX).contains(&number.value)) {
        diagnostics.error(number.span, format!("{name} must be from 1 to {MAX}, found {}", number.value));
    }
    NonZeroU32::new(number.map_or(default, |number| number.value.min(MAX))).unwrap_or(NonZeroU32::MIN)
}

fn percent(number: Option<Spanned<Number>>, default: f64, diagnostics: &mut Diagnostics) -> f64 {
    let Some(number) = number else { return default };
    if number.value.0 <= 0.0 || number.value.0 > 100.0 {
        diagnostics.error(number.span, format!("expected a percentage above 0, up to 100, found {}", number.value.0));
    }
    number.value.0
}

fn positive<T>(time: Option<(Duration, Spanned<T>)>, default: Duration, diagnostics: &mut Diagnostics) -> Duration {
    match time {
        None => default,
        Some((time, at)) => {
            if time.is_zero() {
                diagnostics.error(at.span, "must be longer than 0").help("remove the key for the default");
            }
            time
        }
    }
}

/// Faults that correspond to these Java classes.
fn faults(classes: &[Spanned<String>], diagnostics: &mut Diagnostics) -> FaultSet {
    classes.iter().fold(FaultSet::NONE, |set, class| {
        let faults = FaultSet::of_class_excluding_causes(class.value.trim());
        if faults == FaultSet::NONE {
            unknown_class(class, diagnostics);
        }
        set.or(faults)
    })
}

/// Reports a Java exception without a corresponding fault.
pub(crate) fn unknown_class(class: &Spanned<String>, diagnostics: &mut Diagnostics) {
    diagnostics.warn(class.span, format!("no failure here corresponds to `{}`: it has no effect", class.value.trim())).ineffective()
        .help("supported: java.io.IOException, java.net.ConnectException, java.util.concurrent.TimeoutException, org.springframework.cloud.gateway.support.TimeoutException and similar ones");
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
            diagnostics.info(node.0.key(), format!("`{name}` has no effect here")).ineffective().help(why);
        }
    }
}

/// `raw`, completed by `base`. Unsupported settings are reported where they are, so they are not merged.
pub(super) fn over(raw: RawBreaker, base: RawBreaker) -> RawBreaker {
    RawBreaker {
        sliding_window_type: raw.sliding_window_type.or(base.sliding_window_type),
        sliding_window_size: raw.sliding_window_size.or(base.sliding_window_size),
        minimum_number_of_calls: raw.minimum_number_of_calls.or(base.minimum_number_of_calls),
        failure_rate_threshold: raw.failure_rate_threshold.or(base.failure_rate_threshold),
        slow_call_rate_threshold: raw.slow_call_rate_threshold.or(base.slow_call_rate_threshold),
        slow_call_duration_threshold: raw.slow_call_duration_threshold.or(base.slow_call_duration_threshold),
        permitted_number_of_calls_in_half_open_state: raw
            .permitted_number_of_calls_in_half_open_state
            .or(base.permitted_number_of_calls_in_half_open_state),
        max_wait_duration_in_half_open_state: raw
            .max_wait_duration_in_half_open_state
            .or(base.max_wait_duration_in_half_open_state),
        wait_duration_in_open_state: raw.wait_duration_in_open_state.or(base.wait_duration_in_open_state),
        enable_exponential_backoff: raw.enable_exponential_backoff.or(base.enable_exponential_backoff),
        exponential_backoff_multiplier: raw.exponential_backoff_multiplier.or(base.exponential_backoff_multiplier),
        exponential_max_wait_duration_in_open_state: raw
            .exponential_max_wait_duration_in_open_state
            .or(base.exponential_max_wait_duration_in_open_state),
        automatic_transition_from_open_to_half_open_enabled: raw
            .automatic_transition_from_open_to_half_open_enabled
            .or(base.automatic_transition_from_open_to_half_open_enabled),
        record_exceptions: raw.record_exceptions.or(base.record_exceptions),
        ignore_exceptions: raw.ignore_exceptions.or(base.ignore_exceptions),
        ..raw
    }
}
