//! What is counted of a cache, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Requests by what the cache did with them.
#[derive(Debug, Default)]
pub struct CacheStats {
    counts: [AtomicU64; CacheOutcome::ALL.len()],
}

/// What a cache did with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheOutcome {
    /// Answered it.
    Hit,
    /// Had no answer to it.
    Miss,
    /// Answered it after the upstream had said that the kept answer still holds.
    Revalidated,
    /// Let it pass.
    Bypass,
}

impl CacheOutcome {
    /// Every outcome, in the order in which they are declared.
    pub const ALL: [Self; 4] = [Self::Hit, Self::Miss, Self::Revalidated, Self::Bypass];

    /// The word for it in metrics.
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
    /// Requests with this outcome.
    #[must_use]
    pub fn count(&self, outcome: CacheOutcome) -> u64 {
        self.counts[outcome as usize].load(Relaxed)
    }

    pub(super) fn observe(&self, outcome: CacheOutcome) {
        self.counts[outcome as usize].fetch_add(1, Relaxed);
    }
}
