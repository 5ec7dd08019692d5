//! Filters for upstreams that fail: `Retry`, `CircuitBreaker`, `FallbackHeaders`.

use std::time::Duration;

use http::header::HeaderName;
use http::{Method, StatusCode};
use tollgate_filters::fallback_headers::HeaderNames;
use tollgate_filters::fault::FaultSet;
use tollgate_filters::{circuit_breaker, retry};

use super::super::de::canonical;
use super::super::definition::Arg;
use super::super::forward;
use super::super::model::{CircuitBreaker, Filter};
use super::super::problem::{Sink, suggest};
use super::super::resilience::unknown_class;
use super::super::spot::Spot;
use super::super::status::parse_status;
use super::super::units::{parse_size, parse_time};
use super::super::values::{flag, header_name};
use super::super::yaml::Origin;
use super::{Argument, Call, Entry, Settings};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "Retry",
        doc: "Runs requests that failed again, through every filter listed after it.",
        args: &[
            Argument::new("retries", "Attempts after the first. Default 3."),
            Argument::new("statuses", "Statuses that are repeated besides the series. Default none."),
            Argument::new("methods", "Methods that are repeated. Default GET."),
            Argument::new("backoff.firstBackoff", "The first pause. Default 5ms; without `backoff` there is none."),
            Argument::new("backoff.maxBackoff", "No pause is longer. Default any length."),
            Argument::new("backoff.factor", "What each pause is multiplied by. Default 2."),
            Argument::new("backoff.basedOnPreviousValue", "Whether jitter is multiplied too. Default true."),
            Argument::new("jitter.randomFactor", "The part, from 0 to 1, by which a pause may differ. Default 0."),
            Argument::new("timeout", "No retry begins later than this after the request. Default any time."),
            Argument::new("series", "Kinds of statuses that are repeated. Default SERVER_ERROR."),
            Argument::new(
                "exceptions",
                "Java exceptions whose failures are repeated. Default IOException and the gateway's TimeoutException.",
            ),
            Argument::new(
                "maxBodySize",
                "Bytes of a body that are kept to be sent again; requests with more are sent once. Default 64KB.",
            ),
            Argument::new(
                "budget.percent",
                "How many retries there may be, in percent of the last ten seconds' requests. Default 20.",
            ),
            Argument::new("budget.minPerSecond", "Retries a second that there may be in any case. Default 10."),
        ],
        check: retry,
    },
    Entry {
        name: "CircuitBreaker",
        doc: "Asks an upstream that fails no more, for a while, and sends requests to a fallback instead.",
        args: &[
            Argument::new(
                "name",
                "The breaker's name, under which `resilience4j` has its settings. Default the route's id.",
            ),
            Argument::new("fallbackUri", "`forward:/path`, which is routed anew. Default 503 or 504 is answered."),
            Argument::new("statusCodes", "Statuses that are failures. Default none."),
            Argument::new(
                "resumeWithoutError",
                "Whether an upstream that cannot be reached is answered with an empty 200. Default false.",
            ),
            Argument::new("maxBodySize", "Bytes of a body that are kept for the fallback. Default 64KB."),
        ],
        check: circuit_breaker,
    },
    Entry {
        name: "FallbackHeaders",
        doc: "Tells the upstream of a breaker's fallback what went wrong.",
        args: &[
            Argument::new("executionExceptionTypeHeaderName", "Default `Execution-Exception-Type`."),
            Argument::new("executionExceptionMessageHeaderName", "Default `Execution-Exception-Message`."),
            Argument::new("rootCauseExceptionTypeHeaderName", "Default `Root-Cause-Exception-Type`."),
            Argument::new("rootCauseExceptionMessageHeaderName", "Default `Root-Cause-Exception-Message`."),
        ],
        check: fallback_headers,
    },
];

/// Arguments by name, lists with all their items.
struct Args<'c> {
    call: &'c Call<'c>,
    bound: Vec<(&'static str, &'c Arg)>,
}

