//! `RequestCounter` as written to a counter that counts, and `metering:`.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tollgate_filters::key_resolver::KeyResolver;
use tollgate_limiter::metering::{Dimensions, Period};

use crate::de::arg::Arg;
use crate::de::canonical;
use crate::de::units::parse_time;
use crate::de::values::positive;
use crate::diagnostics::{Diagnostics, suggest};
use crate::model::{Metering, RequestCounter};
use crate::rate_limiter::Limits;
use crate::sections::key_resolvers::one_key_resolver;
use crate::sections::metering::RawMetering;
use crate::spring::spec::Written;

const ARGS: [&str; 5] = ["key-resolver", "dimensions", "period", "ttl", "bucket"];

const DAY: Duration = Duration::from_secs(86_400);

/// `metering:`.
pub(crate) fn metering(raw: &RawMetering, diagnostics: &mut Diagnostics) -> Metering {
    Metering {
        flush_every: positive(raw.flush_every, 1, diagnostics),
        max_cells: raw.max_cells.unwrap_or(NonZeroUsize::MIN.saturating_add(99_999)),
        retry_queue: raw.retry_queue.unwrap_or(NonZeroUsize::MIN.saturating_add(15)),
    }
}

/// The counter that `written` means; `None` when it cannot be used, which `sink` then knows.
pub(crate) fn check(written: &Written, limits: &Limits<'_>, diagnostics: &mut Diagnostics) -> Option<RequestCounter> {
    let args = Args::new(written, diagnostics)?;
    let key_resolver = key_resolver(&args, limits, diagnostics);
    let dimensions = dimensions(&args, diagnostics);
    let period = period(&args, diagnostics);
    let ttl = ttl(&args, period?, diagnostics);
    let counter = RequestCounter {
        key_resolver: key_resolver?,
        dimensions: dimensions?,
        period: period?,
        ttl: ttl?,
        bucket: None,
    };
    let bucket = bucket(&args, &counter, limits, diagnostics)?;
    Some(RequestCounter { bucket, ..counter })
}

/// Arguments by their name as in [`ARGS`], without an index.
struct Args<'w>(Vec<(&'static str, &'w Arg)>);

impl<'w> Args<'w> {
    fn new(written: &'w Written, diagnostics: &mut Diagnostics) -> Option<Self> {
        let mut args = Vec::with_capacity(written.args.len());
        for arg in &written.args {
            let Some(name) = &arg.name else {
                diagnostics
                    .error(arg.span, "`RequestCounter` has no shortcut form")
                    .help("write `name: RequestCounter` and `args: {key-resolver: ip}`");
                return None;
            };
            let bare = name.split('[').next().unwrap_or(name);
            match ARGS.iter().find(|known| canonical(known) == canonical(bare)) {
                Some(known) => args.push((*known, arg)),
                None => {
                    diagnostics
                        .mistake(arg.span.key(), format!("`RequestCounter` has no argument `{bare}`"))
                        .help(suggest(bare, &ARGS));
                }
            }
        }
        written.check_empty(&ARGS, diagnostics);
        Some(Self(args))
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &'w Arg> {
        self.0.iter().filter(move |(known, _)| *known == name).map(|(_, arg)| *arg)
    }

    fn get(&self, name: &str) -> Option<&'w Arg> {
        self.all(name).next()
    }
}

fn key_resolver(args: &Args<'_>, limits: &Limits<'_>, diagnostics: &mut Diagnostics) -> Option<KeyResolver> {
    let parts: Option<Vec<_>> =
        args.all("key-resolver").map(|arg| one_key_resolver(arg, &limits.resolvers, diagnostics)).collect();
    let parts = parts?;
    Some(if parts.is_empty() { KeyResolver::ip() } else { KeyResolver::composite(parts) })
}

fn dimensions(args: &Args<'_>, diagnostics: &mut Diagnostics) -> Option<Dimensions> {
    if args.get("dimensions").is_none() {
        return Some(Dimensions::default());
    }
    let mut dimensions = Dimensions { route: false, method: false, status: false };
    for arg in args.all("dimensions") {
        for word in arg.value.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match canonical(word).as_str() {
                "route" => dimensions.route = true,
                "method" => dimensions.method = true,
                "status" => dimensions.status = true,
                "none" => {}
                _ => {
                    diagnostics.error(arg.span, format!("expected route, method, status or none, found `{word}`"));
                    return None;
                }
            }
        }
    }
    Some(dimensions)
}

fn period(args: &Args<'_>, diagnostics: &mut Diagnostics) -> Option<Period> {
    let Some(arg) = args.get("period") else { return Some(Period::Day) };
    match canonical(&arg.value).as_str() {
        "hour" => Some(Period::Hour),
        "day" => Some(Period::Day),
        "month" => Some(Period::Month),
        _ => {
            diagnostics.error(arg.span, format!("expected hour, day or month, found `{}`", arg.value));
            None
        }
    }
}

/// As long as a bill takes to be written and disputed: a month and some days after a day, a year and a month after a
/// month.
fn ttl(args: &Args<'_>, period: Period, diagnostics: &mut Diagnostics) -> Option<Duration> {
    let Some(arg) = args.get("ttl") else {
        return Some(if period == Period::Month { 400 * DAY } else { 35 * DAY });
    };
    let ttl = parse_time(&arg.value).map_err(|message| diagnostics.error(arg.span, message)).ok()?;
    if ttl < period.longest() {
        diagnostics
            .error(arg.span, format!("`ttl` must be at least as long as the period, found `{}`", arg.value))
            .help("it runs from the first count of a period: what is counted after it would begin at 0");
        return None;
    }
    Some(ttl)
}

/// The name that the counter shares with others, which must count alike: their sums would mean nothing otherwise.
fn bucket(
    args: &Args<'_>,
    counter: &RequestCounter,
    limits: &Limits<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Option<Arc<str>>> {
    let Some(arg) = args.get("bucket") else { return Some(None) };
    let name = arg.value.trim();
    if name.is_empty() {
        diagnostics.error(arg.span, "`bucket` must be a name, found nothing");
        return None;
    }
    let mine = (counter.dimensions, counter.period);
    if *limits.counted.borrow_mut().entry(name.to_owned()).or_insert(mine) != mine {
        diagnostics
            .error(
                arg.span,
                format!("another `RequestCounter` with the bucket `{name}` counts by other dimensions or periods"),
            )
            .help("give both the same `dimensions` and `period`, or each its own `bucket`");
        return None;
    }
    Some(Some(name.into()))
}
