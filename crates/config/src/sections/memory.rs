//! `memory` and `metering`: limits and counts that the gateway keeps in memory.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::Deserialize;

use crate::de::defaults::{Flag, Or, secs};
use crate::de::ranged::PositiveTime;

/// Limits kept in memory.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub struct Memory {
    /// Maximum number of keys in memory. If a limiter has used its share, its new keys share buckets. Default {}, some tens of megabytes.
    pub max_keys: Or<NonZeroUsize, 1_000_000>,
    /// Hands the buckets to the process that follows: on SIGUSR2, and in `state-file`. If false, each process starts with full buckets.
    pub hand_over: Flag<true>,
    /// File in which a process that ends leaves its buckets to the next one; its folder must be writable. Default: none.
    pub state_file: Option<PathBuf>,
}

/// Delivery of the counts of `RequestCounter` to Redis.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub struct Metering {
    /// Interval at which counts are sent. Default {}: a killed gateway loses at most as much.
    pub flush_every: Or<PositiveTime, { secs(1) }>,
    /// Counts kept in memory, each a key, route, method and status class; further ones are counted under the key `#`. Default {}, some twenty megabytes.
    pub max_cells: Or<NonZeroUsize, 100_000>,
    /// Batches that may wait for Redis at once; further counts wait in memory.
    pub retry_queue: Or<NonZeroUsize, 16>,
}