impl<'c> Args<'c> {
    /// The arguments of `call`, of which the first `positions` may stand in the shortcut.
    fn new(call: &'c Call<'c>, positions: usize, sink: &mut Sink) -> Self {
        let names: Vec<&'static str> = call.args.iter().map(|argument| argument.name).collect();
        let filter = &call.written.name;
        let mut bound: Vec<(&'static str, &'c Arg)> = Vec::new();
        for (position, arg) in call.written.args.iter().enumerate() {
            let Some(name) = &arg.name else {
                match names.get(position).filter(|_| position < positions) {
                    Some(name) => bound.push((name, arg)),
                    None => {
                        let message = format!("the short form of `{filter}` has no place for `{}`", arg.value);
                        sink.mistake(arg.origin, message)
                            .help(format!("the long form takes all arguments: `name: {filter}` and `args:`"));
                    }
                }
                continue;
            };
            let bare = name.split('[').next().unwrap_or(name);
            match names.iter().find(|known| canonical(known) == canonical(bare)) {
                Some(known) => bound.push((known, arg)),
                None => sink
                    .mistake(arg.origin.key(), format!("`{filter}` has no argument `{bare}`"))
                    .help(suggest(bare, &names)),
            }
        }
        call.written.check_empty(&names, sink);
        Self { call, bound }
    }

    fn get(&self, name: &str) -> Option<&'c Arg> {
        self.bound.iter().rev().find(|(known, _)| *known == name).map(|(_, arg)| *arg)
    }

    /// The items of a list, each split at commas; `None` where it is not given, and no items where it is empty.
    fn list(&self, name: &str) -> Option<Vec<Spot<String>>> {
        let given = self.bound.iter().filter(|(known, _)| *known == name).map(|(_, arg)| *arg);
        let items: Vec<Spot<String>> = given
            .flat_map(|arg| arg.value.split(',').map(|item| Spot { value: item.trim().to_owned(), origin: arg.origin }))
            .collect();
        let is_given = !items.is_empty()
            || self
                .call
                .written
                .empty
                .iter()
                .any(|arg| arg.name.as_deref().is_some_and(|given| canonical(given) == canonical(name)));
        is_given.then(|| items.into_iter().filter(|item| !item.value.is_empty()).collect())
    }

    /// The argument as `read` reads it; `Err` where it cannot be, which `sink` then knows.
    fn read<T>(&self, name: &str, sink: &mut Sink, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, ()> {
        let Some(arg) = self.get(name) else { return Ok(None) };
        read(arg.value.trim()).map(Some).map_err(|message| {
            sink.error(arg.origin, message);
        })
    }

    fn statuses(&self, name: &str, sink: &mut Sink) -> Option<Vec<StatusCode>> {
        let items = self.list(name).unwrap_or_default();
        let read =
            |item: &Spot<String>| parse_status(&item.value).map_err(|message| sink.error(item.origin, message)).ok();
        items.iter().map(read).collect()
    }
}

fn number<T: std::str::FromStr>(what: &str) -> impl Fn(&str) -> Result<T, String> {
    move |text| text.parse().map_err(|_| format!("expected {what}, found `{text}`"))
}

/// A size in bytes that may be held in memory for each request.
fn kept(text: &str) -> Result<usize, String> {
    const MOST: u64 = 64 * 1024 * 1024;
    let bytes = parse_size(text)?;
    match usize::try_from(bytes) {
        Ok(size) if bytes <= MOST => Ok(size),
        _ => Err(format!("at most 64MB of each request may be kept in memory, found `{text}`")),
    }
}

fn positive_time(text: &str) -> Result<Duration, String> {
    let time = parse_time(text)?;
    if time.is_zero() { Err("must be longer than 0".to_owned()) } else { Ok(time) }
}

