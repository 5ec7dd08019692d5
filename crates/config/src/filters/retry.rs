//! `Retry`.

use std::num::NonZeroU32;

use http::Method;
use serde::Deserialize;
use tollgate_filters::fault::FaultSet;
use tollgate_filters::retry;

use crate::de::{Flag, Given, Spanned, described_by, read_by};
use crate::diagnostics::{Diagnostics, Reported};
use crate::filters::for_all_routes::RetryAfterWord;
use crate::filters::model::Filter;
use crate::filters::row::{Arguments, Entry, FilterInput};
use crate::sections::resilience::breaker::report_unknown_class;
#[cfg(test)]
use crate::spec::with_dotted_names;
use crate::spec::{BufferSize, Fraction, MethodName, Number, Shortcut, Status, TimeArgument};
use crate::yaml::Span;

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "Retry",
    doc: "Repeats failed requests through all filters listed after it.",
    args: Arguments::of::<RetryArgs>(Shortcut::Some(&SHORTCUT)),
    check,
}];

/// Arguments of the shortcut, in their order.
const SHORTCUT: [&str; 9] = [
    "retries",
    "statuses",
    "methods",
    "backoff.firstBackoff",
    "backoff.maxBackoff",
    "backoff.factor",
    "backoff.basedOnPreviousValue",
    "jitter.randomFactor",
    "timeout",
];

/// Arguments of `Retry`.
#[arguments(Default)]
#[serde(default)]
#[cfg_attr(test, schemars(transform = with_dotted_names))]
struct RetryArgs {
    /// Attempts after the first, from 1 to 1000. Default 3.
    retries: Option<Retries>,
    /// Statuses that are retried besides `series`. Default: none.
    statuses: Vec<Status>,
    /// Methods that are retried. Default `GET`.
    #[cfg_attr(test, schemars(with = "Option<Vec<MethodName>>"))]
    methods: Given<Vec<Spanned<MethodName>>>,
    /// Pauses between attempts. Default: no pauses.
    #[cfg_attr(test, schemars(with = "Option<BackoffArgs>"))]
    backoff: Given<BackoffArgs>,
    /// Random change of pauses.
    jitter: JitterArgs,
    /// Time after the request within which retries start. Default: no limit.
    timeout: Option<TimeArgument>,
    /// `Retry-After` of a response that is retried: `obey` waits as it says, at least the pause, and ends the retries if that is longer than `backoff.maxBackoff`, or 10s without one; `ignore`. Default: `filter.retry.retry-after`.
    retry_after: Option<RetryAfterWord>,
    /// Classes of statuses that are retried. Default `SERVER_ERROR`.
    series: Option<Vec<Series>>,
    /// Java exceptions that are retried. Default: `IOException` and the gateway's `TimeoutException`.
    exceptions: Option<Vec<Spanned<String>>>,
    /// Bytes of a body that are held in memory for retries; requests with a larger body are not retried. Default 64KB.
    max_body_size: Option<BufferSize>,
    /// Upper bound of retries on the route.
    budget: BudgetArgs,
}

/// Pauses between attempts.
#[arguments(Default)]
#[serde(default)]
struct BackoffArgs {
    /// First pause. Default 5ms.
    first_backoff: Option<TimeArgument>,
    /// Longest pause. Default: no limit.
    max_backoff: Option<Spanned<TimeArgument>>,
    /// Factor between pauses. Default 2.
    factor: Option<Number<NonZeroU32>>,
    /// Applies the factor to the previous pause, jitter included.
    based_on_previous_value: Flag<true>,
}

/// Random change of pauses.
#[arguments(Default)]
#[serde(default)]
struct JitterArgs {
    /// Largest change of a pause, as a fraction from 0 to 1. Default 0.
    random_factor: Option<Spanned<Fraction>>,
}

/// Upper bound of retries.
#[arguments(Default)]
#[serde(default)]
struct BudgetArgs {
    /// Retries as a percentage of the requests of the last ten seconds. Default 20.
    percent: Option<Spanned<Number<f32>>>,
    /// Retries per second that are always allowed. Default 10.
    min_per_second: Option<Spanned<Number<u32>>>,
}

/// A class of statuses.
#[derive(Clone, Copy, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Series {
    Informational = 1,
    Successful,
    Redirection,
    ClientError,
    ServerError,
}

/// A number of attempts.
#[derive(Clone, Copy, Debug)]
struct Retries(u32);

read_by! {
    Retries: |text| match text.parse() {
        Ok(retries @ 1..=1_000) => Ok(Retries(retries)),
        _ => Err(format!("expected a number of retries from 1 to 1000, found `{text}`")),
    };
}

