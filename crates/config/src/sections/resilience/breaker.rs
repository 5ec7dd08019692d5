//! `resilience4j.circuitbreaker`: settings of circuit breakers.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::Deserialize;
use tollgate_filters::circuit_breaker::{OpenWait, Rules, WindowSize};
use tollgate_filters::fault::FaultSet;

use crate::de::{Flag, NodeRef, Number, Or, PositiveTime, Ranged, Spanned, Time, UNBOUNDED, Word, described_by, secs};
use crate::diagnostics::Diagnostics;
use crate::sections::resilience::{Based, completed};

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
#[section]
pub(crate) struct RawBreakers {
    /// Named settings that instances are based on; `default` applies to breakers without settings. Default: none.
    pub(crate) configs: BTreeMap<String, Spanned<RawBreaker>>,
    /// Settings of each breaker. Default: none.
    pub(crate) instances: BTreeMap<String, Spanned<RawBreaker>>,
    /// Older name of `instances`. Default: none.
    #[cfg_attr(test, schemars(skip))]
    pub(crate) backends: BTreeMap<String, Spanned<RawBreaker>>,
}

/// One breaker.
#[section(Clone)]
pub(crate) struct RawBreaker {
    /// Entry of `configs` with the values that are absent here. Default: the entry with the breaker's name, else `default`.
    pub(crate) base_config: Option<Spanned<String>>,
    /// Window of the statistics: `COUNT_BASED`, the last calls, or `TIME_BASED`, the last seconds.
    pub(crate) sliding_window_type: Option<Word<RawWindowType>>,
    /// Size of the window in calls or seconds.
    pub(crate) sliding_window_size: Option<Or<Count, 100>>,
    /// Calls before the rates are evaluated. Default {}; at most the size of a window of calls.
    pub(crate) minimum_number_of_calls: Option<Spanned<Or<Count, 100>>>,
    /// Percentage of failed calls at which the breaker opens. Default 50.
    pub(crate) failure_rate_threshold: Option<Spanned<Threshold>>,
    /// Percentage of slow calls at which the breaker opens. Default 100.
    pub(crate) slow_call_rate_threshold: Option<Spanned<Threshold>>,
    /// Time after which a call is slow.
    pub(crate) slow_call_duration_threshold: Option<Or<PositiveTime, { secs(60) }>>,
    /// Calls that a half-open breaker permits.
    pub(crate) permitted_number_of_calls_in_half_open_state: Option<Or<Count, 10>>,
    /// Time after which a half-open breaker opens again if those calls do not finish. Default 0: no limit.
    pub(crate) max_wait_duration_in_half_open_state: Option<Spanned<Time>>,
    /// Time for which the breaker stays open.
    pub(crate) wait_duration_in_open_state: Option<Or<PositiveTime, { secs(60) }>>,
    /// Multiplies that time each time the breaker opens again without having closed.
    pub(crate) enable_exponential_backoff: Option<Flag<false>>,
    /// Multiplier of that time. Default 1.5.
    pub(crate) exponential_backoff_multiplier: Option<Spanned<Multiplier>>,
    /// Upper bound of that time. Default: none.
    pub(crate) exponential_max_wait_duration_in_open_state: Option<Spanned<Time>>,
    /// Makes the breaker half-open as soon as that time is over, not with the next call.
    pub(crate) automatic_transition_from_open_to_half_open_enabled: Option<Flag<false>>,
    /// Java exceptions that count as failures; all others count as successes. Default: all exceptions.
    pub(crate) record_exceptions: Option<Vec<Spanned<String>>>,
    /// Java exceptions that are ignored. Default: none.
    pub(crate) ignore_exceptions: Option<Vec<Spanned<String>>>,
    pub(crate) initial_state: Option<Spanned<String>>,
    pub(crate) enable_randomized_wait: Option<Spanned<bool>>,
    randomized_wait_factor: Option<NodeRef>,
    pub(crate) record_failure_predicate: Option<NodeRef>,
    pub(crate) record_result_predicate: Option<NodeRef>,
    pub(crate) ignore_exception_predicate: Option<NodeRef>,
}

impl RawBreaker {
    /// Returns the number of Java exceptions that it names.
    pub(super) fn exception_count(&self) -> usize {
        [&self.record_exceptions, &self.ignore_exceptions].into_iter().flatten().map(Vec::len).sum()
    }
}

