//! What is counted of calls.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::error::StoreError;
use super::hot::{CallSizes, Sizes};

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Decides a request.
    Decide,
    /// Corrects what a request took.
    Settle,
    /// Takes, renews or gives back slots of a concurrency limiter.
    Lease,
    /// Looks up who has which plan.
    Plan,
    /// Takes from stocks, fills or sets them.
    Stock,
    /// Brings counts of use.
    Metering,
    /// Says that a gateway lives, and asks how many do.
    Heartbeat,
    /// Reads a server's figures.
    Info,
}

/// How long calls took, from the leave to call until the answer or the deadline: queueing included, calls that their
/// callers gave up left out.
#[derive(Debug, Default)]
pub struct Latencies {
    buckets: [AtomicU64; Latencies::BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// What clients counted, for as long as anybody asks: a client that takes another's place may go on with its counts.
///
/// Clients of one thread had best share one, and those of several none: who writes alone needs not wait.
#[derive(Debug, Default)]
pub struct RedisStats {
    failures: [AtomicU64; StoreError::ALL.len()],
    latencies: [Latencies; Operation::ALL.len()],
    pub(super) script_misses: AtomicU64,
    pub(super) connects: AtomicU64,
    pub(super) denied_from_memory: AtomicU64,
    pub(super) paid_in_advance: AtomicU64,
    pub(super) call_sizes: Sizes,
}

// === impl Operation ===

impl Operation {
    /// Every operation, in the order in which they are declared.
    pub const ALL: [Self; 8] =
        [Self::Decide, Self::Settle, Self::Lease, Self::Plan, Self::Stock, Self::Metering, Self::Heartbeat, Self::Info];

    /// The word for it in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Settle => "settle",
            Self::Lease => "lease",
            Self::Plan => "plan",
            Self::Stock => "stock",
            Self::Metering => "metering",
            Self::Heartbeat => "heartbeat",
            Self::Info => "info",
        }
    }

    pub(super) fn runs_script(self) -> bool {
        !matches!(self, Self::Plan | Self::Info)
    }

    /// Whether requests depend on it: what fails of the others is no decision that Redis did not make.
    pub(super) fn serves_requests(self) -> bool {
        !matches!(self, Self::Heartbeat | Self::Info)
    }
}

// === impl Latencies ===

impl Latencies {
    /// The upper bounds of the buckets in microseconds; a last one holds what took longer. A Redis nearby answers within
    /// the first three, and the default budget of a decision is the tenth.
    pub const BOUNDS_US: [u64; 13] =
        [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000];

    /// Counts a call that took `took`.
    pub fn observe(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = Self::BOUNDS_US.iter().position(|bound| us <= *bound).unwrap_or(Self::BOUNDS_US.len());
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
    }

    /// How many calls fell into each bucket and into no lower one.
    #[must_use]
    pub fn buckets(&self) -> [u64; Self::BOUNDS_US.len() + 1] {
        std::array::from_fn(|at| self.buckets[at].load(Relaxed))
    }

    /// How long all calls took together, in microseconds.
    #[must_use]
    pub fn sum_us(&self) -> u64 {
        self.sum_us.load(Relaxed)
    }
}

// === impl RedisStats ===

impl RedisStats {
    pub(super) fn failed(&self, kind: StoreError) {
        self.failures[kind.index()].fetch_add(1, Relaxed);
    }

    /// Requests that were denied without a call, since Redis had said for how long they are.
    #[must_use]
    pub fn denied_from_memory(&self) -> u64 {
        self.denied_from_memory.load(Relaxed)
    }

    /// Requests that passed without a call, since one before them had brought more than was asked for.
    #[must_use]
    pub fn paid_in_advance(&self) -> u64 {
        self.paid_in_advance.load(Relaxed)
    }

    /// Calls that decided requests, by for how many at a time.
    #[must_use]
    pub fn call_sizes(&self) -> CallSizes {
        self.call_sizes.read()
    }

    /// Decisions that Redis did not make, by the reason.
    #[must_use]
    pub fn failures(&self) -> [(StoreError, u64); StoreError::ALL.len()] {
        StoreError::ALL.map(|kind| (kind, self.failures[kind.index()].load(Relaxed)))
    }

    /// How long calls took that were for `operation`.
    #[must_use]
    pub fn latencies(&self, operation: Operation) -> &Latencies {
        &self.latencies[operation as usize]
    }

    /// Calls for which the script had to be loaded again.
    #[must_use]
    pub fn script_misses(&self) -> u64 {
        self.script_misses.load(Relaxed)
    }

    /// Connections that were made.
    #[must_use]
    pub fn connects(&self) -> u64 {
        self.connects.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_its_place() {
        assert!(Operation::ALL.iter().enumerate().all(|(index, operation)| *operation as usize == index));
    }

    #[test]
    fn a_call_falls_into_the_first_bucket_that_holds_it() {
        let latencies = Latencies::default();
        for us in [0, 100, 101, 1_000_000, 1_000_001] {
            latencies.observe(Duration::from_micros(us));
        }
        let buckets = latencies.buckets();
        assert_eq!((buckets[0], buckets[1], buckets[12], buckets[13]), (2, 1, 1, 1));
        assert_eq!((buckets.iter().sum::<u64>(), latencies.sum_us()), (5, 2_000_202));
    }
}
