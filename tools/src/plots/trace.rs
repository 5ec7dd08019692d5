//! Arrivals and the decisions of a rule.

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::memory::{ManualClock, MemoryStore};
use tollgate_limiter::store::{Check, Decision, Store};
use tollgate_limiter::verdict::Verdict;

use super::line::Line;

/// Start of a picture in ms since 1970: 2026-11-21T00:00Z, so that aligned windows begin at 0.
const BEGIN_MS: u64 = 1_795_219_200_000;

/// Number of samples of a rule.
const SAMPLES: u64 = 720;

const KEY: BucketKey<'_> = BucketKey { scope: "plot", id: b"me" };

/// Request and its outcome.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at_ms: u64,
    pub(crate) is_allowed: bool,
    /// Start of the request; later than its arrival under a leaky bucket.
    pub(crate) starts_ms: u64,
}

/// Decisions and state of a rule over time.
pub(crate) struct Trace {
    pub(crate) end_ms: u64,
    pub(crate) events: Vec<Event>,
    /// Whole tokens remaining.
    pub(crate) left: Line,
    /// Seconds until the full capacity is available again.
    pub(crate) reset: Line,
}

/// Returns `requests` simultaneous arrivals.
pub(crate) fn burst(at_ms: u64, requests: usize) -> Vec<u64> {
    vec![at_ms; requests]
}

/// Returns one arrival per `every_ms`, from `from_ms` until before `to_ms`.
pub(crate) fn steady(from_ms: u64, to_ms: u64, every_ms: u64) -> Vec<u64> {
    (from_ms..to_ms).step_by(every_ms as usize).collect()
}

/// Runs arrivals through a rule in memory and samples it until `end_ms`.
pub(crate) fn run(rule: &Rule, arrivals: &[u64], end_ms: u64) -> Result<Trace, Box<dyn Error>> {
    run_with(rule, arrivals, None, end_ms)
}

/// Runs arrivals through a rule, with a grant to a quota: time in ms and tokens.
pub(crate) fn run_with(
    rule: &Rule,
    arrivals: &[u64],
    mut grant: Option<(u64, i64)>,
    end_ms: u64,
) -> Result<Trace, Box<dyn Error>> {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::with_clock(clock.clone()).with_max_keys(NonZeroUsize::MIN);
    let decide = |at_ms: u64, cost| -> Result<Verdict, Box<dyn Error>> {
        clock.set((BEGIN_MS + at_ms) * 1_000);
        match store.decide(&[Check { key: KEY, rule, cost }], &[]) {
            Decision::Ready(verdict) => Ok(verdict),
            Decision::Pending(_) => Err("the memory store decides immediately".into()),
        }
    };
    let (mut events, mut left, mut reset) = (Vec::new(), Line::default(), Line::default());
    let step_ms = end_ms / SAMPLES;
    for at_ms in (0..=end_ms).step_by(step_ms as usize) {
        for &came_ms in arrivals.iter().filter(|came| (at_ms..at_ms + step_ms).contains(*came)) {
            let verdict = decide(came_ms, 1)?;
            let starts_ms = came_ms + verdict.delay.as_millis() as u64;
            events.push(Event { at_ms: came_ms, is_allowed: verdict.is_allowed(), starts_ms });
        }
        if let (Rule::Quota(quota), Some((_, more))) = (rule, grant.take_if(|(grant_ms, _)| *grant_ms <= at_ms)) {
            store.grant_quota(KEY, quota, more);
        }
        let verdict = decide(at_ms.max(events.last().map_or(0, |event| event.at_ms)), 0)?;
        left.push(at_ms, verdict.remaining.unwrap_or_default() as f64);
        reset.push(at_ms, verdict.reset_after.as_millis() as f64 / 1_000.0);
    }
    Ok(Trace { end_ms, events, left, reset })
}

impl Trace {
    fn starts(&self) -> impl Iterator<Item = u64> {
        self.events.iter().filter(|event| event.is_allowed).map(|event| event.starts_ms)
    }

    /// Returns the number admitted within the last `window_ms`, by time.
    pub(crate) fn admitted_within(&self, window_ms: u64) -> Line {
        let count = |at_ms: u64| self.starts().filter(|&start| start <= at_ms && at_ms < start + window_ms).count();
        self.by_time(|at_ms| count(at_ms) as f64)
    }

    /// Returns the number admitted so far, by time.
    pub(crate) fn admitted(&self) -> Line {
        self.by_time(|at_ms| self.starts().filter(|&start| start <= at_ms).count() as f64)
    }

    pub(crate) fn by_time(&self, value: impl Fn(u64) -> f64) -> Line {
        let mut line = Line::default();
        for at_ms in (0..=self.end_ms).step_by((self.end_ms / SAMPLES) as usize) {
            line.push(at_ms, value(at_ms));
        }
        line
    }
}
