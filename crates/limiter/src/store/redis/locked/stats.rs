//! What is counted of decisions under a lock.

use std::sync::atomic::{AtomicU64, Ordering};

use super::StoreError;

/// What [`LockedStore`](super::LockedStore)s count, for as long as anybody asks.
#[derive(Debug, Default)]
pub struct LockStats {
    pub(super) tries: AtomicU64,
    pub(super) contended: AtomicU64,
    failures: [AtomicU64; StoreError::ALL.len()],
    pub(super) exhausted: AtomicU64,
}

/// What [`LockedStore`](super::LockedStore)s counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedStatus {
    /// Tries to decide under a lock.
    pub tries: u64,
    /// Tries that met somebody else's lock, or lost their own.
    pub contended: u64,
    /// Decisions that ran out of tries, of time for another, or of connections.
    pub exhausted: u64,
    /// Decisions that failed otherwise, by the reason.
    pub failures: [(StoreError, u64); StoreError::ALL.len()],
}

// === impl LockStats ===

impl LockStats {
    pub(super) fn failures(&self, kind: StoreError) -> &AtomicU64 {
        &self.failures[kind.index()]
    }

    /// The counts as they are.
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