fn retry(call: &Call<'_>, sink: &mut Sink) -> Option<Filter> {
    let args = Args::new(call, 9, sink);
    let default = retry::Settings::default();
    let retries = args.read("retries", sink, |text| match text.parse::<u32>() {
        Ok(retries @ 1..=1_000) => Ok(retries),
        _ => Err(format!("expected a number of retries from 1 to 1000, found `{text}`")),
    });
    let statuses = args.statuses("statuses", sink);
    let series = series(&args, sink);
    let faults = match args.list("exceptions") {
        None => default.faults,
        Some(classes) => classes.iter().fold(FaultSet::NONE, |set, class| {
            let faults = FaultSet::of_class(&class.value);
            if faults == FaultSet::NONE {
                unknown_class(class, sink);
            }
            set.or(faults)
        }),
    };
    let methods = methods(&args, sink);
    let backoff = backoff(&args, sink);
    let timeout = args.read("timeout", sink, positive_time);
    let max_body_bytes = args.read("maxBodySize", sink, kept);
    let budget = budget(&args, sink);
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
        sink.error(call.written.origin, "`Retry` repeats nothing: series, statuses and exceptions are all empty")
            .help("leave `series` out for SERVER_ERROR");
    }
    Some(Filter::Retry(Box::new(settings)))
}

fn series(args: &Args<'_>, sink: &mut Sink) -> Option<Vec<u8>> {
    const SERIES: [&str; 5] = ["INFORMATIONAL", "SUCCESSFUL", "REDIRECTION", "CLIENT_ERROR", "SERVER_ERROR"];
    let Some(items) = args.list("series") else { return Some(vec![5]) };
    let read = |item: &Spot<String>| {
        let at = SERIES.iter().position(|series| canonical(series) == canonical(&item.value));
        if at.is_none() {
            sink.error(item.origin, format!("expected one of {}, found `{}`", SERIES.join(", "), item.value));
        }
        at.and_then(|at| u8::try_from(at + 1).ok())
    };
    items.iter().map(read).collect()
}

fn methods(args: &Args<'_>, sink: &mut Sink) -> Option<Vec<Method>> {
    let Some(items) = args.list("methods") else { return Some(vec![Method::GET]) };
    if items.is_empty() {
        sink.error(args.call.written.origin, "`methods` must name at least one").help("leave it out for GET");
    }
    let read = |item: &Spot<String>| {
        let method = Method::from_bytes(item.value.to_ascii_uppercase().as_bytes());
        method.map_err(|_| sink.error(item.origin, format!("`{}` is no method", item.value))).ok()
    };
    items.iter().map(read).collect()
}

fn backoff(args: &Args<'_>, sink: &mut Sink) -> Result<Option<retry::Backoff>, ()> {
    let default = retry::Backoff::default();
    let first = args.read("backoff.firstBackoff", sink, positive_time)?;
    let max = args.read("backoff.maxBackoff", sink, positive_time)?;
    let factor = args.read("backoff.factor", sink, |text| match text.parse::<u32>() {
        Ok(factor @ 1..) => Ok(factor),
        _ => Err(format!("expected a whole number from 1, found `{text}`")),
    })?;
    let from_previous = flag(args.get("backoff.basedOnPreviousValue"), default.from_previous, sink).ok_or(())?;
    let jitter = args.read("jitter.randomFactor", sink, |text| match text.parse::<f64>() {
        Ok(factor) if (0.0..=1.0).contains(&factor) => Ok(factor),
        _ => Err(format!("expected a number from 0 to 1, found `{text}`")),
    })?;
    if !args.bound.iter().any(|(name, _)| name.starts_with("backoff.")) {
        if let Some(arg) = args.get("jitter.randomFactor") {
            sink.mistake(arg.origin, "without `backoff` there is no pause that could differ")
                .help("add `backoff.firstBackoff`");
        }
        return Ok(None);
    }
    let first = first.unwrap_or(default.first);
    if let Some((arg, max)) = args.get("backoff.maxBackoff").zip(max).filter(|(_, max)| *max < first) {
        sink.error(arg.origin, format!("`maxBackoff` {max:?} is shorter than `firstBackoff` {first:?}"));
    }
    Ok(Some(retry::Backoff {
        first,
        max,
        factor: factor.unwrap_or(default.factor),
        from_previous,
        jitter: jitter.unwrap_or(default.jitter),
    }))
}