/// Window of the statistics.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum RawWindowType {
    /// The last calls.
    #[default]
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
    report_unsupported(raw, diagnostics);
    let default = Rules::default();
    let size = count(raw.sliding_window_size);
    let rules = Rules {
        window: match raw.sliding_window_type.unwrap_or_default().0 {
            RawWindowType::CountBased => WindowSize::Calls(size),
            RawWindowType::TimeBased => WindowSize::Seconds(size),
        },
        minimum_calls: count(raw.minimum_number_of_calls.map(|calls| calls.value)).get(),
        failure_rate: percent(raw.failure_rate_threshold, default.failure_rate, diagnostics),
        slow_rate: percent(raw.slow_call_rate_threshold, default.slow_rate, diagnostics),
        slow_after: raw.slow_call_duration_threshold.unwrap_or_default().get(),
        wait: wait(raw, diagnostics),
        trial_calls: count(raw.permitted_number_of_calls_in_half_open_state).get(),
        trial_wait: raw.max_wait_duration_in_half_open_state.map(|time| time.value.0).filter(|wait| !wait.is_zero()),
        automatic: raw.automatic_transition_from_open_to_half_open_enabled.unwrap_or_default().get(),
    };
    Checked {
        rules,
        recorded: match &raw.record_exceptions {
            // resilience4j reads an empty list as absent.
            Some(classes) if !classes.is_empty() => faults_of(classes, diagnostics),
            _ => FaultSet::ALL,
        },
        ignored: raw.ignore_exceptions.as_ref().map_or(FaultSet::NONE, |classes| faults_of(classes, diagnostics)),
    }
}

fn wait(raw: &RawBreaker, diagnostics: &mut Diagnostics) -> OpenWait {
    let first = raw.wait_duration_in_open_state.unwrap_or_default().get();
    if !raw.enable_exponential_backoff.unwrap_or_default().get() {
        let unused = raw.exponential_backoff_multiplier.map(|number| number.span);
        if let Some(at) = unused.or(raw.exponential_max_wait_duration_in_open_state.map(|time| time.span)) {
            diagnostics
                .mistake(at, "this has no effect without `enable-exponential-backoff: true`")
                .ineffective()
                .help("add that, or remove it");
        }
        return OpenWait { first, multiplier: 1.0, max: None };
    }
    OpenWait {
        first,
        multiplier: raw.exponential_backoff_multiplier.map_or(MULTIPLIER, |number| number.value.get()),
        max: raw.exponential_max_wait_duration_in_open_state.map(|time| time.value.0),
    }
}

fn count<const DEFAULT: u64>(number: Option<Or<Count, DEFAULT>>) -> NonZeroU32 {
    NonZeroU32::new(number.unwrap_or_default().get()).unwrap_or(NonZeroU32::MIN)
}

fn percent(number: Option<Spanned<Threshold>>, default: f64, diagnostics: &mut Diagnostics) -> f64 {
    let Some(Spanned { value: Threshold(percent), span }) = number else { return default };
    if percent.0 <= 0.0 || percent.0 > 100.0 {
        diagnostics.error(span, format!("expected a percentage {THRESHOLD}, found {}", percent.0));
    }
    percent.0
}

/// Reports settings that need Java.
fn report_unsupported(raw: &RawBreaker, diagnostics: &mut Diagnostics) {
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
}

impl Based for RawBreaker {
    fn base(&self) -> Option<&Spanned<String>> {
        self.base_config.as_ref()
    }

    // Unsupported settings are reported where they are, so they are not merged.
    fn over(self, base: Self) -> Self {
        completed!(self, base:
            sliding_window_type sliding_window_size minimum_number_of_calls failure_rate_threshold slow_call_rate_threshold
            slow_call_duration_threshold permitted_number_of_calls_in_half_open_state max_wait_duration_in_half_open_state
            wait_duration_in_open_state enable_exponential_backoff exponential_backoff_multiplier
            exponential_max_wait_duration_in_open_state automatic_transition_from_open_to_half_open_enabled
            record_exceptions ignore_exceptions
        )
    }
}

/// Faults that correspond to these Java classes.
fn faults_of(classes: &[Spanned<String>], diagnostics: &mut Diagnostics) -> FaultSet {
    classes.iter().fold(FaultSet::NONE, |set, class| {
        let faults = FaultSet::of_class_excluding_causes(class.value.trim());
        if faults == FaultSet::NONE {
            report_unknown_class(class, diagnostics);
        }
        set.or(faults)
    })
}

/// Reports a Java exception without a corresponding fault.
pub(crate) fn report_unknown_class(class: &Spanned<String>, diagnostics: &mut Diagnostics) {
    diagnostics.warn(class.span, format!("no failure here corresponds to `{}`: it has no effect", class.value.trim())).ineffective()
        .help("supported: java.io.IOException, java.net.ConnectException, java.util.concurrent.TimeoutException, org.springframework.cloud.gateway.support.TimeoutException and similar ones");
}
