//! The pictures: rules, arrivals and panels.

use std::error::Error;
use std::time::Duration;

use tollgate_limiter::rule::{
    Align, Calendar, CalendarUnit, FixedWindow, LeakyBucket, Quota, Refill, Rule, SlidingWindowCounter,
    SlidingWindowLog, TokenBucket,
};

use super::chart::Chart;
use super::trace::{Trace, burst, run, run_with, steady};

type Drawn = Result<String, Box<dyn Error>>;

const SECONDS: (&str, u64) = ("s", 1_000);

const HOUR_MS: u64 = 3_600_000;

const WINDOW: Duration = Duration::from_secs(10);

/// Returns a burst, arrivals above the rate, idle time and another burst.
fn bursts() -> Vec<u64> {
    [burst(1_000, 14), steady(3_000, 8_000, 250), burst(14_000, 14)].concat()
}

/// Returns bursts on both sides of a window boundary and one window later, then even arrivals above the limit.
fn around_edges() -> Vec<u64> {
    [burst(9_000, 12), burst(11_000, 12), burst(19_000, 12), steady(22_000, 34_000, 500)].concat()
}

pub(crate) fn token_bucket() -> Drawn {
    let end_ms = 18_000;
    let trace = run(&Rule::TokenBucket(TokenBucket::per_second(2, 10)?), &bursts(), end_ms)?;
    let in_steps = TokenBucket::new(10, Duration::from_secs(5), 10)?.with_refill(Refill::Interval)?;
    let in_steps = run(&Rule::TokenBucket(in_steps), &bursts(), end_ms)?;
    let mut chart = Chart::new(
        "token-bucket: 2 tokens per second, burst 10",
        "Of 14 requests at 1 s the first 10 are admitted. From 3 s to 8 s requests arrive at 4 per second and are \
         admitted at 2 per second once the refilled tokens are used. After idle time the bucket is full and 10 of 14 pass. \
         With refill: interval, 10 tokens are added at once, 5 s after the first request.",
        end_ms,
    );
    chart.legend("admitted", "denied (429)");
    chart.requests("requests", &trace.events);
    let left = chart.panel("tokens remaining", 70.0, 10.0);
    chart.line(&left, "l", &trace.left.steps());
    let total = chart.panel("admitted so far, and the bound: burst + rate × time", 90.0, 50.0);
    chart.line(&total, "b", &[(1_000, 0.0), (1_000, 10.0), (end_ms, 44.0)]);
    chart.line(&total, "l", &trace.admitted().steps());
    chart.requests("requests with refill: interval, 10 tokens per 5 s", &in_steps.events);
    let left = chart.panel("tokens remaining with refill: interval", 70.0, 10.0);
    chart.line(&left, "l", &in_steps.left.steps());
    Ok(chart.finish(2, SECONDS))
}

pub(crate) fn gcra() -> Drawn {
    let end_ms = 18_000;
    let bucket = TokenBucket::per_second(2, 10)?;
    let [tokens, gcra] = [Rule::TokenBucket(bucket.clone()), Rule::Gcra(bucket)];
    let [tokens, gcra] = [run(&tokens, &bursts(), end_ms)?, run(&gcra, &bursts(), end_ms)?];
    if tokens.events != gcra.events {
        return Err("gcra and token-bucket disagree".into());
    }
    let mut chart = Chart::new(
        "gcra: the token bucket's verdicts from one moment per key",
        "The same arrivals under token-bucket and gcra, 2 per second with a burst of 10: the verdicts are equal. gcra \
         stores the time at which the bucket is full again. Each admitted request moves it half a second ahead.",
        end_ms,
    );
    chart.legend("admitted", "denied (429)");
    chart.requests("gcra", &gcra.events);
    chart.requests("token-bucket", &tokens.events);
    let reset = chart.panel("seconds until the bucket is full again: the stored value", 70.0, 5.0);
    chart.limit(&reset, 5.0, "burst ÷ rate: bucket empty");
    chart.line(&reset, "l", &gcra.reset.slopes());
    Ok(chart.finish(2, SECONDS))
}

pub(crate) fn fixed_window() -> Drawn {
    let end_ms = 36_000;
    let rule = Rule::FixedWindow(FixedWindow::new(10, WINDOW, Align::Clock)?);
    let trace = run(&rule, &around_edges(), end_ms)?;
    let mut chart = Chart::new(
        "fixed-window: 10 per 10 s, aligned to the clock",
        "10 of 12 requests pass at 9 s and 10 of 12 at 11 s, in the next window: 20 within 10 seconds, twice the limit.",
        end_ms,
    );
    chart.legend("admitted", "denied (429)");
    let top = chart.depth();
    chart.requests("requests; lines are window boundaries", &trace.events);
    let left = chart.panel("remaining in the window", 60.0, 10.0);
    chart.line(&left, "l", &trace.left.steps());
    within_ten_seconds(&mut chart, &trace);
    chart.edges(top, (0..=3).map(|n| n * 10_000));
    Ok(chart.finish(5, SECONDS))
}

pub(crate) fn sliding_window_log() -> Drawn {
    let end_ms = 36_000;
    let trace = run(&Rule::SlidingWindowLog(SlidingWindowLog::new(10, WINDOW)?), &around_edges(), end_ms)?;
    let mut chart = Chart::new(
        "sliding-window-log: 10 in any 10 s, exactly",
        "10 of 12 requests pass at 9 s and none at 11 s. Requests of 9 s count until 19 s: then 10 pass again. At most \
         10 are admitted within any 10 seconds.",
        end_ms,
    );
    chart.legend("admitted", "denied (429)");
    chart.requests("requests", &trace.events);
    let left = chart.panel("left", 60.0, 10.0);
    chart.line(&left, "l", &trace.left.steps());
    within_ten_seconds(&mut chart, &trace);
    Ok(chart.finish(5, SECONDS))
}

