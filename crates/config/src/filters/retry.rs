//! `Retry`.

use std::num::NonZeroU32;

use http::{Method, StatusCode};
use serde::Deserialize;
use tollgate_filters::fault::FaultSet;
use tollgate_filters::retry;

use crate::de::given::Given;
use crate::diagnostics::Diagnostics;
use crate::filters::entry::{Arguments, Entry, FilterInput, schema_of};
use crate::filters::model::Filter;
use crate::sections::resilience::faults::report_unknown_class;
#[cfg(test)]
use crate::spec::schema::{arguments, with_dotted_names};
use crate::spec::types::{BufferSize, Fraction, MethodName, Number, PositiveTime, Status, described_by, read_by};
use crate::yaml::Span;

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "Retry",
    doc: "Repeats failed requests through all filters listed after it.",
    args: Arguments::Typed(schema_of!(RetryArgs)),
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
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
#[cfg_attr(test, schemars(transform = arguments, transform = with_dotted_names))]
struct RetryArgs {
    /// Attempts after the first, from 1 to 1000. Default 3.
    retries: Given<Retries>,
    /// Statuses that are retried besides `series`. Default: none.
    statuses: Given<Vec<Given<Status>>>,
    /// Methods that are retried. Default `GET`.
    methods: Given<Vec<Given<MethodName>>>,
    /// Pauses between attempts. Default: no pauses.
    backoff: Given<BackoffArgs>,
    /// Random change of pauses.
    jitter: Given<JitterArgs>,
    /// Time after the request within which retries start. Default: no limit.
    timeout: Given<PositiveTime>,
    /// Classes of statuses that are retried. Default `SERVER_ERROR`.
    series: Given<Vec<Given<Series>>>,
    /// Java exceptions that are retried. Default: `IOException` and the gateway's `TimeoutException`.
    exceptions: Given<Vec<Given<String>>>,
    /// Bytes of a body that are held in memory for retries; requests with a larger body are not retried. Default 64KB.
    max_body_size: Given<BufferSize>,
    /// Upper bound of retries on the route.
    budget: Given<BudgetArgs>,
}

/// Pauses between attempts.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
#[cfg_attr(test, schemars(transform = arguments))]
struct BackoffArgs {
    /// First pause. Default 5ms.
    first_backoff: Given<PositiveTime>,
    /// Longest pause. Default: no limit.
    max_backoff: Given<PositiveTime>,
    /// Factor between pauses. Default 2.
    factor: Given<Number<NonZeroU32>>,
    /// Applies the factor to the previous pause, jitter included. Default true.
    based_on_previous_value: Given<bool>,
}

/// Random change of pauses.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
#[cfg_attr(test, schemars(transform = arguments))]
struct JitterArgs {
    /// Largest change of a pause, as a fraction from 0 to 1. Default 0.
    random_factor: Given<Fraction>,
}

/// Upper bound of retries.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
#[cfg_attr(test, schemars(transform = arguments))]
struct BudgetArgs {
    /// Retries as a percentage of the requests of the last ten seconds. Default 20.
    percent: Given<Number<f32>>,
    /// Retries per second that are always allowed. Default 10.
    min_per_second: Given<Number<u32>>,
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

fn check(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let args: RetryArgs = input.spec.read(&SHORTCUT, diagnostics);
    let at = input.spec.span;
    let default = retry::Settings::default();
    let faults = faults(&args, default.faults, diagnostics);
    let methods = methods(&args, at, diagnostics);
    let backoff = backoff(&args, diagnostics);
    let budget = budget(&args, at, diagnostics);
    let settings = retry::Settings {
        retries: args.retries.or(Retries(default.retries))?.0,
        statuses: statuses(&args.statuses)?,
        series: args.series.items()?.map_or(vec![5], |items| items.iter().map(|item| item.value as u8).collect()),
        methods: methods?,
        faults: faults?,
        backoff: backoff?,
        timeout: args.timeout.optional()?.map(|timeout| timeout.time),
        max_body_bytes: args.max_body_size.or(BufferSize(default.max_body_bytes))?.0,
        budget: budget?,
    };
    if settings.series.is_empty() && settings.statuses.is_empty() && settings.faults == FaultSet::NONE {
        diagnostics
            .error(at, "`Retry` repeats nothing: series, statuses and exceptions are all empty")
            .help("remove `series` for its default SERVER_ERROR");
    }
    Some(Filter::Retry(Box::new(settings)))
}

/// Returns the statuses of a list; none if it is absent.
pub(super) fn statuses(list: &Given<Vec<Given<Status>>>) -> Option<Vec<StatusCode>> {
    Some(list.items()?.unwrap_or_default().iter().map(|status| status.value.0).collect())
}

fn faults(args: &RetryArgs, default: FaultSet, diagnostics: &mut Diagnostics) -> Option<FaultSet> {
    let Some(classes) = args.exceptions.items()? else { return Some(default) };
    Some(classes.into_iter().fold(FaultSet::NONE, |set, class| {
        let faults = FaultSet::of_class(&class.value);
        if faults == FaultSet::NONE {
            report_unknown_class(class, diagnostics);
        }
        set.or(faults)
    }))
}

fn methods(args: &RetryArgs, at: Span, diagnostics: &mut Diagnostics) -> Option<Vec<Method>> {
    let Some(methods) = args.methods.items()? else { return Some(vec![Method::GET]) };
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
    Some(methods.iter().map(|method| method.value.0.clone()).collect())
}

/// Returns the pauses, if there are any; the outer `None` after an error.
#[expect(clippy::option_option, reason = "the outer one tells an error from no pauses")]
fn backoff(args: &RetryArgs, diagnostics: &mut Diagnostics) -> Option<Option<retry::Backoff>> {
    let default = retry::Backoff::default();
    let jitter = args.jitter.or(JitterArgs::default())?;
    let Some(backoff) = args.backoff.optional()? else {
        if let Some(at) = jitter.random_factor.span() {
            diagnostics
                .mistake(at, "`jitter` needs `backoff`: there are no pauses without it")
                .help("add `backoff.firstBackoff`");
        }
        return jitter.random_factor.optional().map(|_| None);
    };
    let first = backoff.first_backoff.optional()?.map_or(default.first, |first| first.time);
    let max = backoff.max_backoff.optional()?.map(|max| max.time);
    if let Some((at, max)) = backoff.max_backoff.span().zip(max).filter(|(_, max)| *max < first) {
        diagnostics.error(at, format!("`maxBackoff` {max:?} is shorter than `firstBackoff` {first:?}"));
    }
    Some(Some(retry::Backoff {
        first,
        max,
        factor: backoff.factor.optional()?.map_or(default.factor, |factor| factor.0.get()),
        from_previous: backoff.based_on_previous_value.or(default.from_previous)?,
        jitter: jitter.random_factor.or(Fraction(default.jitter))?.0,
    }))
}

#[expect(clippy::option_option, reason = "the outer one tells an error from no budget")]
fn budget(args: &RetryArgs, at: Span, diagnostics: &mut Diagnostics) -> Option<Option<retry::Budget>> {
    let args = args.budget.or(BudgetArgs::default())?;
    let (percent, least) = (args.percent.or(Number(20.0))?.0, args.min_per_second.or(Number(10))?.0);
    let budget = retry::Budget::new(percent, least);
    if budget.is_none() {
        let at = args.percent.span().or(args.min_per_second.span()).unwrap_or(at);
        diagnostics.error(at, "`budget.percent` must be from 0 to 100000, `budget.minPerSecond` from 0 to 1000000");
        return None;
    }
    Some(budget)
}
