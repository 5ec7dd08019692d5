//! Counters of calls of Redis.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::error::StoreError;

/// Purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Decides a request.
    Decide,
    /// Corrects the cost of a request.
    Settle,
    /// Acquires, renews or releases slots of a concurrency limiter.
    Slot,
    /// Looks up the plan of a key.
    Plan,
    /// Reads, sets, grants or withdraws prepaid quota.
    Quota,
    /// Delivers usage counts.
    Metering,
    /// Reports that a gateway is running, and counts gateways.
    Heartbeat,
    /// Reads a server's `INFO`.
    Info,
    /// Reads, sets or removes temporary overrides of limits.
    Overrides,
}

/// Latency histogram of calls, from the start of a request to its reply or deadline. It includes queueing and excludes
/// calls that the caller dropped.
#[derive(Debug, Default)]
pub struct Latencies {
    buckets: [AtomicU64; Latencies::BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// Number of events since the start.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

/// Failed calls by reason.
#[derive(Debug, Default)]
pub struct FailureCounts([Counter; StoreError::ALL.len()]);

/// Counters of one or more clients. They outlive a client, so its successor may continue them.
///
/// Share one value among the clients of one thread, and none between threads: an uncontended counter is cheap.
#[derive(Debug, Default)]
pub struct RedisStats {
    /// Decisions that Redis did not make.
    pub failures: FailureCounts,
    latencies: [Latencies; Operation::ALL.len()],
    /// Calls that had to load their script again.
    pub script_misses: Counter,
    /// Connections established.
    pub connects: Counter,
    /// Requests denied from the denial cache, without a call.
    pub denial_cache_hits: Counter,
    /// Requests allowed from a lease, without a call.
    pub lease_hits: Counter,
    pub(crate) call_sizes: CallSizeCounters,
}

/// Calls to Redis that decided requests, by the number of requests in each. A batch is one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallSizes {
    /// Calls for at most 1, 2, 4, ... 1,024 requests, and more than in the bucket before; the last ones for more.
    pub calls: [u64; 12],
    /// Requests in all calls.
    pub requests: u64,
}

/// Running counters behind [`CallSizes`].
#[derive(Debug, Default)]
pub(crate) struct CallSizeCounters {
    calls: [AtomicU64; 12],
    requests: AtomicU64,
}

// === impl Operation ===

impl Operation {
    /// All operations, in the order of their declaration.
    pub const ALL: [Self; 9] = [
        Self::Decide,
        Self::Settle,
        Self::Slot,
        Self::Plan,
        Self::Quota,
        Self::Metering,
        Self::Heartbeat,
        Self::Info,
        Self::Overrides,
    ];

    /// Returns the label in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Settle => "settle",
            Self::Slot => "lease",
            Self::Plan => "plan",
            Self::Quota => "stock",
            Self::Metering => "metering",
            Self::Heartbeat => "heartbeat",
            Self::Info => "info",
            Self::Overrides => "overrides",
        }
    }

    pub(crate) fn runs_script(self) -> bool {
        !matches!(self, Self::Plan | Self::Info)
    }

    /// Returns true if requests depend on the call. Failures of other calls do not count as failed decisions.
    pub(crate) fn serves_requests(self) -> bool {
        !matches!(self, Self::Heartbeat | Self::Info | Self::Overrides)
    }
}

// === impl Latencies ===

impl Latencies {
    /// Upper bounds of the buckets in microseconds; a last bucket holds longer calls. A Redis in the same network
    /// replies within the first three; the default timeout of a decision is the tenth.
    pub const BOUNDS_US: [u64; 13] =
        [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000];

    /// Records a call that took `elapsed`.
    pub fn observe(&self, elapsed: Duration) {
        let us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        let bucket = Self::BOUNDS_US.iter().position(|bound| us <= *bound).unwrap_or(Self::BOUNDS_US.len());
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
    }

    /// Returns the number of calls in each bucket (not cumulative).
    #[must_use]
    pub fn buckets(&self) -> [u64; Self::BOUNDS_US.len() + 1] {
        std::array::from_fn(|at| self.buckets[at].load(Relaxed))
    }

    /// Total time of all calls in microseconds.
    #[must_use]
    pub fn sum_us(&self) -> u64 {
        self.sum_us.load(Relaxed)
    }
}

// === impl RedisStats ===

impl RedisStats {
    /// Latencies of calls for `operation`.
    #[must_use]
    pub fn latencies(&self, operation: Operation) -> &Latencies {
        &self.latencies[operation as usize]
    }

    /// Calls that decided requests, by the number of requests in each.
    #[must_use]
    pub fn call_sizes(&self) -> CallSizes {
        self.call_sizes.snapshot()
    }
}

// === impl Counter ===

impl Counter {
    /// Returns the number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn increment(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

// === impl FailureCounts ===

impl FailureCounts {
    /// Returns the number of failures for each reason.
    #[must_use]
    pub fn by_reason(&self) -> [(StoreError, u64); StoreError::ALL.len()] {
        StoreError::ALL.map(|kind| (kind, self.of(kind)))
    }

    /// Returns the number of failures for one reason.
    #[must_use]
    pub fn of(&self, kind: StoreError) -> u64 {
        self.0[kind as usize].get()
    }

    pub(crate) fn record(&self, kind: StoreError) {
        self.0[kind as usize].increment();
    }
}

// === impl CallSizes ===

impl CallSizes {
    /// Sum of both values.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let calls = std::array::from_fn(|at| self.calls[at] + other.calls[at]);
        Self { calls, requests: self.requests + other.requests }
    }
}

// === impl CallSizeCounters ===

impl CallSizeCounters {
    /// Counts a call to Redis that decides `requests` requests, coalesced or batched.
    pub(crate) fn record(&self, requests: u64) {
        let last = self.calls.len() - 1;
        let at = requests.max(1).checked_next_power_of_two().map_or(last, |size| size.trailing_zeros() as usize);
        self.calls[at.min(last)].fetch_add(1, Relaxed);
        self.requests.fetch_add(requests, Relaxed);
    }

    fn snapshot(&self) -> CallSizes {
        CallSizes {
            calls: self.calls.each_ref().map(|calls| calls.load(Relaxed)),
            requests: self.requests.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_its_index() {
        assert!(Operation::ALL.iter().enumerate().all(|(index, operation)| *operation as usize == index));
    }

    #[test]
    fn a_call_is_counted_in_the_first_bucket_that_holds_it() {
        let latencies = Latencies::default();
        for us in [0, 100, 101, 1_000_000, 1_000_001] {
            latencies.observe(Duration::from_micros(us));
        }
        let buckets = latencies.buckets();
        assert_eq!((buckets[0], buckets[1], buckets[12], buckets[13]), (2, 1, 1, 1));
        assert_eq!((buckets.iter().sum::<u64>(), latencies.sum_us()), (5, 2_000_202));
    }

    #[test]
    fn call_sizes_are_counted_by_powers_of_two() {
        let sizes = CallSizeCounters::default();
        [1, 2, 3, 4, 5, 1_024, 1_025].into_iter().for_each(|requests| sizes.record(requests));
        let CallSizes { calls, requests } = sizes.snapshot();
        assert_eq!((requests, &calls[..4], &calls[10..]), (2_064, &[1, 1, 2, 1][..], &[1, 1][..]));
        sizes.record(u64::MAX);
        assert_eq!(sizes.snapshot().calls[11], 2);
    }
}
