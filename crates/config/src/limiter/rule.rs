//! An algorithm with its numbers: the one place that knows which fields each takes.

use std::time::Duration;

use tollgate_limiter::rule::{
    Algorithm, Align, Calendar, CalendarUnit, FixedWindow, LeakyBucket, MOST, Quota, Rule, RuleError,
    SlidingWindowCounter, SlidingWindowLog, TokenBucket,
};

use super::args::Section;
use crate::de::canonical;
use crate::problem::{Sink, suggest};
use crate::yaml::Origin;

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
pub(super) fn rule(section: &Section<'_>, origin: Origin, sink: &mut Sink) -> Option<Rule> {
    let (name, fields) = algorithm(section, sink)?;
    let mut fits = true;
    for field in FIELDS.iter().filter(|field| **field != "algorithm" && !fields.contains(field)) {
        if let Some(arg) = section.first(field) {
            let owners: Vec<&str> =
                ALGORITHMS.iter().filter(|(_, fields)| fields.contains(field)).map(|(name, _)| *name).collect();
            let owners = owners.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            sink.error(arg.origin.key(), format!("`{field}` is not a field of `{name}`"))
                .help(format!("{} (`{field}` belongs to {owners})", suggest(field, fields)));
            fits = false;
        }
    }
    if !fits {
        return None;
    }
    let reader = Reader { section, at: section.at(origin), name };
    // An algorithm plugs in here, with an arm of its own.
    let rule = match Algorithm::ALL.iter().find(|known| known.as_str() == name) {
        Some(Algorithm::TokenBucket) => reader.bucket(sink)?.map(Rule::TokenBucket),
        Some(Algorithm::Gcra) => reader.bucket(sink)?.map(Rule::Gcra),
        Some(Algorithm::FixedWindow) => reader.fixed_window(sink)?.map(Rule::FixedWindow),
        Some(Algorithm::SlidingWindowLog) => reader.log(sink)?.map(Rule::SlidingWindowLog),
        Some(Algorithm::SlidingWindowCounter) => {
            let (limit, window) = reader.window(sink)?;
            SlidingWindowCounter::new(limit, window).map(Rule::SlidingWindowCounter)
        }
        Some(Algorithm::Quota) => reader.quota(sink)?.map(Rule::Quota),
        Some(Algorithm::LeakyBucket) => reader.leaky_bucket(sink)?.map(Rule::LeakyBucket),
        _ => {
            let at = section.first("algorithm").map_or(reader.at, |arg| arg.origin);
            sink.error(at, format!("algorithm `{name}` is not supported yet"))
                .help("use one of the others: `token-bucket`, `gcra`, windows, `quota`");
            return None;
        }
    };
    rule.map_err(|error| {
        let message = error.to_string();
        let named = fields.iter().find(|field| message.contains(&format!("`{field}`")));
        let at = named.and_then(|field| section.first(field)).map_or(reader.at, |arg| arg.origin);
        sink.error(at, message);
    })
    .ok()
}

/// The algorithm's name and fields.
fn algorithm(section: &Section<'_>, sink: &mut Sink) -> Option<(&'static str, &'static [&'static str])> {
    let Some(arg) = section.get("algorithm", sink) else {
        return (!section.has("algorithm")).then_some(ALGORITHMS[0]);
    };
    let found = ALGORITHMS.iter().find(|(name, _)| canonical(name) == canonical(arg.value.trim()));
    if found.is_none() {
        if canonical(arg.value.trim()) == "concurrency" {
            sink.error(arg.origin, "algorithm `concurrency` is not one of rates")
                .help("the filter `ConcurrencyLimiter` holds requests in flight to a number");
        } else {
            let names = ALGORITHMS.map(|(name, _)| name);
            sink.error(arg.origin, format!("unknown algorithm `{}`", arg.value)).help(suggest(&arg.value, &names));
        }
    }
    found.copied()
}

struct Reader<'r, 'w> {
    section: &'r Section<'w>,
    at: Origin,
    name: &'static str,
}

/// A rule, or why there is none; the outer `None` when `sink` knows already.
type Read<T> = Option<Result<T, RuleError>>;

impl Reader<'_, '_> {
    /// A field that must be there.
    fn needed<T>(&self, value: Option<T>, field: &str, example: &str, sink: &mut Sink) -> Option<T> {
        if value.is_none() {
            let subject = if self.name == "token-bucket" { "`RequestRateLimiter`" } else { self.name };
            sink.error(self.at, format!("{subject} needs `{field}`")).help(example);
        }
        value
    }

    fn bucket(&self, sink: &mut Sink) -> Read<TokenBucket> {
        let section = self.section;
        let rate = section.number("replenish-rate", sink);
        let burst = section.number("burst-capacity", sink);
        if let (Some(_), Some(twice)) = (section.first("period"), section.first("replenish-period")) {
            sink.error(twice.origin.key(), "`period` and `replenish-period` mean the same").help("remove one");
        }
        let field = if section.has("period") { "period" } else { "replenish-period" };
        let period = section.time(field, sink);
        let (rate, burst, period) = (rate.ok()?, burst.ok()?, period.ok()?.unwrap_or(Duration::from_secs(1)));
        let example = "args: {replenish-rate: 10, burst-capacity: 20, key-resolver: ip}";
        let rate = self.needed(rate, "replenish-rate", example, sink)?;
        if burst.is_none() && rate > 1 && !sink.is_spring {
            sink.warn(self.at, "`burst-capacity` is not given and is 1, as in Spring: no two requests at once")
                .help(format!("`burst-capacity: {rate}` lets one period's worth through at once"));
        }
        let burst = burst.unwrap_or(1);
        if sink.is_spring && burst > 0 && burst * 2 < rate && period == Duration::from_secs(1) {
            let at = section.first("burst-capacity").map_or(self.at, |arg| arg.origin);
            sink.warn(at, format!("Spring limits nothing with a burst of {burst} and a rate of {rate}, its bucket expires at once; here both hold"))
                .help("a `burst-capacity` of at least `replenish-rate` means the same in both");
        }
        Some(TokenBucket::new(rate, period, burst))
    }

