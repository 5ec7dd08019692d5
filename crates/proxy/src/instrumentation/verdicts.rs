//! Metrics of limiter verdicts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use tollgate_filters::request_rate_limiter::VerdictKind;
use tollgate_limiter::verdict::Source;

use crate::http::facts::{LimiterLabels, report};
use crate::instrumentation::metrics::Metrics;
use tollgate_telemetry::encode::family;

/// Verdicts of one limiter on one worker.
#[derive(Debug)]
pub struct LimiterMetrics {
    pub(super) labels: LimiterLabels,
    counts: [[AtomicU64; SOURCES.len()]; VerdictKind::ALL.len()],
    /// One of [`HIDDEN`], [`IN_MEMORY`] and [`IN_STORE`].
    zeros: AtomicU8,
}

/// Series that appear with their first verdict.
const HIDDEN: u8 = 0;
/// Series of a limiter in memory, shown from 0 on.
const IN_MEMORY: u8 = 1;
/// Series of a limiter in Redis, if there is one, shown from 0 on.
const IN_STORE: u8 = 2;

/// Sources of a verdict; `None` for a verdict of a key list, which needs no store.
const SOURCES: [Option<Source>; 5] =
    [Some(Source::Memory), Some(Source::Redis), Some(Source::DenialCache), Some(Source::Fallback), None];

impl LimiterMetrics {
    pub(super) fn new(labels: LimiterLabels) -> Self {
        Self { labels, counts: Default::default(), zeros: AtomicU8::new(HIDDEN) }
    }

    /// Shows the series of a configured rule from 0 on: allowed and denied by its store.
    pub fn configured(&self, is_in_memory: bool) {
        self.zeros.store(if is_in_memory { IN_MEMORY } else { IN_STORE }, Relaxed);
    }

    /// Calls `visit` with verdict, source and count. A count of 0 is left out, unless the rule shows it.
    pub(super) fn for_each(&self, has_redis: bool, mut visit: impl FnMut(&'static str, &'static str, u64)) {
        let shown: &[Option<Source>] = match self.zeros.load(Relaxed) {
            HIDDEN => &[],
            IN_STORE if has_redis => &[Some(Source::Redis), Some(Source::Fallback)],
            _ => &[Some(Source::Memory)],
        };
        self.counts(|kind, source, count| {
            let is_basic = matches!(kind, VerdictKind::Allowed | VerdictKind::Denied);
            if count > 0 || is_basic && shown.contains(&source) {
                visit(kind.as_str(), source.map_or("none", Source::as_str), count);
            }
        });
    }

    /// Calls `visit` with each verdict, its source and its count.
    pub(super) fn counts(&self, mut visit: impl FnMut(VerdictKind, Option<Source>, u64)) {
        for (kind, sources) in VerdictKind::ALL.iter().zip(&self.counts) {
            for (source, count) in SOURCES.iter().zip(sources) {
                visit(*kind, *source, count.load(Relaxed));
            }
        }
    }

    /// Counts a verdict.
    pub fn observe(&self, finding: VerdictKind, source: Option<Source>) {
        let verdict = finding as usize;
        let source = SOURCES.iter().position(|counted| *counted == source).unwrap_or(0);
        report(|facts| facts.limiter.judge(&self.labels, finding));
        // One worker writes: a load and a store suffice, without an atomic add.
        let count = &self.counts[verdict][source];
        count.store(count.load(Relaxed) + 1, Relaxed);
    }
}

/// Labels of a limiter, verdict and source.
type Labels = (LimiterLabels, &'static str, &'static str);

/// Encodes the verdicts of all limiters, summed over workers.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, metrics: &Metrics, has_redis: bool) -> fmt::Result {
    let mut sums: BTreeMap<Labels, u64> = BTreeMap::new();
    metrics.limiters.for_each(|limiter| {
        limiter.for_each(has_redis, |verdict, source, count| {
            *sums.entry((limiter.labels.clone(), verdict, source)).or_default() += count;
        });
    });
    let series = sums.iter().map(|((of, verdict, source), count)| {
        let mut labels = vec![("route", &*of.route), ("rule", &*of.rule)];
        labels.extend(of.plan.as_ref().map(|plan| ("plan", &**plan)));
        labels.extend([("verdict", *verdict), ("source", *source)]);
        (labels, ConstCounter::new(*count))
    });
    let help = "Verdicts of RequestRateLimiters by route, rule, plan and source";
    family(encoder, "tollgate_limiter_decisions", help, series)
}
