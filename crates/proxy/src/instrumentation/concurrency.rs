//! Metrics of concurrency limiters: verdicts, slots in use, renewals of slots.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use tollgate_filters::request_rate_limiter::VerdictKind;
use tollgate_limiter::concurrency::{Renewal, SlotStats};
use tollgate_limiter::verdict::{Outcome, Verdict};

use crate::http::facts::LimiterLabels;
use crate::instrumentation::metrics::Metrics;
use crate::instrumentation::verdicts::LimiterMetrics;
use tollgate_telemetry::encode::{family, gauge};

/// Slots of one `ConcurrencyLimiter` on one worker.
#[derive(Debug)]
pub struct ConcurrencyMetrics {
    verdicts: LimiterMetrics,
    slots: Arc<SlotStats>,
}

impl ConcurrencyMetrics {
    pub(super) fn new(labels: LimiterLabels) -> Self {
        Self { verdicts: LimiterMetrics::new(labels), slots: Arc::default() }
    }

    /// Shows the verdicts of a configured limiter from 0 on.
    pub fn configured(&self, is_in_memory: bool) {
        self.verdicts.configured(is_in_memory);
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

    /// Statistics of these slots.
    pub fn slots(&self) -> &Arc<SlotStats> {
        &self.slots
    }
}

/// Metrics of one limiter, summed over workers.
#[derive(Default)]
struct ConcurrencySums {
    verdicts: BTreeMap<(&'static str, &'static str), u64>,
    in_flight: u64,
    renewals: [u64; Renewal::ALL.len()],
    overruns: u64,
}

/// Sums by route and rule.
type SumsByRule = BTreeMap<LimiterLabels, ConcurrencySums>;

fn sums(metrics: &Metrics, has_redis: bool) -> SumsByRule {
    let mut sums = SumsByRule::new();
    metrics.concurrency.for_each(|series| {
        let sums = sums.entry(series.verdicts.labels.clone()).or_default();
        series.verdicts.for_each(has_redis, |verdict, source, count| {
            *sums.verdicts.entry((verdict, source)).or_default() += count;
        });
        sums.in_flight += series.slots.in_flight();
        for (sum, outcome) in sums.renewals.iter_mut().zip(Renewal::ALL) {
            *sum += series.slots.renewals(outcome);
        }
        sums.overruns += series.slots.overruns();
    });
    sums
}

/// Encodes the concurrency limiters of all routes. `has_redis` is true if slots are kept in Redis.
///
/// # Errors
/// The encoder fails.
pub fn encode(encoder: &mut DescriptorEncoder<'_>, metrics: &Metrics, has_redis: bool) -> fmt::Result {
    let sums = sums(metrics, has_redis);
    let by_rule = || sums.iter().map(|(of, sums)| ([("route", &*of.route), ("rule", &*of.rule)], sums));
    let decisions = by_rule().flat_map(|([route, rule], sums)| {
        sums.verdicts.iter().map(move |((verdict, source), count)| {
            ([route, rule, ("verdict", *verdict), ("source", *source)], ConstCounter::new(*count))
        })
    });
    let help = "Verdicts of ConcurrencyLimiters by route, rule and source";
    family(encoder, "tollgate_concurrency_decisions", help, decisions)?;
    let in_flight = by_rule().map(|(labels, sums)| (labels, gauge(sums.in_flight)));
    let help = "In-flight requests of this gateway that hold a slot";
    family(encoder, "tollgate_concurrency_in_flight", help, in_flight)?;
    let renewals = by_rule().flat_map(|([route, rule], sums)| {
        Renewal::ALL
            .into_iter()
            .zip(sums.renewals)
            .map(move |(outcome, count)| ([route, rule, ("outcome", outcome.as_str())], ConstCounter::new(count)))
    });
    family(encoder, "tollgate_concurrency_renewals", "Renewals of leases in Redis by outcome", renewals)?;
    let overruns = by_rule().map(|(labels, sums)| (labels, ConstCounter::new(sums.overruns)));
    let help = "Requests that continued after their slot was lost";
    family(encoder, "tollgate_concurrency_overruns", help, overruns)
}
