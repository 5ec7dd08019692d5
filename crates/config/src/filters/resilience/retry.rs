//! `Retry` as written to what is repeated.

use std::time::Duration;

use http::Method;
use tollgate_filters::fault::FaultSet;
use tollgate_filters::retry;

use crate::de::canonical;
use crate::de::spanned::Spanned;
use crate::de::units::parse_time;
use crate::de::values::flag;
use crate::diagnostics::Diagnostics;
use crate::filters::entry::Call;
use crate::filters::resilience::{Args, kept};
use crate::model::Filter;
use crate::sections::resilience::unknown_class;

pub(super) fn check(call: &Call<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let args = Args::new(call, 9, diagnostics);
    let default = retry::Settings::default();
    let retries = args.read("retries", diagnostics, |text| match text.parse::<u32>() {
        Ok(retries @ 1..=1_000) => Ok(retries),
        _ => Err(format!("expected a number of retries from 1 to 1000, found `{text}`")),
    });
    let statuses = args.statuses("statuses", diagnostics);
    let series = series(&args, diagnostics);
    let faults = match args.list("exceptions") {
        None => default.faults,
        Some(classes) => classes.iter().fold(FaultSet::NONE, |set, class| {
            let faults = FaultSet::of_class(&class.value);
            if faults == FaultSet::NONE {
                unknown_class(class, diagnostics);
            }
            set.or(faults)
        }),
    };
    let methods = methods(&args, diagnostics);
    let backoff = backoff(&args, diagnostics);
    let timeout = args.read("timeout", diagnostics, positive_time);
    let max_body_bytes = args.read("maxBodySize", diagnostics, kept);
    let budget = budget(&args, diagnostics);
    let settings = retry::Settings {
        retries: retries.ok()?.unwrap_or(default.retries),
        statuses: statuses?,
        series: series?,
        methods: methods?,
        faults,
        backoff: backoff.ok()?,
        timeout: timeout.ok()?,
        max_body_bytes: max_body_bytes.ok()?.unwrap_or(default.max_body_bytes),
        budget: budget?,
    };
    if settings.series.is_empty() && settings.statuses.is_empty() && settings.faults == FaultSet::NONE {
        diagnostics
            .error(call.written.span, "`Retry` repeats nothing: series, statuses and exceptions are all empty")
            .help("leave `series` out for SERVER_ERROR");
    }
    Some(Filter::Retry(Box::new(settings)))
}

fn series(args: &Args<'_>, diagnostics: &mut Diagnostics) -> Option<Vec<u8>> {
    const SERIES: [&str; 5] = ["INFORMATIONAL", "SUCCESSFUL", "REDIRECTION", "CLIENT_ERROR", "SERVER_ERROR"];
    let Some(items) = args.list("series") else { return Some(vec![5]) };
    let read = |item: &Spanned<String>| {
        let at = SERIES.iter().position(|series| canonical(series) == canonical(&item.value));
        if at.is_none() {
            diagnostics.error(item.span, format!("expected one of {}, found `{}`", SERIES.join(", "), item.value));
        }
        at.and_then(|at| u8::try_from(at + 1).ok())
    };
    items.iter().map(read).collect()
}

fn methods(args: &Args<'_>, diagnostics: &mut Diagnostics) -> Option<Vec<Method>> {
    let Some(items) = args.list("methods") else { return Some(vec![Method::GET]) };
    if items.is_empty() {
        diagnostics.error(args.call.written.span, "`methods` must name at least one").help("leave it out for GET");
    }
    let read = |item: &Spanned<String>| {
        let method = Method::from_bytes(item.value.to_ascii_uppercase().as_bytes());
        method.map_err(|_| diagnostics.error(item.span, format!("`{}` is no method", item.value))).ok()
    };
    let methods: Vec<Method> = items.iter().map(read).collect::<Option<_>>()?;
    let at = args.get("methods").map_or(args.call.written.span, |arg| arg.span);
    for method in methods.iter().filter(|method| [Method::POST, Method::PATCH].contains(method)) {
        diagnostics
            .info(at, format!("{method} may be done twice: an upstream that breaks off can have done it before"))
            .help("leave it out, unless the upstream tells repeated requests from new ones");
    }
    Some(methods)
}

fn backoff(args: &Args<'_>, diagnostics: &mut Diagnostics) -> Result<Option<retry::Backoff>, ()> {
    let default = retry::Backoff::default();
    let first = args.read("backoff.firstBackoff", diagnostics, positive_time)?;
    let max = args.read("backoff.maxBackoff", diagnostics, positive_time)?;
    let factor = args.read("backoff.factor", diagnostics, |text| match text.parse::<u32>() {
        Ok(factor @ 1..) => Ok(factor),
        _ => Err(format!("expected a whole number from 1, found `{text}`")),
    })?;
    let from_previous = flag(args.get("backoff.basedOnPreviousValue"), default.from_previous, diagnostics).ok_or(())?;
    let jitter = args.read("jitter.randomFactor", diagnostics, |text| match text.parse::<f64>() {
        Ok(factor) if (0.0..=1.0).contains(&factor) => Ok(factor),
        _ => Err(format!("expected a number from 0 to 1, found `{text}`")),
    })?;
    if !args.bound.iter().any(|(name, _)| name.starts_with("backoff.")) {
        if let Some(arg) = args.get("jitter.randomFactor") {
            diagnostics
                .mistake(arg.span, "without `backoff` there is no pause that could differ")
                .help("add `backoff.firstBackoff`");
        }
        return Ok(None);
    }
    let first = first.unwrap_or(default.first);
    if let Some((arg, max)) = args.get("backoff.maxBackoff").zip(max).filter(|(_, max)| *max < first) {
        diagnostics.error(arg.span, format!("`maxBackoff` {max:?} is shorter than `firstBackoff` {first:?}"));
    }
    Ok(Some(retry::Backoff {
        first,
        max,
        factor: factor.unwrap_or(default.factor),
        from_previous,
        jitter: jitter.unwrap_or(default.jitter),
    }))
}

fn budget(args: &Args<'_>, diagnostics: &mut Diagnostics) -> Option<Option<retry::Budget>> {
    let percent = args.read("budget.percent", diagnostics, number::<f32>("percent such as `20`"));
    let least = args.read("budget.minPerSecond", diagnostics, number::<u32>("a whole number"));
    let (percent, least) = (percent.ok()?.unwrap_or(20.0), least.ok()?.unwrap_or(10));
    let budget = retry::Budget::new(percent, least);
    if budget.is_none() {
        let at = args.get("budget.percent").or(args.get("budget.minPerSecond"));
        diagnostics.error(
            at.map_or(args.call.written.span, |arg| arg.span),
            "`budget.percent` must be from 0 to 100000, `budget.minPerSecond` from 0 to 1000000",
        );
        return None;
    }
    Some(budget)
}

fn number<T: std::str::FromStr>(what: &str) -> impl Fn(&str) -> Result<T, String> {
    move |text| text.parse().map_err(|_| format!("expected {what}, found `{text}`"))
}

fn positive_time(text: &str) -> Result<Duration, String> {
    let time = parse_time(text)?;
    if time.is_zero() { Err("must be longer than 0".to_owned()) } else { Ok(time) }
}
