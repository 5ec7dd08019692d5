//! Counts of a simulation.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use serde::Serialize;
use tollgate_filters::request_rate_limiter::VerdictKind;

use crate::report::{KeyCount, RuleOutcome, percent, time};
use tollgate_proxy::http::facts::LimiterFacts;

/// Number of keys that are reported per rule.
const TOP_KEYS: usize = 10;

/// Upper bound of the points of a chart.
const MAX_POINTS: usize = 400;

/// Counts of one rule.
#[derive(Debug, Default)]
pub(super) struct RuleCounts {
    requests: u64,
    denied: u64,
    observed: u64,
    /// Requests whose key the log lacks.
    pub(super) unknown: u64,
    /// Hashes of the keys that the rule checked.
    keys: HashSet<u64>,
    /// Keys with their denied and would-be denied requests.
    denied_keys: HashMap<Box<[u8]>, u64>,
    second: u64,
    in_second: u64,
    peak: u64,
    peak_second: u64,
    chart: Chart,
}

/// Requests over time, in at most `MAX_POINTS` intervals of equal length.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Chart {
    /// Start in seconds since 1970.
    pub start_secs: u64,
    /// Length of an interval in seconds.
    pub interval_secs: u64,
    /// Requests and denials of each interval.
    pub points: Vec<(u64, u64)>,
}

impl Default for Chart {
    fn default() -> Self {
        Self { start_secs: 0, interval_secs: 1, points: Vec::new() }
    }
}

impl Chart {
    /// Returns the counts of the interval that contains `second`. Intervals double in length when there are too many.
    fn at(&mut self, second: u64) -> Option<&mut (u64, u64)> {
        if self.points.is_empty() {
            self.start_secs = second;
        }
        let elapsed = second.saturating_sub(self.start_secs);
        while elapsed / self.interval_secs >= MAX_POINTS as u64 {
            self.interval_secs *= 2;
            let sum = |pair: &[(u64, u64)]| pair.iter().fold((0, 0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
            self.points = self.points.chunks(2).map(sum).collect();
        }
        let index = usize::try_from(elapsed / self.interval_secs).ok()?;
        if index >= self.points.len() {
            self.points.resize(index + 1, (0, 0));
        }
        self.points.get_mut(index)
    }
}

impl RuleCounts {
    fn request(&mut self, key: &[u8], second: u64) {
        self.requests += 1;
        self.keys.insert(FixedState::default().hash_one(key));
        if let Some(point) = self.chart.at(second) {
            point.0 += 1;
        }
    }

    fn deny(&mut self, is_observed: bool, key: Option<&[u8]>, second: u64) {
        *(if is_observed { &mut self.observed } else { &mut self.denied }) += 1;
        if let Some(key) = key {
            match self.denied_keys.get_mut(key) {
                Some(count) => *count += 1,
                None => {
                    self.denied_keys.insert(key.into(), 1);
                }
            }
        }
        if second != self.second {
            (self.second, self.in_second) = (second, 0);
        }
        self.in_second += 1;
        if self.in_second > self.peak {
            (self.peak, self.peak_second) = (self.in_second, second);
        }
        if let Some(point) = self.chart.at(second) {
            point.1 += 1;
        }
    }

    fn outcome(self, route: &str, rule: &str) -> RuleOutcome {
        let mut top: Vec<_> = self.denied_keys.iter().map(|(key, denied)| (&**key, *denied)).collect();
        let denied_keys = top.len();
        top.sort_unstable_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
        top.truncate(TOP_KEYS);
        let key_count = |(key, denied): (&[u8], u64)| {
            let key = String::from_utf8_lossy(key).into_owned();
            KeyCount { key, denied }
        };
        RuleOutcome {
            route: route.to_owned(),
            rule: rule.to_owned(),
            requests: self.requests,
            denied: self.denied,
            observed: self.observed,
            unknown: self.unknown,
            share: percent(self.denied + self.observed, self.requests),
            peak_per_second: self.peak,
            peak_at: (self.peak > 0).then(|| time(self.peak_second * 1_000_000)).flatten(),
            keys: self.keys.len(),
            denied_keys,
            top: top.into_iter().map(key_count).collect(),
            chart: self.chart,
        }
    }
}

/// Counts of one route.
#[derive(Debug, Default)]
pub(super) struct RouteCounts {
    pub(super) requests: u64,
    pub(super) denied: u64,
    /// Counts of its rules by their names.
    rules: HashMap<Arc<str>, RuleCounts, foldhash::fast::RandomState>,
}

impl RouteCounts {
    /// Counts a request.
    pub(super) fn add(&mut self, is_refused: bool) {
        self.requests += 1;
        self.denied += u64::from(is_refused);
    }

    /// Returns the counts of `rule`.
    pub(super) fn rule(&mut self, rule: &Arc<str>) -> &mut RuleCounts {
        self.rules.entry(Arc::clone(rule)).or_default()
    }

    /// Adds the verdicts of rules on a request.
    pub(super) fn add_verdicts(&mut self, facts: &LimiterFacts, now_us: u64) {
        let second = now_us / 1_000_000;
        for check in facts.decisions.iter().flat_map(|decision| &decision.checks) {
            self.rule(&check.rule).request(&check.key, second);
        }
        for verdict in &facts.verdicts {
            let is_observed = match verdict.kind {
                VerdictKind::Denied => false,
                VerdictKind::Observed => true,
                VerdictKind::Allowed | VerdictKind::Unavailable | VerdictKind::Exempt | VerdictKind::Blocked => {
                    continue;
                }
            };
            self.rule(&verdict.labels.rule).deny(is_observed, facts.key_of(verdict), second);
        }
    }

    /// Returns the results of the rules of `route`, by their names.
    pub(super) fn outcomes(self, route: &str) -> Vec<RuleOutcome> {
        let mut rules: Vec<_> = self.rules.into_iter().collect();
        rules.sort_by(|(a, _), (b, _)| a.cmp(b));
        rules.into_iter().map(|(rule, counts)| counts.outcome(route, &rule)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_stays_bounded_and_keeps_its_sums() {
        let mut counts = RuleCounts::default();
        for second in 0..10_000 {
            counts.request(b"k", 1000 + second);
            counts.deny(false, Some(b"k"), 1000 + second / 2);
        }
        let sums = counts.chart.points.iter().fold((0, 0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        assert_eq!(sums, (10_000, 10_000));
        assert!(counts.chart.points.len() <= MAX_POINTS, "{}", counts.chart.points.len());
        assert_eq!((counts.chart.start_secs, counts.chart.interval_secs), (1000, 32));
        assert_eq!((counts.peak, counts.keys.len(), counts.denied_keys.len()), (2, 1, 1));
    }
}
