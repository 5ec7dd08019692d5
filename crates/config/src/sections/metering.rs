//! `metering`: counts of `RequestCounter` on their way to Redis.

use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::spanned::Spanned;
use crate::de::units::Time;

/// Counts of `RequestCounter` on their way to Redis.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawMetering {
    /// How often they are sent. Default 1s: what a gateway that is killed loses.
    pub(crate) flush_every: Option<Spanned<Time>>,
    /// Counts told apart in memory at most, each a key, route, method and status class; those beyond are counted under the key `#`. Default 100000, some twenty megabytes.
    pub(crate) max_cells: Option<NonZeroUsize>,
    /// Batches that may wait for Redis at once; beyond them counts wait in memory and go along later. Default 16.
    pub(crate) retry_queue: Option<NonZeroUsize>,
}
