//! Metrics of limiter verdicts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use tollgate_filters::request_rate_limiter::VerdictKind;
use tollgate_limiter::verdict::Source;

use crate::http::facts::report;
use crate::telemetry::encode::family;
use crate::telemetry::series::SeriesList;

/// Verdicts of one limiter on one worker.
#[derive(Debug)]
pub struct LimiterMetrics {
    route: Arc<str>,
    rule: Arc<str>,
    counts: [[AtomicU64; SOURCES.len()]; VerdictKind::ALL.len()],
}

/// Sources of a verdict; `None` for a verdict of a key list, which asks no store.
const SOURCES: [Option<Source>; 5] =
    [Some(Source::Memory), Some(Source::Redis), Some(Source::DenialCache), Some(Source::Fallback), None];

impl LimiterMetrics {
    pub(super) fn new(route: &Arc<str>, rule: &str) -> Self {
        Self { route: Arc::clone(route), rule: rule.into(), counts: Default::default() }
    }

    /// True for the series of the limiter `rule` of `route`.
    pub(super) fn is_of(&self, route: &str, rule: &str) -> bool {
        &*self.route == route && &*self.rule == rule
    }

    /// Calls `visit` with verdict, source and count, unless the count is 0.
    pub(super) fn for_each(&self, mut visit: impl FnMut(&'static str, &'static str, u64)) {
        for (finding, sources) in VerdictKind::ALL.iter().zip(&self.counts) {
            for (source, count) in SOURCES.iter().zip(sources) {
                match count.load(Relaxed) {
                    0 => {}
                    count => visit(finding.as_str(), source.map_or("none", Source::as_str), count),
                }
            }
        }
    }

    /// Counts a verdict.
    pub fn observe(&self, finding: VerdictKind, source: Option<Source>) {
        let verdict = VerdictKind::ALL.iter().position(|known| *known == finding).unwrap_or(0);
        let source = SOURCES.iter().position(|known| *known == source).unwrap_or(0);
        report(|facts| facts.limiter.judge(&self.route, &self.rule, finding));
        // One worker writes: a load and a store suffice, without an atomic add.
        let count = &self.counts[verdict][source];
        count.store(count.load(Relaxed) + 1, Relaxed);
    }
}

/// Encodes the verdicts of `limiters`, summed over workers.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, limiters: &SeriesList<LimiterMetrics>) -> fmt::Result {
    let mut sums: BTreeMap<(Arc<str>, Arc<str>, usize, usize), u64> = BTreeMap::new();
    limiters.for_each(|limiter| {
        for (verdict, sources) in limiter.counts.iter().enumerate() {
            for (source, count) in sources.iter().enumerate() {
                let count = count.load(Relaxed);
                if count > 0 {
                    *sums.entry((limiter.route.clone(), limiter.rule.clone(), verdict, source)).or_default() += count;
                }
            }
        }
    });
    let series = sums.iter().map(|((route, rule, verdict, source), count)| {
        let labels = [
            ("route", &**route),
            ("rule", &**rule),
            ("verdict", VerdictKind::ALL[*verdict].as_str()),
            ("source", SOURCES[*source].map_or("none", Source::as_str)),
        ];
        (labels, ConstCounter::new(*count))
    });
    family(encoder, "tollgate_limiter_decisions", "Verdicts of RequestRateLimiters by route, rule and source", series)
}