described_by! {
    Retries: "Retries" {"type": "integer", "minimum": 1, "maximum": 1000};
}

fn check(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Result<Filter, Reported> {
    let args: RetryArgs = input.read(diagnostics)?;
    let at = input.spec.span;
    let default = retry::Settings::default();
    let obeys = args.retry_after.or(input.context.filter.retry.retry_after).unwrap_or(RetryAfterWord::Obey);
    let backoff = backoff(&args, diagnostics);
    let budget = budget(&args.budget, at, diagnostics)?;
    let settings = retry::Settings {
        retries: args.retries.map_or(default.retries, |retries| retries.0),
        series: args.series.map_or(vec![5], |classes| classes.into_iter().map(|class| class as u8).collect()),
        methods: methods(&args.methods, at, diagnostics),
        faults: faults(args.exceptions.as_deref(), default.faults, diagnostics),
        statuses: args.statuses.into_iter().map(|status| status.0).collect(),
        backoff,
        obeys_retry_after: obeys != RetryAfterWord::Ignore,
        timeout: args.timeout.map(|timeout| timeout.time),
        max_body_bytes: args.max_body_size.map_or(default.max_body_bytes, |size| size.0),
        budget: Some(budget),
    };
    if settings.series.is_empty() && settings.statuses.is_empty() && settings.faults == FaultSet::NONE {
        diagnostics
            .error(at, "`Retry` repeats nothing: series, statuses and exceptions are all empty")
            .help("remove `series` for its default SERVER_ERROR");
    }
    Ok(Filter::Retry(Box::new(settings)))
}

fn faults(classes: Option<&[Spanned<String>]>, default: FaultSet, diagnostics: &mut Diagnostics) -> FaultSet {
    let Some(classes) = classes else { return default };
    classes.iter().fold(FaultSet::NONE, |set, class| {
        let faults = FaultSet::of_class(&class.value);
        if faults == FaultSet::NONE {
            report_unknown_class(class, diagnostics);
        }
        set.or(faults)
    })
}

fn methods(methods: &Given<Vec<Spanned<MethodName>>>, at: Span, diagnostics: &mut Diagnostics) -> Vec<Method> {
    let Some(methods) = methods.value() else { return vec![Method::GET] };
    if methods.is_empty() {
        diagnostics.error(at, "`methods` is empty").help("remove it for its default GET");
    }
    for method in methods.iter().filter(|method| [Method::POST, Method::PATCH].contains(&method.value.0)) {
        diagnostics
            .note(
                method.span,
                format!("a retried {} may run twice: a failing upstream may have processed it", method.value.0),
            )
            .help("remove it, unless the upstream recognizes repeated requests");
    }
    methods.iter().map(|method| method.value.0.clone()).collect()
}

/// Returns the pauses, if there are any.
fn backoff(args: &RetryArgs, diagnostics: &mut Diagnostics) -> Option<retry::Backoff> {
    let default = retry::Backoff::default();
    let jitter = args.jitter.random_factor;
    let Some(backoff) = args.backoff.value() else {
        if let (Some(jitter), false) = (jitter, args.backoff.is_given()) {
            diagnostics
                .mistake(jitter.span, "`jitter` needs `backoff`: there are no pauses without it")
                .help("add `backoff.firstBackoff`");
        }
        return None;
    };
    let first = backoff.first_backoff.map_or(default.first, |first| first.time);
    if let Some(max) = backoff.max_backoff.filter(|max| max.value.time < first) {
        let max_time = max.value.time;
        diagnostics.error(max.span, format!("`maxBackoff` {max_time:?} is shorter than `firstBackoff` {first:?}"));
    }
    Some(retry::Backoff {
        first,
        max: backoff.max_backoff.map(|max| max.value.time),
        factor: backoff.factor.map_or(default.factor, |factor| factor.0.get()),
        from_previous: backoff.based_on_previous_value.get(),
        jitter: jitter.map_or(default.jitter, |jitter| jitter.value.0),
    })
}

fn budget(args: &BudgetArgs, at: Span, diagnostics: &mut Diagnostics) -> Result<retry::Budget, Reported> {
    let percent = args.percent.map_or(20.0, |percent| percent.value.0);
    let least = args.min_per_second.map_or(10, |least| least.value.0);
    retry::Budget::new(percent, least).ok_or_else(|| {
        let key_at = args.percent.map(|percent| percent.span).or(args.min_per_second.map(|least| least.span));
        let message = "`budget.percent` must be from 0 to 100000, `budget.minPerSecond` from 0 to 1000000";
        diagnostics.error(key_at.unwrap_or(at), message).reported()
    })
}
