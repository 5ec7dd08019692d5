//! `memory:`: limits kept in the memory of the gateway.

use std::num::NonZeroUsize;

use serde::Deserialize;

use crate::de::defaults::Or;

/// Limits kept in memory.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawMemory {
    /// Maximum number of keys in memory. If a limiter has used its share, its new keys share buckets. Default {}, some tens of megabytes.
    max_keys: Or<NonZeroUsize, 1_000_000>,
}

/// Limits kept in memory.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Maximum number of keys in memory. If a limiter has used its share, its new keys share buckets.
    pub max_keys: NonZeroUsize,
}

/// Checks `memory:`.
pub(crate) fn check(raw: &RawMemory) -> Memory {
    Memory { max_keys: raw.max_keys.get() }
}