pub(crate) fn sliding_window_counter() -> Drawn {
    let end_ms = 36_000;
    let counter = run(&Rule::SlidingWindowCounter(SlidingWindowCounter::new(10, WINDOW)?), &around_edges(), end_ms)?;
    let log = run(&Rule::SlidingWindowLog(SlidingWindowLog::new(10, WINDOW)?), &around_edges(), end_ms)?;
    let mut chart = Chart::new(
        "sliding-window-counter: about 10 in any 10 s",
        "Compared with the exact log under the same arrivals. The estimate assumes that a burst was evenly spread over its \
         window. It can therefore admit more than the limit within 10 seconds, here 16, or fewer than the log.",
        end_ms,
    );
    chart.legend("admitted", "denied (429)");
    let top = chart.depth();
    chart.requests("sliding-window-counter; lines are its window boundaries", &counter.events);
    chart.requests("sliding-window-log", &log.events);
    let counted = chart.panel("estimated use: limit minus remaining", 60.0, 10.0);
    chart.line(&counted, "l", &counter.left.map(|left| 10.0 - left).steps());
    within_ten_seconds(&mut chart, &counter);
    chart.edges(top, (0..=3).map(|n| n * 10_000));
    Ok(chart.finish(5, SECONDS))
}

pub(crate) fn leaky_bucket() -> Drawn {
    let end_ms = 14_400;
    let rule = LeakyBucket::new(2, Duration::from_secs(1))?.with_max_wait(Duration::from_secs(3))?.with_max_queue(4)?;
    let arrivals = [burst(1_000, 7), burst(2_500, 7), steady(6_000, 11_000, 400)].concat();
    let trace = run(&Rule::LeakyBucket(rule), &arrivals, end_ms)?;
    let mut chart = Chart::new(
        "leaky-bucket: one per 500 ms, four may wait",
        "Of seven simultaneous requests the first starts immediately and four wait for turns half a second apart; two are \
         denied. With arrivals slightly above the rate, each request waits slightly longer than the last.",
        end_ms,
    );
    chart.legend("admitted", "denied immediately (429)");
    chart.requests("arrived", &trace.events);
    chart.starts("started", &trace.events);
    let left = chart.panel("free places: the current turn and four in the queue", 60.0, 5.0);
    chart.line(&left, "l", &trace.left.steps());
    Ok(chart.finish(2, SECONDS))
}

pub(crate) fn quota() -> Drawn {
    let end_ms = 47 * HOUR_MS;
    let rule = Rule::Quota(Quota::resetting(20, Calendar::new(CalendarUnit::Day, "UTC")?)?);
    let arrivals: Vec<u64> = [6, 10, 15, 21, 30, 40].into_iter().flat_map(|hour| burst(hour * HOUR_MS, 8)).collect();
    let trace = run_with(&rule, &arrivals, Some((18 * HOUR_MS, 6)), end_ms)?;
    let mut chart = Chart::new(
        "quota: 20 per day",
        "Eight requests each at 06:00, 10:00, 15:00 and 21:00. The third time only 4 remain. 6 are granted at 18:00 and \
         pass at 21:00. At midnight 20 are available again.",
        end_ms,
    );
    chart.legend("admitted", "denied (429)");
    let top = chart.depth();
    chart.requests("requests; the line is midnight", &trace.events);
    let left = chart.panel("remaining", 80.0, 20.0);
    chart.line(&left, "l", &trace.left.steps());
    chart.note(&left, 17 * HOUR_MS, 9.0, "6 granted");
    chart.edges(top, std::iter::once(24 * HOUR_MS));
    Ok(chart.finish(6, ("h", HOUR_MS)))
}

/// Adds a panel of the requests admitted within the last ten seconds, with a limit of ten.
fn within_ten_seconds(chart: &mut Chart, trace: &Trace) {
    let line = trace.admitted_within(10_000);
    let panel = chart.panel("admitted within the last 10 s", 80.0, 20.0);
    chart.limit(&panel, 10.0, "limit");
    chart.line(&panel, "l", &line.steps());
}

pub(crate) fn compare() -> Drawn {
    let end_ms = 36_000;
    let bucket = TokenBucket::new(10, WINDOW, 10)?;
    let rules = [
        ("token-bucket and gcra: 1 per second, burst 10", Rule::TokenBucket(bucket)),
        ("fixed-window, align: clock", Rule::FixedWindow(FixedWindow::new(10, WINDOW, Align::Clock)?)),
        ("sliding-window-log", Rule::SlidingWindowLog(SlidingWindowLog::new(10, WINDOW)?)),
        ("sliding-window-counter", Rule::SlidingWindowCounter(SlidingWindowCounter::new(10, WINDOW)?)),
        (
            "leaky-bucket: 1 per second, 9 may wait",
            Rule::LeakyBucket(LeakyBucket::new(10, WINDOW)?.with_max_wait(WINDOW)?.with_max_queue(9)?),
        ),
    ];
    let mut chart = Chart::new(
        "The same requests under each limiter with 10 per 10 seconds",
        "The requests that each limiter admits, their number, and the largest number that start within ten seconds.",
        end_ms,
    );
    chart.legend("admitted", "denied (429)");
    for (name, rule) in rules {
        let trace = run(&rule, &around_edges(), end_ms)?;
        let max = trace.admitted_within(10_000).max();
        let admitted = trace.events.iter().filter(|event| event.is_allowed).count();
        chart.requests(&format!("{name}: {admitted} admitted, at most {max} in 10 s"), &trace.events);
    }
    Ok(chart.finish(5, SECONDS))
}
