//! `RequestCounter`: arguments, checks, and the checked counter.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_limiter::metering::{Dimensions, Period};

use crate::de::canonical;
use crate::de::given::{Given, Texts};
use crate::de::units::Time;
use crate::diagnostics::Diagnostics;
use crate::rate_limiter::context::LimiterContext;
use crate::spec::FilterSpec;
#[cfg(test)]
use crate::spec::schema::arguments;

const DAY: Duration = Duration::from_secs(86_400);

/// One counter of a route.
#[derive(Clone, Debug)]
pub struct RequestCounter {
    /// Key that requests are counted by.
    pub key_resolver: KeyResolver,
    /// Properties by which the counts of one key are separated.
    pub dimensions: Dimensions,
    /// Length of one sum.
    pub period: Period,
    /// Time for which counts are kept in Redis.
    pub ttl: Duration,
    /// Name under which several routes count together; `None`: the route's id.
    pub bucket: Option<Arc<str>>,
}

/// Arguments of `RequestCounter`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
#[cfg_attr(test, schemars(transform = arguments))]
pub(crate) struct RequestCounterArgs {
    /// Key that requests are counted by, or a list of several; requests without a key are counted under the empty key. Default `ip`.
    key_resolver: Given<Texts>,
    /// Properties by which the counts of a key are separated: `route`, `method`, `status`; `none` for sums only. Default: all three.
    #[cfg_attr(test, schemars(with = "DimensionList"))]
    dimensions: Given<Texts>,
    /// Length of one sum: `hour`, `day` or `month`, in UTC. Default `day`.
    period: Given<PeriodWord>,
    /// Time for which a sum is kept, from its first count. Default: 35d; 400d with `period: month`.
    ttl: Given<Time>,
    /// Name under which several routes count together. Default: the route's id.
    bucket: Given<String>,
}

/// `period`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum PeriodWord {
    Hour,
    Day,
    Month,
}

/// `dimensions`, for the schema.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes what is read as texts")]
enum DimensionList {
    /// One, or several separated by commas.
    One(String),
    /// Several.
    Several(Vec<DimensionWord>),
}

/// A dimension, for the schema.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "describes what is read as text")]
enum DimensionWord {
    Route,
    Method,
    Status,
    None,
}

/// Returns the counter that `spec` describes. Reports errors; `None` if it cannot be used.
pub(crate) fn check(
    spec: &FilterSpec,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<RequestCounter> {
    if let Some(arg) = spec.args.iter().find(|arg| arg.name.is_none()) {
        diagnostics
            .error(arg.span, "`RequestCounter` has no shortcut form")
            .help("write `name: RequestCounter` and `args: {key-resolver: ip}`");
        return None;
    }
    let args: RequestCounterArgs = spec.read(&[], diagnostics);
    let key_resolver = key_resolver(&args, context, diagnostics);
    let dimensions = dimensions(&args, diagnostics);
    let period = match args.period.or(PeriodWord::Day)? {
        PeriodWord::Hour => Period::Hour,
        PeriodWord::Day => Period::Day,
        PeriodWord::Month => Period::Month,
    };
    let ttl = ttl(&args, period, diagnostics);
    let (key_resolver, dimensions, ttl) = (key_resolver?, dimensions?, ttl?);
    let bucket = bucket(&args, (dimensions, period), context, diagnostics)?;
    Some(RequestCounter { key_resolver, dimensions, period, ttl, bucket })
}

fn key_resolver(
    args: &RequestCounterArgs,
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<KeyResolver> {
    match args.key_resolver.checked().ok()?.filter(|texts| !texts.value.items().is_empty()) {
        Some(texts) => context.key_resolvers.resolve_all(&texts.value, diagnostics),
        None => Some(KeyResolver::ip()),
    }
}

fn dimensions(args: &RequestCounterArgs, diagnostics: &mut Diagnostics) -> Option<Dimensions> {
    let given = args.dimensions.checked().ok()?.filter(|texts| !texts.value.items().is_empty());
    let Some(texts) = given else { return Some(Dimensions::default()) };
    let mut dimensions = Dimensions { route: false, method: false, status: false };
    for word in texts.value.split() {
        match canonical(word.value).as_str() {
            "route" => dimensions.route = true,
            "method" => dimensions.method = true,
            "status" => dimensions.status = true,
            "none" => {}
            _ => {
                let found = word.value;
                diagnostics.error(word.span, format!("expected route, method, status or none, found `{found}`"));
                return None;
            }
        }
    }
    Some(dimensions)
}

/// Returns the time for which counts are kept. The default leaves time to write and dispute a bill: over a month after
/// a day, over a year after a month.
fn ttl(args: &RequestCounterArgs, period: Period, diagnostics: &mut Diagnostics) -> Option<Duration> {
    let Some(ttl) = args.ttl.checked().ok()? else {
        return Some(if period == Period::Month { 400 * DAY } else { 35 * DAY });
    };
    if ttl.value.0 < period.max_duration() {
        diagnostics
            .error(ttl.span, format!("`ttl` must be at least as long as the period, found {:?}", ttl.value.0))
            .help("it runs from the first count of a period; later counts would start again at 0");
        return None;
    }
    Some(ttl.value.0)
}

/// Returns the name of a shared counter. Counters with the same name must have the same dimensions and period, or their
/// sums would be meaningless.
#[expect(clippy::option_option, reason = "the outer one tells an error from an absent name")]
fn bucket(
    args: &RequestCounterArgs,
    counted: (Dimensions, Period),
    context: &LimiterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Option<Arc<str>>> {
    let Some(given) = args.bucket.checked().ok()? else { return Some(None) };
    let name = given.value.trim();
    if name.is_empty() {
        diagnostics.error(given.span, "`bucket` must not be empty");
        return None;
    }
    if *context.counter_buckets.borrow_mut().entry(name.to_owned()).or_insert(counted) != counted {
        diagnostics
            .error(given.span, format!("another `RequestCounter` with bucket `{name}` has other dimensions or periods"))
            .help("give both the same `dimensions` and `period`, or each its own `bucket`");
        return None;
    }
    Some(Some(name.into()))
}
