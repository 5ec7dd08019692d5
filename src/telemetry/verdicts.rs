//! Counters of verdicts: written by one worker each, summed when they are read.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use tollgate_filters::request_rate_limiter::VerdictKind;
use tollgate_limiter::verdict::Source;

/// One worker's verdicts of one limiter.
#[derive(Debug)]
pub struct LimiterMetrics {
    route: Arc<str>,
    rule: Box<str>,
    counts: [[AtomicU64; SOURCES.len()]; VerdictKind::ALL.len()],
}

/// Who decided; nobody, where a list of keys said so.
const SOURCES: [Option<Source>; 5] =
    [Some(Source::Memory), Some(Source::Redis), Some(Source::DenialCache), Some(Source::Fallback), None];

impl LimiterMetrics {
    /// Whether these are the series of the limiter `rule` on `route`.
    pub(super) fn is_of(&self, route: &str, rule: &str) -> bool {
        &*self.route == route && &*self.rule == rule
    }

    pub(super) fn new(route: &Arc<str>, rule: &str) -> Self {
        Self { route: Arc::clone(route), rule: rule.into(), counts: Default::default() }
    }

    /// Shows `look` each verdict, who decided, and how often, where that is not never.
    pub(super) fn each(&self, mut look: impl FnMut(&'static str, &'static str, u64)) {
        for (finding, sources) in VerdictKind::ALL.iter().zip(&self.counts) {
            for (source, count) in SOURCES.iter().zip(sources) {
                match count.load(Relaxed) {
                    0 => {}
                    count => look(finding.as_str(), source.map_or("none", Source::as_str), count),
                }
            }
        }
    }

    /// Counts what was found of a request.
    pub fn observe(&self, finding: VerdictKind, source: Option<Source>) {
        let which = VerdictKind::ALL.iter().position(|known| *known == finding).unwrap_or(0);
        let source = SOURCES.iter().position(|known| *known == source).unwrap_or(0);
        // One worker writes: a load and a store do what a locked add would.
        let count = &self.counts[which][source];
        count.store(count.load(Relaxed) + 1, Relaxed);
    }
}

/// What all workers' limiters decided together.
pub(super) fn encode<'m>(
    encoder: &mut DescriptorEncoder<'_>,
    limiters: impl Iterator<Item = &'m LimiterMetrics>,
) -> fmt::Result {
    let mut sums: BTreeMap<(Arc<str>, Box<str>, usize, usize), u64> = BTreeMap::new();
    for limiter in limiters {
        for (which, sources) in limiter.counts.iter().enumerate() {
            for (source, count) in sources.iter().enumerate() {
                let count = count.load(Relaxed);
                if count > 0 {
                    *sums.entry((limiter.route.clone(), limiter.rule.clone(), which, source)).or_default() += count;
                }
            }
        }
    }
    let mut family = encoder.encode_descriptor(
        "tollgate_limiter_decisions",
        "Verdicts by route, rule, verdict and who decided",
        None,
        MetricType::Counter,
    )?;
    for ((route, rule, which, source), count) in &sums {
        let labels = [
            ("route", &**route),
            ("rule", &**rule),
            ("verdict", VerdictKind::ALL[*which].as_str()),
            ("source", SOURCES[*source].map_or("none", Source::as_str)),
        ];
        ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
