//! Counters of slots: verdicts, what is in flight, and what became of renewals.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tollgate_filters::request_rate_limiter::VerdictKind;
use tollgate_limiter::concurrency::{LeaseStats, Renewal};
use tollgate_limiter::verdict::{Outcome, Verdict};

use crate::telemetry::metrics::Metrics;
use crate::telemetry::verdicts::LimiterMetrics;

/// One worker's slots of one `ConcurrencyLimiter`.
#[derive(Debug)]
pub struct ConcurrencyMetrics {
    route: Arc<str>,
    rule: Box<str>,
    verdicts: LimiterMetrics,
    leases: Arc<LeaseStats>,
}

/// What `/metrics` shows of them.
#[derive(Debug)]
pub struct ConcurrencyCollector(pub Arc<Metrics>);

impl ConcurrencyMetrics {
    pub(super) fn new(route: &Arc<str>, rule: &str) -> Self {
        let verdicts = LimiterMetrics::new(route, rule);
        Self { route: Arc::clone(route), rule: rule.into(), verdicts, leases: Arc::default() }
    }

    /// Whether these are the series of the limiter `rule` on `route`.
    pub(super) fn is_of(&self, route: &str, rule: &str) -> bool {
        &*self.route == route && &*self.rule == rule
    }

    /// Counts a verdict.
    pub fn observe(&self, verdict: &Verdict) {
        let finding = match verdict.outcome {
            Outcome::Allowed => VerdictKind::Allowed,
            Outcome::Denied { .. } | Outcome::NeverAdmitted => VerdictKind::Denied,
            Outcome::StoreUnavailable { .. } => VerdictKind::Unavailable,
        };
        self.verdicts.observe(finding, Some(verdict.source));
    }

    /// Where leases are counted.
    #[must_use]
    pub fn leases(&self) -> &Arc<LeaseStats> {
        &self.leases
    }
}

/// What the workers have together.
#[derive(Default)]
struct Sums {
    verdicts: BTreeMap<(&'static str, &'static str), u64>,
    in_flight: u64,
    renewals: [u64; Renewal::ALL.len()],
    overruns: u64,
}

impl Collector for ConcurrencyCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sums: BTreeMap<(Arc<str>, Box<str>), Sums> = BTreeMap::new();
        self.0.each_concurrency(|series| {
            let sums = sums.entry((Arc::clone(&series.route), series.rule.clone())).or_default();
            series.verdicts.each(|verdict, source, count| {
                *sums.verdicts.entry((verdict, source)).or_default() += count;
            });
            sums.in_flight += series.leases.in_flight();
            for (sum, outcome) in sums.renewals.iter_mut().zip(Renewal::ALL) {
                *sum += series.leases.renewals(outcome);
            }
            sums.overruns += series.leases.overruns();
        });
        let mut family = encoder.encode_descriptor(
            "tollgate_concurrency_decisions",
            "Verdicts of ConcurrencyLimiters by route, rule, verdict and who decided",
            None,
            MetricType::Counter,
        )?;
        for ((route, rule), sums) in &sums {
            for ((verdict, source), count) in &sums.verdicts {
                let labels = [("route", &**route), ("rule", &**rule), ("verdict", verdict), ("source", source)];
                ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
            }
        }
        let mut family = encoder.encode_descriptor(
            "tollgate_concurrency_in_flight",
            "Requests of this gateway that hold a slot",
            None,
            MetricType::Gauge,
        )?;
        for ((route, rule), sums) in &sums {
            let in_flight = i64::try_from(sums.in_flight).unwrap_or(i64::MAX);
            ConstGauge::new(in_flight).encode(family.encode_family(&[("route", &**route), ("rule", &**rule)])?)?;
        }
        let mut family = encoder.encode_descriptor(
            "tollgate_concurrency_renewals",
            "Renewals of leases in Redis by what became of them",
            None,
            MetricType::Counter,
        )?;
        for ((route, rule), sums) in &sums {
            for (outcome, count) in Renewal::ALL.iter().zip(sums.renewals) {
                let labels = [("route", &**route), ("rule", &**rule), ("outcome", outcome.as_str())];
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        let mut family = encoder.encode_descriptor(
            "tollgate_concurrency_overruns",
            "Requests that lost their slot to others and went on",
            None,
            MetricType::Counter,
        )?;
        for ((route, rule), sums) in &sums {
            let labels = [("route", &**route), ("rule", &**rule)];
            ConstCounter::new(sums.overruns).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
