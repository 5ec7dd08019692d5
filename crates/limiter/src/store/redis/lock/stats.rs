//! Counters of decisions under a lock.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::store::redis::error::StoreError;

/// Running counters of [`LockedStore`](super::LockedStore)s.
#[derive(Debug, Default)]
pub struct LockStats {
    pub(super) tries: AtomicU64,
    pub(super) contended: AtomicU64,
    failures: [AtomicU64; StoreError::ALL.len()],
    pub(super) exhausted: AtomicU64,
}

/// Counts of [`LockedStore`](super::LockedStore)s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedStatus {
    /// Attempts to decide under a lock.
    pub tries: u64,
    /// Attempts that found the lock taken, or lost it.
    pub contended: u64,
    /// Decisions that ran out of attempts, time or connections.
    pub exhausted: u64,
    /// Decisions that failed otherwise, by reason.
    pub failures: [(StoreError, u64); StoreError::ALL.len()],
}

// === impl LockStats ===

impl LockStats {
    pub(super) fn failures(&self, kind: StoreError) -> &AtomicU64 {
        &self.failures[kind.index()]
    }

    /// Current counts.
    #[must_use]
    pub fn status(&self) -> LockedStatus {
        let failures = std::array::from_fn(|at| (StoreError::ALL[at], self.failures[at].load(Ordering::Relaxed)));
        LockedStatus {
            tries: self.tries.load(Ordering::Relaxed),
            contended: self.contended.load(Ordering::Relaxed),
            exhausted: self.exhausted.load(Ordering::Relaxed),
            failures,
        }
    }
}
