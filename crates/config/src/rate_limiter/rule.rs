//! An algorithm with its numbers: the one place that knows which fields each takes.

use std::time::Duration;

use tollgate_limiter::rule::{
    Algorithm, Align, Calendar, CalendarUnit, FixedWindow, LeakyBucket, MAX_SAFE_INTEGER, Quota, Rule, RuleError,
    SlidingWindowCounter, SlidingWindowLog, TokenBucket,
};

use crate::de::canonical;
use crate::diagnostics::{Diagnostics, suggest};
use crate::rate_limiter::args::Section;
use crate::yaml::Span;

/// What each algorithm is told, besides its name.
const ALGORITHMS: [(&str, &[&str]); 7] = [
    ("token-bucket", &["replenish-rate", "burst-capacity", "period", "replenish-period"]),
    ("gcra", &["replenish-rate", "burst-capacity", "period", "replenish-period"]),
    ("fixed-window", &["limit", "window", "align", "time-zone"]),
    ("sliding-window-log", &["limit", "window"]),
    ("sliding-window-counter", &["limit", "window"]),
    ("leaky-bucket", &["rate", "period", "max-wait", "max-queue", "warm-up"]),
    ("quota", &["allowance", "reset", "time-zone"]),
];

/// Every field of every algorithm.
pub(super) const FIELDS: [&str; 15] = [
    "replenish-rate",
    "burst-capacity",
    "period",
    "replenish-period",
    "limit",
    "window",
    "align",
    "time-zone",
    "rate",
    "max-wait",
    "max-queue",
    "warm-up",
    "allowance",
    "reset",
    "algorithm",
];

/// Words for windows of the calendar.
const CALENDAR: [(&str, CalendarUnit); 5] = [
    ("hour", CalendarUnit::Hour),
    ("day", CalendarUnit::Day),
    ("week", CalendarUnit::Week),
    ("month", CalendarUnit::Month),
    ("year", CalendarUnit::Year),
];

/// More in a log than Redis should be asked to keep for each key, at some 60 bytes an entry.
const LONG_LOG: u64 = 100_000;

/// The rule that a section describes; `None` when it cannot be used, which `sink` then knows.
pub(super) fn rule(section: &Section<'_>, span: Span, diagnostics: &mut Diagnostics) -> Option<Rule> {
    let (name, fields) = algorithm(section, diagnostics)?;
    let mut fits = true;
    for field in FIELDS.iter().filter(|field| **field != "algorithm" && !fields.contains(field)) {
        if let Some(arg) = section.first(field) {
            let owners: Vec<&str> =
                ALGORITHMS.iter().filter(|(_, fields)| fields.contains(field)).map(|(name, _)| *name).collect();
            let owners = owners.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            diagnostics
                .error(arg.span.key(), format!("`{field}` is not a field of `{name}`"))
                .help(format!("{} (`{field}` belongs to {owners})", suggest(field, fields)));
            fits = false;
        }
    }
    if !fits {
        return None;
    }
    let reader = Reader { section, at: section.at(span), name };
    // An algorithm plugs in here, with an arm of its own.
    let rule = match Algorithm::ALL.iter().find(|known| known.as_str() == name) {
        Some(Algorithm::TokenBucket) => reader.bucket(diagnostics)?.map(Rule::TokenBucket),
        Some(Algorithm::Gcra) => reader.bucket(diagnostics)?.map(Rule::Gcra),
        Some(Algorithm::FixedWindow) => reader.fixed_window(diagnostics)?.map(Rule::FixedWindow),
        Some(Algorithm::SlidingWindowLog) => reader.log(diagnostics)?.map(Rule::SlidingWindowLog),
        Some(Algorithm::SlidingWindowCounter) => {
            let (limit, window) = reader.window(diagnostics)?;
            SlidingWindowCounter::new(limit, window).map(Rule::SlidingWindowCounter)
        }
        Some(Algorithm::Quota) => reader.quota(diagnostics)?.map(Rule::Quota),
        Some(Algorithm::LeakyBucket) => reader.leaky_bucket(diagnostics)?.map(Rule::LeakyBucket),
        _ => {
            let at = section.first("algorithm").map_or(reader.at, |arg| arg.span);
            diagnostics
                .error(at, format!("algorithm `{name}` is not supported yet"))
                .help("use one of the others: `token-bucket`, `gcra`, windows, `quota`");
            return None;
        }
    };
    rule.map_err(|error| {
        let message = error.to_string();
        let named = fields.iter().find(|field| message.contains(&format!("`{field}`")));
        let at = named.and_then(|field| section.first(field)).map_or(reader.at, |arg| arg.span);
        diagnostics.error(at, message);
    })
    .ok()
}

