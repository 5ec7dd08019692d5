//! An algorithm with its numbers.

use std::time::Duration;

use tollgate_limiter::algorithm::SettingsForm;
use tollgate_limiter::rule::{
    Algorithm, Calendar, FixedWindow, LeakyBucket, Quota, Refill, Rule, RuleError, TokenBucket,
};

use crate::de::{Given, canonical};
use crate::diagnostics::{Diagnostics, Reported};
use crate::rate_limiter::args::RuleArgs;
use crate::rate_limiter::value_enums::{Align, CalendarWord, RefillWord, Window};
use crate::spec::{MAX_COUNT, Rate, Rejection, TimeArgument, key_of, with_keys};
use crate::yaml::Span;

/// Arguments of every rule, for any algorithm.
pub(super) const COMMON: [&str; 5] = ["algorithm", "requested-tokens", "cost", "max-cost", "when"];

/// A rule, or the reason why there is none.
type Read<T> = Result<T, Rejection<RuleError>>;

/// Returns the rule that `args`, found at `at`, describe. Reports errors.
pub(super) fn rule(args: &RuleArgs, at: Span, diagnostics: &mut Diagnostics) -> Result<Rule, Reported> {
    let algorithm = algorithm(args, diagnostics)?;
    report_foreign_fields(args, algorithm, diagnostics)?;
    let reader = Reader { args, at, algorithm };
    let rule = match algorithm.spec().settings {
        SettingsForm::Bucket(rule) => reader.bucket(diagnostics).map(rule),
        SettingsForm::Window(rule) => {
            let (limit, window) = reader.window(diagnostics)?;
            rule(limit, window).map_err(Rejection::from)
        }
        SettingsForm::FixedWindow => reader.fixed_window(diagnostics).map(Rule::FixedWindow),
        SettingsForm::Pace => reader.leaky_bucket(diagnostics).map(Rule::LeakyBucket),
        SettingsForm::Quota => reader.quota(diagnostics).map(Rule::Quota),
    };
    rule.map_err(|rejection| {
        rejection.reported(|error| {
            let wrong = key_of(error.field());
            let is_wrong = |field: &str| field == wrong || field.strip_prefix("replenish-") == Some(wrong);
            let wrong_field = args.fields_of_file().find(|(field, _)| is_wrong(field));
            diagnostics.error(wrong_field.map_or(at, |(_, span)| span), with_keys(error)).reported()
        })
    })
}

/// Returns the arguments of `algorithm`, besides [`COMMON`].
fn fields(algorithm: Algorithm) -> &'static [&'static str] {
    match algorithm.spec().settings {
        SettingsForm::Bucket(_) => {
            &["replenish-rate", "burst-capacity", "period", "replenish-period", "refill", "refill-anchor"]
        }
        SettingsForm::Window(_) => &["limit", "window"],
        SettingsForm::FixedWindow => &["limit", "window", "align", "time-zone"],
        SettingsForm::Pace => &["rate", "period", "max-wait", "max-queue", "warm-up"],
        SettingsForm::Quota => &["allowance", "reset", "time-zone"],
    }
}

/// Reports fields of other algorithms.
fn report_foreign_fields(args: &RuleArgs, algorithm: Algorithm, diagnostics: &mut Diagnostics) -> Result<(), Reported> {
    let (name, allowed) = (algorithm.as_str(), fields(algorithm));
    let mut result = Ok(());
    let is_foreign = |(field, _): &(&str, Span)| !COMMON.contains(field) && !allowed.contains(field);
    for (field, span) in args.fields_of_file().filter(is_foreign) {
        let owners: Vec<String> = Algorithm::ALL
            .iter()
            .filter(|algorithm| fields(**algorithm).contains(&field))
            .map(|algorithm| format!("`{}`", algorithm.as_str()))
            .collect();
        let help = format!("{} (`{field}` belongs to {})", diagnostics.suggest(field, allowed), owners.join(", "));
        let error = diagnostics.error(span.key(), format!("`{field}` is not a field of `{name}`"));
        result = Err(error.reported_with(help));
    }
    result
}

