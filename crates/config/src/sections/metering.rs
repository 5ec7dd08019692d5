//! `metering:`: delivery of the counts of `RequestCounter` to Redis.

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;

use crate::de::ranged::{PositiveTime, positive};
use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;

/// Delivery of the counts of `RequestCounter` to Redis.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawMetering {
    /// Interval at which counts are sent. Default 1s: a killed gateway loses at most as much.
    flush_every: Option<Spanned<PositiveTime>>,
    /// Counts kept in memory, each a key, route, method and status class; further ones are counted under the key `#`. Default 100000, some twenty megabytes.
    max_cells: Option<NonZeroUsize>,
    /// Batches that may wait for Redis at once; further counts wait in memory. Default 16.
    retry_queue: Option<NonZeroUsize>,
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
pub(crate) fn check(raw: &RawMetering, diagnostics: &mut Diagnostics) -> Metering {
    Metering {
        flush_every: positive(raw.flush_every, 1, diagnostics),
        max_cells: raw.max_cells.unwrap_or(NonZeroUsize::MIN.saturating_add(99_999)),
        retry_queue: raw.retry_queue.unwrap_or(NonZeroUsize::MIN.saturating_add(15)),
    }
}