fn budget(args: &Args<'_>, sink: &mut Sink) -> Option<Option<retry::Budget>> {
    let percent = args.read("budget.percent", sink, number::<f32>("percent such as `20`"));
    let least = args.read("budget.minPerSecond", sink, number::<u32>("a whole number"));
    let (percent, least) = (percent.ok()?.unwrap_or(20.0), least.ok()?.unwrap_or(10));
    let budget = retry::Budget::new(percent, least);
    if budget.is_none() {
        let at = args.get("budget.percent").or(args.get("budget.minPerSecond"));
        sink.error(
            at.map_or(args.call.written.origin, |arg| arg.origin),
            "`budget.percent` must be from 0 to 100000, `budget.minPerSecond` from 0 to 1000000",
        );
        return None;
    }
    Some(budget)
}

fn circuit_breaker(call: &Call<'_>, sink: &mut Sink) -> Option<Filter> {
    let args = Args::new(call, 1, sink);
    let failure_statuses = args.statuses("statusCodes", sink);
    let resume_without_error = flag(args.get("resumeWithoutError"), false, sink);
    let max_body_bytes = args.read("maxBodySize", sink, kept);
    let fallback = match args.get("fallbackUri") {
        None => None,
        Some(arg) => {
            let fallback = forward::fallback(arg.value.trim(), arg.origin, sink)?;
            if let Some(path) = &fallback.known {
                call.settings.forwards.borrow_mut().push((arg.origin, path.to_string()));
            }
            Some(fallback)
        }
    };
    let name = args.get("name").map(|arg| arg.value.trim()).filter(|name| !name.is_empty());
    let default = circuit_breaker::Settings::default();
    let settings = circuit_breaker::Settings {
        failure_statuses: failure_statuses?,
        resume_without_error: resume_without_error?,
        max_body_bytes: max_body_bytes.ok()?.unwrap_or(default.max_body_bytes),
        ..default
    };
    Some(Filter::CircuitBreaker(Box::new(CircuitBreaker {
        name: name.map(Into::into),
        rules: circuit_breaker::Rules::default(),
        settings,
        fallback,
    })))
}

/// Settles which breaker `filter` is on the route `id`, if it is one.
pub(crate) fn bind(filter: &mut Filter, at: Origin, id: &str, settings: &Settings<'_>, sink: &mut Sink) {
    let Filter::CircuitBreaker(breaker) = filter else { return };
    let name = breaker.name.as_deref().unwrap_or(id);
    settings.breakers.borrow_mut().insert(name.to_owned());
    let checked = settings.resilience.breaker(name);
    let (time_limit, is_chosen) = settings.resilience.time_limit(name);
    breaker.rules = checked.rules.clone();
    breaker.settings.recorded = checked.recorded;
    breaker.settings.ignored = checked.ignored;
    breaker.settings.time_limit = time_limit;
    if !is_chosen {
        sink.info(at, "an upstream that takes longer than 1s to answer counts as failed: resilience4j's default")
            .help("`resilience4j.timelimiter.configs.default.timeout-duration` sets it for all breakers");
    }
}

fn fallback_headers(call: &Call<'_>, sink: &mut Sink) -> Option<Filter> {
    let args = Args::new(call, 0, sink);
    let mut names = HeaderNames::default();
    let fields: [(&str, &mut HeaderName); 4] = [
        ("executionExceptionTypeHeaderName", &mut names.execution_type),
        ("executionExceptionMessageHeaderName", &mut names.execution_message),
        ("rootCauseExceptionTypeHeaderName", &mut names.root_type),
        ("rootCauseExceptionMessageHeaderName", &mut names.root_message),
    ];
    for (name, field) in fields {
        if let Some(arg) = args.get(name) {
            *field = header_name(&arg.value, arg.origin, sink)?;
        }
    }
    Some(Filter::FallbackHeaders(names))
}
