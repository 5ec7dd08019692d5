//! Counters of slots, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of the slots held by this process and of their renewals.
#[derive(Debug, Default)]
pub struct SlotStats {
    in_flight: AtomicU64,
    renewals: [AtomicU64; Renewal::ALL.len()],
    overruns: AtomicU64,
}

crate::labelled! {
    /// Result of the renewal of a slot.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Renewal {
        /// The slot is renewed.
        Renewed = "renewed",
        /// The slot had expired, and a free slot was acquired.
        Retaken = "retaken",
        /// The slot had expired, and all slots are held: the request continues without a slot.
        Overrun = "overrun",
        /// The store did not reply; the next renewal may succeed.
        Failed = "failed",
    }
}

impl SlotStats {
    /// Returns the requests of this process that hold a slot.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    /// Returns the number of renewals with `outcome`.
    #[must_use]
    pub fn renewals(&self, outcome: Renewal) -> u64 {
        self.renewals[outcome as usize].load(Relaxed)
    }

    /// Returns the requests that lost their slot and continued. Each exceeds the limit by one while it lasts.
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
    pub(super) fn renewed(&self, outcome: Renewal, slots: usize) {
        self.renewals[outcome as usize].fetch_add(slots as u64, Relaxed);
    }

    #[cfg(feature = "redis")]
    pub(super) fn overran(&self) {
        self.overruns.fetch_add(1, Relaxed);
    }
}
