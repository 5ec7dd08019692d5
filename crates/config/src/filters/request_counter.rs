//! `RequestCounter`.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_limiter::metering::{Dimensions, Period};

use crate::de::{Given, Spanned, Texts, Time, canonical, described_by, read_by};
use crate::diagnostics::{Diagnostics, Reported};
use crate::filters::model::{Filter, RequestCounter};
use crate::filters::row::{Arguments, Entry, FilterInput};
use crate::rate_limiter::context::LimiterContext;
use crate::spec::Shortcut;
#[cfg(test)]
use crate::spec::arguments;

const DAY: Duration = Duration::from_secs(86_400);

/// Arguments of `RequestCounter`.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(transform = arguments))]
#[serde(rename_all = "kebab-case")]
struct RequestCounterArgs {
    /// Key that requests are counted by, or a list of several; requests without a key are counted under the empty key. Default `ip`.
    #[serde(default)]
    key_resolver: Texts,
    /// Properties by which the counts of a key are separated: `route`, `method`, `status`; `none` for sums only. Default: all three.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<Dimension>"))]
    dimensions: Given<Vec<Dimension>>,
    /// Length of one sum: `hour`, `day` or `month`, in UTC. Default `day`.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Option<PeriodWord>"))]
    period: Given<PeriodWord>,
    /// Time for which a sum is kept, from its first count. Default: 35d; 400d with `period: month`.
    ttl: Option<Spanned<Time>>,
    /// Name under which several routes count together. Default: the route's id.
    bucket: Option<Spanned<String>>,
}

/// `period`.
#[word]
enum PeriodWord {
    Hour,
    Day,
    Month,
}

/// Property that separates counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dimension {
    Route,
    Method,
    Status,
    None,
}

read_by! {
    Dimension: |text| match canonical(text).as_str() {
        "route" => Ok(Dimension::Route),
        "method" => Ok(Dimension::Method),
        "status" => Ok(Dimension::Status),
        "none" => Ok(Dimension::None),
        _ => Err(format!("expected route, method, status or none, found `{text}`")),
    };
}

described_by! {
    Dimension: "Dimension" {"enum": ["route", "method", "status", "none"], "type": "string"};
}

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "RequestCounter",
    doc: "Counts requests per key and limits nothing.",
    args: Arguments::of::<RequestCounterArgs>(Shortcut::None("{key-resolver: ip}")),
    check,
}];

/// Returns the counter that `args` describe. Reports errors.
fn check(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Result<Filter, Reported> {
    let args: RequestCounterArgs = input.read(diagnostics)?;
    let context = &input.context.limiters;
    let key_resolver = context.key_resolvers.resolve_all(args.key_resolver.items(), diagnostics);
    let period = match args.period.or(PeriodWord::Day)? {
        PeriodWord::Hour => Period::Hour,
        PeriodWord::Day => Period::Day,
        PeriodWord::Month => Period::Month,
    };
    let ttl = ttl(args.ttl, period, diagnostics);
    let words = args.dimensions.or(Vec::new())?;
    let has = |dimension| words.is_empty() || words.contains(&dimension);
    let dimensions =
        Dimensions { route: has(Dimension::Route), method: has(Dimension::Method), status: has(Dimension::Status) };
    let bucket = match &args.bucket {
        Some(bucket) => Some(shared_bucket(bucket, (dimensions, period), context, diagnostics)?),
        None => None,
    };
    let key_resolver = key_resolver?.unwrap_or_else(KeyResolver::client_ip);
    Ok(Filter::RequestCounter(Box::new(RequestCounter { key_resolver, dimensions, period, ttl: ttl?, bucket })))
}

/// Returns the time for which counts are kept. The default leaves time to write and dispute a bill: over a month after
/// a day, over a year after a month.
fn ttl(ttl: Option<Spanned<Time>>, period: Period, diagnostics: &mut Diagnostics) -> Result<Duration, Reported> {
    let Some(Spanned { value: Time(ttl), span }) = ttl else {
        return Ok(if period == Period::Month { 400 * DAY } else { 35 * DAY });
    };
    if ttl < period.max_duration() {
        let message = format!("`ttl` must be at least as long as the period, found {ttl:?}");
        let help = "it runs from the first count of a period; later counts would start again at 0";
        return Err(diagnostics.error(span, message).reported_with(help));
    }
    Ok(ttl)
}

/// Returns the name of a shared counter. Counters with the same name must have the same dimensions and period, or their
/// sums would be meaningless.
fn shared_bucket(
    bucket: &Spanned<String>,
    counted: (Dimensions, Period),
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Result<Arc<str>, Reported> {
    let name = bucket.value.trim();
    if name.is_empty() {
        return Err(diagnostics.error(bucket.span, "`bucket` must not be empty").reported());
    }
    if *context.counter_buckets.borrow_mut().entry(name.to_owned()).or_insert(counted) != counted {
        let message = format!("another `RequestCounter` with bucket `{name}` has other dimensions or periods");
        let help = "give both the same `dimensions` and `period`, or each its own `bucket`";
        return Err(diagnostics.error(bucket.span, message).reported_with(help));
    }
    Ok(name.into())
}
