//! Counters of a cache, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Numbers of requests by outcome.
#[derive(Debug, Default)]
pub struct CacheStats {
    counts: [AtomicU64; CacheOutcome::ALL.len()],
}

tollgate_limiter::labelled! {
    /// The outcome of a request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CacheOutcome {
        /// The cache responded.
        Hit = "hit",
        /// The cache had no response.
        Miss = "miss",
        /// The cache responded after the upstream had confirmed the stored response.
        Revalidated = "revalidated",
        /// The request did not use the cache.
        Bypass = "bypass",
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