    fn fixed_window(&self, sink: &mut Sink) -> Read<FixedWindow> {
        let section = self.section;
        let word = section.first("window").and_then(|arg| unit(&arg.value));
        let align = section.word("align", &["first", "clock"], sink).ok()?;
        let Some(unit) = word else {
            if let Some(arg) = section.first("time-zone") {
                sink.error(arg.origin.key(), "`time-zone` goes with windows of the calendar")
                    .help("`window: day`, or hour, week, month, year");
                return None;
            }
            let (limit, window) = self.window(sink)?;
            return Some(FixedWindow::new(limit, window, if align == Some(1) { Align::Clock } else { Align::First }));
        };
        if let (Some(0), Some(arg)) = (align, section.first("align")) {
            sink.error(arg.origin, "a window of the calendar begins on the clock, not with a key's first request")
                .help("remove `align`, or write the window as a time such as `24h`");
            return None;
        }
        let limit = section.number("limit", sink).ok()?;
        let limit = self.needed(limit, "limit", "args: {algorithm: fixed-window, limit: 100, window: day}", sink)?;
        Some(self.calendar(unit, sink)?.and_then(|calendar| FixedWindow::on_calendar(limit, calendar)))
    }

    /// `limit` and `window` as a time.
    fn window(&self, sink: &mut Sink) -> Option<(u64, Duration)> {
        let example = format!("args: {{algorithm: {}, limit: 100, window: 1m, key-resolver: ip}}", self.name);
        if let Some(arg) =
            self.section.first("window").filter(|arg| self.name != "fixed-window" && unit(&arg.value).is_some())
        {
            sink.error(
                arg.origin,
                format!("`{}` has no windows of the calendar such as `{}`", self.name, arg.value.trim()),
            )
            .help("`algorithm: fixed-window` has them; otherwise a time such as `24h`");
            return None;
        }
        let limit = self.section.number("limit", sink);
        let window = self.section.time("window", sink);
        let limit = self.needed(limit.ok()?, "limit", &example, sink)?;
        Some((limit, self.needed(window.ok()?, "window", &example, sink)?))
    }

    fn log(&self, sink: &mut Sink) -> Read<SlidingWindowLog> {
        let (limit, window) = self.window(sink)?;
        if limit > LONG_LOG {
            let at = self.section.first("limit").map_or(self.at, |arg| arg.origin);
            sink.warn(at, format!("a log keeps each request of a window: up to {limit} entries for each key"))
                .help("`sliding-window-counter` estimates the same from two numbers");
        }
        Some(SlidingWindowLog::new(limit, window))
    }

    fn leaky_bucket(&self, sink: &mut Sink) -> Read<LeakyBucket> {
        let section = self.section;
        let (rate, max_queue) = (section.number("rate", sink), section.number("max-queue", sink));
        let [period, max_wait, warm_up] = ["period", "max-wait", "warm-up"].map(|field| section.time(field, sink));
        let example = "args: {algorithm: leaky-bucket, rate: 10, max-wait: 1s, key-resolver: ip}";
        let rate = self.needed(rate.ok()?, "rate", example, sink)?;
        let period = period.ok()?.unwrap_or(Duration::from_secs(1));
        let max_wait = max_wait.ok()?.unwrap_or(Duration::from_secs(1));
        let rule = LeakyBucket::new(rate, period, max_wait, max_queue.ok()?.unwrap_or(MOST));
        let warm_up = warm_up.ok()?.unwrap_or_default();
        Some(rule.and_then(|rule| rule.warm_up(warm_up)))
    }

    fn quota(&self, sink: &mut Sink) -> Read<Quota> {
        let section = self.section;
        let allowance = section.number("allowance", sink).ok()?;
        let allowance = self.needed(allowance, "allowance", "args: {algorithm: quota, allowance: 1000}", sink)?;
        let Some(arg) = section.get("reset", sink) else {
            if let Some(arg) = section.first("time-zone") {
                sink.error(arg.origin.key(), "`time-zone` without `reset`").help("`reset: month`, or remove it");
                return None;
            }
            return Some(Quota::new(allowance));
        };
        let Some(unit) = unit(&arg.value) else {
            let words = CALENDAR.map(|(word, _)| word).join(", ");
            sink.error(arg.origin, format!("expected one of {words}, found `{}`", arg.value));
            return None;
        };
        Some(self.calendar(unit, sink)?.and_then(|calendar| Quota::resetting(allowance, calendar)))
    }

    fn calendar(&self, unit: CalendarUnit, sink: &mut Sink) -> Read<Calendar> {
        let zone = self.section.get("time-zone", sink).map_or("UTC", |arg| arg.value.trim());
        Some(Calendar::new(unit, zone))
    }
}

fn unit(text: &str) -> Option<CalendarUnit> {
    CALENDAR.iter().find(|(word, _)| *word == text.trim()).map(|(_, unit)| *unit)
}