/// Reads the algorithm. Default: a token bucket, as in Spring.
fn algorithm(args: &RuleArgs, diagnostics: &mut Diagnostics) -> Result<Algorithm, Reported> {
    let Some(text) = args.algorithm.checked()? else { return Ok(Algorithm::TokenBucket) };
    let name = canonical(text.value.trim());
    if let Some(algorithm) = Algorithm::ALL.into_iter().find(|algorithm| canonical(algorithm.as_str()) == name) {
        return Ok(algorithm);
    }
    if name == "concurrency" {
        let error = diagnostics.error(text.span, "algorithm `concurrency` does not limit rates");
        return Err(error.reported_with("use the filter `ConcurrencyLimiter`, which limits concurrent requests"));
    }
    let error = diagnostics.error(text.span, format!("unknown algorithm `{}`", text.value));
    let reported = error.reported();
    error.suggest(&text.value, &Algorithm::ALL.map(Algorithm::as_str));
    Err(reported)
}

struct Reader<'r> {
    args: &'r RuleArgs,
    at: Span,
    algorithm: Algorithm,
}

impl Reader<'_> {
    /// Returns a required value, or reports that `field` is missing.
    fn needed<T>(
        &self,
        value: Option<T>,
        field: &str,
        example: &str,
        diagnostics: &mut Diagnostics,
    ) -> Result<T, Reported> {
        value.ok_or_else(|| {
            let subject = match self.algorithm {
                Algorithm::TokenBucket => "`RequestRateLimiter`",
                other => other.as_str(),
            };
            diagnostics.error(self.at, format!("{subject} needs `{field}`")).reported_with(example)
        })
    }

    fn bucket(&self, diagnostics: &mut Diagnostics) -> Read<TokenBucket> {
        let args = self.args;
        if let (true, Some(twice)) = (args.period.is_given(), args.replenish_period.span()) {
            diagnostics.error(twice.key(), "`period` and `replenish-period` mean the same").help("remove one");
        }
        let is_period = args.period.is_given();
        let (field, period) =
            if is_period { ("period", &args.period) } else { ("replenish-period", &args.replenish_period) };
        let period = length(field, period, diagnostics);
        let rate = args.replenish_rate.optional()?;
        let burst = args.burst_capacity.optional()?.map(|burst| burst.0);
        let period = period?;
        let example = "args: {replenish-rate: 10, burst-capacity: 20, key-resolver: ip}";
        let Rate { tokens: rate, periods } = self.needed(rate, "replenish-rate", example, diagnostics)?;
        // An exact fraction: 0.5 per second is 1 per 2 seconds.
        let period = period.saturating_mul(periods);
        if burst.is_none() && rate > periods.into() {
            diagnostics
                .warn(self.at, "`burst-capacity` is missing and is 1, as in Spring: concurrent requests are denied")
                .help(format!(
                    "`burst-capacity: {}` admits one period's requests at once",
                    rate.div_ceil(periods.into())
                ));
        }
        Ok(TokenBucket::new(rate, period, burst.unwrap_or(1))?.with_refill(self.refill(diagnostics)?)?)
    }

    fn refill(&self, diagnostics: &mut Diagnostics) -> Result<Refill, Reported> {
        let anchor_us = self.args.refill_anchor.optional()?.map(|anchor| anchor.0);
        match self.args.refill.optional()?.unwrap_or_default() {
            RefillWord::Aligned => Ok(Refill::Aligned { anchor_us: anchor_us.unwrap_or(0) }),
            word => match self.args.refill_anchor.span() {
                Some(anchor) => {
                    let error = diagnostics.error(anchor.key(), "`refill-anchor` applies to `refill: aligned` only");
                    Err(error.reported_with("`refill: aligned`, or remove it"))
                }
                None if word == RefillWord::Interval => Ok(Refill::Interval),
                None => Ok(Refill::Smooth),
            },
        }
    }

    fn fixed_window(&self, diagnostics: &mut Diagnostics) -> Read<FixedWindow> {
        let args = self.args;
        let align = args.align.optional()?;
        let Some(Window::Calendar(unit)) = args.window.value() else {
            if let Some(zone) = args.time_zone.span() {
                let error = diagnostics.error(zone.key(), "`time-zone` applies to calendar windows only");
                return Err(error.reported_with("`window: day`, or hour, week, month, year").into());
            }
            let (limit, window) = self.window(diagnostics)?;
            let align = match align {
                Some(Align::Clock) => tollgate_limiter::rule::Align::Clock,
                Some(Align::First) | None => tollgate_limiter::rule::Align::First,
            };
            return Ok(FixedWindow::new(limit, window, align)?);
        };
        if let (Some(Align::First), Some(at)) = (align, args.align.span()) {
            let message = "a calendar window starts on the clock, not with the first request of a key";
            let help = "remove `align`, or write the window as a time such as `24h`";
            return Err(diagnostics.error(at, message).reported_with(help).into());
        }
        let limit = args.limit.optional()?.map(|limit| limit.0);
        let example = "args: {algorithm: fixed-window, limit: 100, window: day}";
        let limit = self.needed(limit, "limit", example, diagnostics)?;
        Ok(FixedWindow::on_calendar(limit, self.calendar(*unit)?)?)
    }

    /// Returns `limit`, and `window` as a length.
    fn window(&self, diagnostics: &mut Diagnostics) -> Result<(u64, Duration), Reported> {
        let example =
            format!("args: {{algorithm: {}, limit: 100, window: 1m, key-resolver: ip}}", self.algorithm.as_str());
        let window = match self.args.window.checked() {
            Ok(None) => Ok(None),
            Err(reported) => Err(reported),
            Ok(Some(window)) => match window.value {
                Window::Calendar(unit) => {
                    let (algorithm, unit) = (self.algorithm.as_str(), unit.word());
                    let message = format!("`{algorithm}` has no calendar windows such as `{unit}`");
                    let help = "use `algorithm: fixed-window`, or a time such as `24h`";
                    return Err(diagnostics.error(window.span, message).reported_with(help));
                }
                Window::Length(length) => {
                    warn_of_bare_number("window", length, window.span, diagnostics);
                    Ok(Some(length.time))
                }
            },
        };
        let limit = self.args.limit.optional()?.map(|limit| limit.0);
        let limit = self.needed(limit, "limit", &example, diagnostics)?;
        Ok((limit, self.needed(window?, "window", &example, diagnostics)?))
    }

    fn leaky_bucket(&self, diagnostics: &mut Diagnostics) -> Read<LeakyBucket> {
        let args = self.args;
        let period = length("period", &args.period, diagnostics);
        let example = "args: {algorithm: leaky-bucket, rate: 10, max-wait: 1s, key-resolver: ip}";
        let Rate { tokens: rate, periods } = self.needed(args.rate.optional()?, "rate", example, diagnostics)?;
        let period = period?.saturating_mul(periods);
        let max_wait = args.max_wait.optional()?.map_or(LeakyBucket::MAX_WAIT, |wait| wait.time);
        let max_queue = args.max_queue.optional()?.map_or(MAX_COUNT, |queue| queue.0);
        let warm_up = args.warm_up.optional()?.map(|time| time.time).unwrap_or_default();
        Ok(LeakyBucket::new(rate, period)?.with_max_wait(max_wait)?.with_max_queue(max_queue)?.with_warm_up(warm_up)?)
    }

    fn quota(&self, diagnostics: &mut Diagnostics) -> Read<Quota> {
        let args = self.args;
        let allowance = args.allowance.optional()?.map(|allowance| allowance.0);
        let example = "args: {algorithm: quota, allowance: 1000}";
        let allowance = self.needed(allowance, "allowance", example, diagnostics)?;
        let Some(unit) = args.reset.optional()? else {
            if let Some(zone) = args.time_zone.span() {
                let error = diagnostics.error(zone.key(), "`time-zone` without `reset`");
                return Err(error.reported_with("`reset: month`, or remove it").into());
            }
            return Ok(Quota::new(allowance)?);
        };
        Ok(Quota::resetting(allowance, self.calendar(unit)?)?)
    }

    fn calendar(&self, unit: CalendarWord) -> Read<Calendar> {
        let zone = self.args.time_zone.optional()?;
        Ok(Calendar::new(unit.0, zone.as_deref().map_or("UTC", str::trim))?)
    }
}

/// Returns the length under `field`, or one second if it is absent.
fn length(field: &str, given: &Given<TimeArgument>, diagnostics: &mut Diagnostics) -> Result<Duration, Reported> {
    let Some(length) = given.checked()? else { return Ok(Duration::from_secs(1)) };
    warn_of_bare_number(field, length.value, length.span, diagnostics);
    Ok(length.value.time)
}

/// Warns of `window: 60`, which is 60 milliseconds.
fn warn_of_bare_number(field: &str, length: TimeArgument, at: Span, diagnostics: &mut Diagnostics) {
    if let Some(number) = length.bare_millis.filter(|_| length.time < Duration::from_secs(1)) {
        crate::de::warn_of_bare_millis(field, number, at, diagnostics);
    }
}
