//! `metering:`: delivery of the counts of `RequestCounter` to Redis.

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;

use crate::de::defaults::{Or, secs};
use crate::de::ranged::PositiveTime;

/// Delivery of the counts of `RequestCounter` to Redis.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawMetering {
    /// Interval at which counts are sent. Default {}: a killed gateway loses at most as much.
    flush_every: Or<PositiveTime, { secs(1) }>,
    /// Counts kept in memory, each a key, route, method and status class; further ones are counted under the key `#`. Default {}, some twenty megabytes.
    max_cells: Or<NonZeroUsize, 100_000>,
    /// Batches that may wait for Redis at once; further counts wait in memory.
    retry_queue: Or<NonZeroUsize, 16>,
}

/// Delivery of the counts of `RequestCounter` to Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metering {
    /// Interval at which counts are sent.
    pub flush_every: Duration,
    /// Upper bound of counts in memory.
    pub max_cells: NonZeroUsize,
    /// Upper bound of batches that wait for Redis.
    pub retry_queue: NonZeroUsize,
}

/// Checks `metering:`.
pub(crate) fn check(raw: &RawMetering) -> Metering {
    Metering { flush_every: raw.flush_every.get(), max_cells: raw.max_cells.get(), retry_queue: raw.retry_queue.get() }
}