/// The algorithm's name and fields.
fn algorithm(section: &Section<'_>, diagnostics: &mut Diagnostics) -> Option<(&'static str, &'static [&'static str])> {
    let Some(arg) = section.get("algorithm", diagnostics) else {
        return (!section.has("algorithm")).then_some(ALGORITHMS[0]);
    };
    let found = ALGORITHMS.iter().find(|(name, _)| canonical(name) == canonical(arg.value.trim()));
    if found.is_none() {
        if canonical(arg.value.trim()) == "concurrency" {
            diagnostics
                .error(arg.span, "algorithm `concurrency` is not one of rates")
                .help("the filter `ConcurrencyLimiter` holds requests in flight to a number");
        } else {
            let names = ALGORITHMS.map(|(name, _)| name);
            diagnostics.error(arg.span, format!("unknown algorithm `{}`", arg.value)).help(suggest(&arg.value, &names));
        }
    }
    found.copied()
}

struct Reader<'r, 'w> {
    section: &'r Section<'w>,
    at: Span,
    name: &'static str,
}

/// A rule, or why there is none; the outer `None` when `sink` knows already.
type Read<T> = Option<Result<T, RuleError>>;

impl Reader<'_, '_> {
    /// A field that must be there.
    fn needed<T>(&self, value: Option<T>, field: &str, example: &str, diagnostics: &mut Diagnostics) -> Option<T> {
        if value.is_none() {
            let subject = if self.name == "token-bucket" { "`RequestRateLimiter`" } else { self.name };
            diagnostics.error(self.at, format!("{subject} needs `{field}`")).help(example);
        }
        value
    }

    fn bucket(&self, diagnostics: &mut Diagnostics) -> Read<TokenBucket> {
        let section = self.section;
        let rate = section.number("replenish-rate", diagnostics);
        let burst = section.number("burst-capacity", diagnostics);
        if let (Some(_), Some(twice)) = (section.first("period"), section.first("replenish-period")) {
            diagnostics.error(twice.span.key(), "`period` and `replenish-period` mean the same").help("remove one");
        }
        let field = if section.has("period") { "period" } else { "replenish-period" };
        let period = section.time(field, diagnostics);
        let (rate, burst, period) = (rate.ok()?, burst.ok()?, period.ok()?.unwrap_or(Duration::from_secs(1)));
        let example = "args: {replenish-rate: 10, burst-capacity: 20, key-resolver: ip}";
        let rate = self.needed(rate, "replenish-rate", example, diagnostics)?;
        if burst.is_none() && rate > 1 && !diagnostics.is_spring {
            diagnostics
                .warn(self.at, "`burst-capacity` is not given and is 1, as in Spring: no two requests at once")
                .help(format!("`burst-capacity: {rate}` lets one period's worth through at once"));
        }
        let burst = burst.unwrap_or(1);
        if diagnostics.is_spring && burst > 0 && burst * 2 < rate && period == Duration::from_secs(1) {
            let at = section.first("burst-capacity").map_or(self.at, |arg| arg.span);
            diagnostics.warn(at, format!("Spring limits nothing with a burst of {burst} and a rate of {rate}, its bucket expires at once; here both hold"))
                .help("a `burst-capacity` of at least `replenish-rate` means the same in both");
        }
        Some(TokenBucket::new(rate, period, burst))
    }

    fn fixed_window(&self, diagnostics: &mut Diagnostics) -> Read<FixedWindow> {
        let section = self.section;
        let word = section.first("window").and_then(|arg| unit(&arg.value));
        let align = section.word("align", &["first", "clock"], diagnostics).ok()?;
        let Some(unit) = word else {
            if let Some(arg) = section.first("time-zone") {
                diagnostics
                    .error(arg.span.key(), "`time-zone` goes with windows of the calendar")
                    .help("`window: day`, or hour, week, month, year");
                return None;
            }
            let (limit, window) = self.window(diagnostics)?;
            return Some(FixedWindow::new(limit, window, if align == Some(1) { Align::Clock } else { Align::First }));
        };
        if let (Some(0), Some(arg)) = (align, section.first("align")) {
            diagnostics
                .error(arg.span, "a window of the calendar begins on the clock, not with a key's first request")
                .help("remove `align`, or write the window as a time such as `24h`");
            return None;
        }
        let limit = section.number("limit", diagnostics).ok()?;
        let limit =
            self.needed(limit, "limit", "args: {algorithm: fixed-window, limit: 100, window: day}", diagnostics)?;
        Some(self.calendar(unit, diagnostics)?.and_then(|calendar| FixedWindow::on_calendar(limit, calendar)))
    }

