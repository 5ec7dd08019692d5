//! Helpers for collectors of `prometheus_client`.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::gauge::ConstGauge;

/// Label set of a metric with one series.
pub const NO_LABELS: [(&str, &str); 0] = [];

/// Encodes a metric family with its series.
///
/// # Errors
/// The encoder fails.
pub fn family<M: EncodeMetric + TypedMetric, L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = (L, M)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, M::TYPE)?;
    for (labels, metric) in series {
        metric.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// Returns a gauge of an unsigned number, at most `i64::MAX`.
pub fn gauge<N: TryInto<i64>>(value: N) -> ConstGauge<i64> {
    ConstGauge::new(value.try_into().unwrap_or(i64::MAX))
}

/// Encodes a histogram of times in seconds. `counts` has one element more than `bounds_us`.
///
/// # Errors
/// The encoder fails.
#[expect(clippy::cast_precision_loss, reason = "microseconds in seconds")]
pub fn time_histogram(encoder: &mut MetricEncoder<'_>, bounds_us: &[u64], counts: &[u64], sum_us: u64) -> fmt::Result {
    let bounds = bounds_us.iter().map(|us| *us as f64 / 1e6).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(counts.iter().copied()).collect();
    encoder.encode_histogram::<[(&str, &str); 0]>(sum_us as f64 / 1e6, counts.iter().sum(), &buckets, None)
}
