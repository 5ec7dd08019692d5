//! What is counted of leases, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What this process holds and what became of its renewals.
#[derive(Debug, Default)]
pub struct LeaseStats {
    in_flight: AtomicU64,
    renewals: [AtomicU64; Renewal::ALL.len()],
    overruns: AtomicU64,
}

/// What became of the renewal of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// It goes on.
    Renewed,
    /// It had ended, and a slot that was free took its place.
    Retaken,
    /// It had ended, and others hold every slot: the request goes on without one.
    Overrun,
    /// The store did not answer; the next one may be in time.
    Failed,
}

impl Renewal {
    /// Every outcome, in the order in which they are declared.
    pub const ALL: [Self; 4] = [Self::Renewed, Self::Retaken, Self::Overrun, Self::Failed];

    /// The word for it in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Renewed => "renewed",
            Self::Retaken => "retaken",
            Self::Overrun => "overrun",
            Self::Failed => "failed",
        }
    }
}

impl LeaseStats {
    /// Requests of this process that hold a slot.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    /// Renewals by what became of them.
    #[must_use]
    pub fn renewals(&self, outcome: Renewal) -> u64 {
        self.renewals[outcome as usize].load(Relaxed)
    }

    /// Requests that lost their slot to others and went on: each is one more than the limit allows, while it lasts.
    #[must_use]
    pub fn overruns(&self) -> u64 {
        self.overruns.load(Relaxed)
    }

    pub(super) fn began(&self) {
        self.in_flight.fetch_add(1, Relaxed);
    }

    pub(super) fn ended(&self) {
        self.in_flight.fetch_sub(1, Relaxed);
    }

    #[cfg(feature = "redis")]
    pub(super) fn renewed(&self, outcome: Renewal, leases: usize) {
        self.renewals[outcome as usize].fetch_add(leases as u64, Relaxed);
    }

    #[cfg(feature = "redis")]
    pub(super) fn overran(&self) {
        self.overruns.fetch_add(1, Relaxed);
    }
}