    /// `limit` and `window` as a time.
    fn window(&self, diagnostics: &mut Diagnostics) -> Option<(u64, Duration)> {
        let example = format!("args: {{algorithm: {}, limit: 100, window: 1m, key-resolver: ip}}", self.name);
        if let Some(arg) =
            self.section.first("window").filter(|arg| self.name != "fixed-window" && unit(&arg.value).is_some())
        {
            diagnostics
                .error(
                    arg.span,
                    format!("`{}` has no windows of the calendar such as `{}`", self.name, arg.value.trim()),
                )
                .help("`algorithm: fixed-window` has them; otherwise a time such as `24h`");
            return None;
        }
        let limit = self.section.number("limit", diagnostics);
        let window = self.section.time("window", diagnostics);
        let limit = self.needed(limit.ok()?, "limit", &example, diagnostics)?;
        Some((limit, self.needed(window.ok()?, "window", &example, diagnostics)?))
    }

    fn log(&self, diagnostics: &mut Diagnostics) -> Read<SlidingWindowLog> {
        let (limit, window) = self.window(diagnostics)?;
        if limit > LONG_LOG {
            let at = self.section.first("limit").map_or(self.at, |arg| arg.span);
            diagnostics
                .warn(at, format!("a log keeps each request of a window: up to {limit} entries for each key"))
                .help("`sliding-window-counter` estimates the same from two numbers");
        }
        Some(SlidingWindowLog::new(limit, window))
    }

    fn leaky_bucket(&self, diagnostics: &mut Diagnostics) -> Read<LeakyBucket> {
        let section = self.section;
        let (rate, max_queue) = (section.number("rate", diagnostics), section.number("max-queue", diagnostics));
        let [period, max_wait, warm_up] =
            ["period", "max-wait", "warm-up"].map(|field| section.time(field, diagnostics));
        let example = "args: {algorithm: leaky-bucket, rate: 10, max-wait: 1s, key-resolver: ip}";
        let rate = self.needed(rate.ok()?, "rate", example, diagnostics)?;
        let period = period.ok()?.unwrap_or(Duration::from_secs(1));
        let max_wait = max_wait.ok()?.unwrap_or(Duration::from_secs(1));
        let rule = LeakyBucket::new(rate, period, max_wait, max_queue.ok()?.unwrap_or(MAX_SAFE_INTEGER));
        let warm_up = warm_up.ok()?.unwrap_or_default();
        Some(rule.and_then(|rule| rule.warm_up(warm_up)))
    }

    fn quota(&self, diagnostics: &mut Diagnostics) -> Read<Quota> {
        let section = self.section;
        let allowance = section.number("allowance", diagnostics).ok()?;
        let allowance =
            self.needed(allowance, "allowance", "args: {algorithm: quota, allowance: 1000}", diagnostics)?;
        let Some(arg) = section.get("reset", diagnostics) else {
            if let Some(arg) = section.first("time-zone") {
                diagnostics.error(arg.span.key(), "`time-zone` without `reset`").help("`reset: month`, or remove it");
                return None;
            }
            return Some(Quota::new(allowance));
        };
        let Some(unit) = unit(&arg.value) else {
            let words = CALENDAR.map(|(word, _)| word).join(", ");
            diagnostics.error(arg.span, format!("expected one of {words}, found `{}`", arg.value));
            return None;
        };
        Some(self.calendar(unit, diagnostics)?.and_then(|calendar| Quota::resetting(allowance, calendar)))
    }

    fn calendar(&self, unit: CalendarUnit, diagnostics: &mut Diagnostics) -> Read<Calendar> {
        let zone = self.section.get("time-zone", diagnostics).map_or("UTC", |arg| arg.value.trim());
        Some(Calendar::new(unit, zone))
    }
}

fn unit(text: &str) -> Option<CalendarUnit> {
    CALENDAR.iter().find(|(word, _)| *word == text.trim()).map(|(_, unit)| *unit)
}
