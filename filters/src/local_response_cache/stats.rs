//! Counters of a cache, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Numbers of requests by outcome.
#[derive(Debug, Default)]
pub struct CacheStats {
    counts: [AtomicU64; CacheOutcome::ALL.len()],
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheOutcome {
    /// The cache responded.
    Hit,
    /// The cache had no response.
    Miss,
    /// The cache responded after the upstream had confirmed the stored response.
    Revalidated,
    /// The request did not use the cache.
    Bypass,
}

impl CacheOutcome {
    /// All outcomes, in the order of declaration.
    pub const ALL: [Self; 4] = [Self::Hit, Self::Miss, Self::Revalidated, Self::Bypass];

    /// Returns the label value in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Revalidated => "revalidated",
            Self::Bypass => "bypass",
        }
    }
}

impl CacheStats {
    /// Returns the number of requests with this outcome.
    #[must_use]
    pub fn count(&self, outcome: CacheOutcome) -> u64 {
        self.counts[outcome as usize].load(Relaxed)
    }

    pub(super) fn observe(&self, outcome: CacheOutcome) {
        self.counts[outcome as usize].fetch_add(1, Relaxed);
    }
}
